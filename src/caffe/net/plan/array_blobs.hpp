#pragma once

#include <memory>
#include <vector>

#include "caffe/net/plan.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// The arrays of blobs, by their index, as blobs of the same shapes: the net's own blob in C order.
// An array is the data of that blob, or its diff.
using ArrayBlobs = std::vector<std::shared_ptr<BlobBase>>;

// Nothing is allocated.
ArrayBlobs MakeArrayBlobs(const Wiring& wiring, const Plan& plan);
// For training: the arrays that a step reads and writes share data and diffs as their blobs do.
// Call it again when one of them was reshaped.
void ShareArrays(const Wiring& wiring, const Arrays& arrays, const Step& step,
                 const ArrayBlobs& blobs);
// Gives them the shapes of the net's blobs.
void ReshapeArrays(const Wiring& wiring, const Arrays& arrays, const ArrayBlobs& blobs);

// The blobs that a step computes without writing their arrays in C order: those between its nodes,
// and tops in another layout.
std::vector<int> HiddenBlobs(const Wiring& wiring, const Step& step);
// Those of each step of the plan that no conversion writes in C order either. A top with the memory
// of a bottom is not one of them: the step that writes that memory has it.
std::vector<std::vector<int>> UnwrittenBlobs(const Wiring& wiring, const Plan& plan);

// The elements of a part of a top in kNHWC, from one position to the next.
int64_t PitchOf(const Wiring& wiring, const Part& part);
// The first element of a part in the top of its node, in kNHWC.
int64_t OffsetOf(const Wiring& wiring, const Part& part);

}  // namespace caffe
