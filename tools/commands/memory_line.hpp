#pragma once

#include <cstdint>
#include <string>

#include "caffe/net/memory_needs.hpp"

namespace caffe {

double MiB(int64_t bytes);

// "Memory needed: activations 1.5 MiB, …, total 4 MiB". `history` is that of a solver; a net alone
// has none.
std::string MemoryLine(const MemoryNeeds& needs, int64_t history = 0);

}  // namespace caffe
