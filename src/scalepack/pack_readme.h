// The README of a pack, for whoever finds the pack without knowing kv8.
#pragma once

#include <string>

#include "scalepack/manifest.h"

namespace kv8 {

std::string PackReadme(const ScaleManifest& manifest);

}  // namespace kv8
