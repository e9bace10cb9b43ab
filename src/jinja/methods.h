// Methods of Python's types.
#pragma once

#include <vector>

#include "jinja/natives.h"

namespace kv8::jinja {

std::vector<Native> CaseMethods();    // of str: letters and classes of characters
std::vector<Native> SearchMethods();  // of str: finding and counting
std::vector<Native> SplitMethods();   // of str: taking apart, joining, replacing, filling
std::vector<Native> ListMethods();    // of list, tuple and range
std::vector<Native> DictMethods();

}  // namespace kv8::jinja
