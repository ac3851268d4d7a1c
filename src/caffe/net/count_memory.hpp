#pragma once

#include <set>

#include "caffe/net/memory_needs.hpp"
#include "gradients.hpp"

namespace caffe {

// What a net needs, from shapes alone. `backward`: diffs count, too. The data of blobs in `absent` do
// not count.
MemoryNeeds CountMemory(const Wiring& wiring, const Gradients& gradients,
                        const std::set<int>& absent, bool backward);

}  // namespace caffe
