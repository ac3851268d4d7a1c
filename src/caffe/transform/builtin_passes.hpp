#pragma once

#include <vector>

#include "caffe/transform/pass_registry.hpp"

namespace caffe {

// An entry of the registry.
struct PassEntry {
  std::string name;
  PassFunction run;
  bool built_in = false;
  bool in_all = false;  // a part of "all"
};

// The passes of Cortado in the order of TransformPasses.
std::vector<PassEntry> BuiltInPasses();

// All entries: those of Cortado, then those of users in the order in which they were added.
std::vector<PassEntry> RegisteredPasses();

}  // namespace caffe
