// Files of the bundled model that are part of the program.
#pragma once

#include <string_view>

namespace kv8 {

enum class BundledFile { kConfig, kTokenizer, kTokenizerConfig, kGenerationConfig, kChatTemplate };

std::string_view BundledText(BundledFile file);

}  // namespace kv8
