#pragma once

#include <span>
#include <string>
#include <string_view>

namespace caffe {

// The candidate that `name` is probably a typing error of, else "". Two names are similar if few
// letters differ: one in four, at most three, which are changed, missing, added, or swapped with a
// neighbour. Upper and lower case are equal; names of one or two letters may differ only in case.
std::string NearName(std::string_view name, std::span<const std::string> candidates);
// "; did you mean X?" with NearName, for the end of a message; empty without one.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

}  // namespace caffe
