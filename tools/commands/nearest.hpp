#pragma once

#include <string>
#include <vector>

namespace caffe {

// The candidate that differs least from `name`, by at most two letters; empty: none does.
std::string Nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace caffe
