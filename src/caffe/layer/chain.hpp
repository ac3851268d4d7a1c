#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/core/layout.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/library/chain.hpp"

namespace caffe {

class Work;

// One stage of a chain.
struct ChainStage {
  ElementFunction function;
  std::vector<Affine> maps;          // of kAffine, in place of constants, in order
  const BlobBase* slopes = nullptr;  // of kPReLU, in place of constants
};

// Element-wise layers that one launch computes.
struct Chain {
  std::vector<ChainStage> stages;
  // The index along the axis selects scales, shifts and slopes. One channel: they are the same for
  // all elements.
  int axis = 1;
  int64_t channels = 1;

  bool empty() const { return stages.empty(); }
  // Adds y = map(x), merged with an affine stage before it; false if the map belongs to other
  // channels.
  bool Add(const Affine& map);
  // y = x if x > 0, else a slope times x; one slope for each channel of axis 1, or one for all.
  bool AddSlopes(const BlobBase* slopes);
  void Add(const ElementFunction& function);
  // y = x + coefficient u. The arrays u are inputs of the work, in the order of these stages.
  void AddSum(double coefficient);
  // Within the limits of ChainOp.
  bool fits() const;

 private:
  bool SetChannels(int axis, int64_t channels);
};

// Computes a chain: the first input is x, the others are the summands. Inputs and top have one
// float type, shape and layout; the top may be x. The arrays must outlive the work.
std::unique_ptr<Work> MakeChainWork(const Chain& chain, const std::vector<BlobBase*>& inputs,
                                    BlobBase* top, Layout layout);

}  // namespace caffe
