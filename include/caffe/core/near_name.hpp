#pragma once

#include <span>
#include <string>
#include <string_view>

namespace caffe {

// The candidate that `name` is probably a slip of, else "". Near are names that differ in few
// letters: one in four, at most three, which are changed, missing, added, or swapped with their
// neighbour. Upper and lower case count as equal; names of one or two letters differ in case alone.
std::string NearName(std::string_view name, std::span<const std::string> candidates);

}  // namespace caffe
