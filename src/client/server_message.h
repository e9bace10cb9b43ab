// What a server says of its refusals.
#pragma once

#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// The message of a JSON body as OpenAI, vLLM, SGLang or llama.cpp write it, else the body itself:
/// one line of at most 300 bytes, with what could confuse a terminal made harmless.
std::string ServerMessage(const std::string& body);

/// Of an answer that is not 2xx. Codes: see HttpClient. `where` is empty.
Error StatusError(int status, const std::string& body);

}  // namespace kv8
