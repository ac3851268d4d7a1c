#pragma once

#include "caffe/net/memory_needs.hpp"
#include "gradients.hpp"

namespace caffe {

// What a net needs, from shapes alone. `backward`: diffs count, too.
MemoryNeeds CountMemory(const Wiring& wiring, const Gradients& gradients, bool backward);

}  // namespace caffe
