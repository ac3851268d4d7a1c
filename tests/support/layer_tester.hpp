#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/work.hpp"

namespace caffe {

// One layer between blobs of its own, for tests:
//   LayerTester relu("type: 'ReLU'", {device, type}, {{2, 3}});
//   relu.SetBottom(0, values); relu.Forward(); relu.top(0).DataAsDouble();
class LayerTester {
 public:
  // `prototxt` is the body of a LayerParameter. One bottom per shape; labels are float, as the
  // traits say. Bottoms are filled with numbers in (-1, 1) that depend on `seed` only and survive a
  // conversion to half and bfloat16 unchanged.
  LayerTester(const std::string& prototxt, Device* device, const TypeTriple& types,
              const std::vector<Shape>& shapes, int tops = 1, uint64_t seed = 1701);

  void Forward();
  // Forward by a work that does what is requested, too. The range of the top is that of its blob.
  void ForwardWith(WorkRequest request);
  // Gradients of sum(top * top_diff) for all bottoms that have one and all parameters.
  void Backward();
  // Sets a bottom, rounded to its type.
  void SetBottom(int index, const std::vector<double>& values);
  std::vector<double> Bottom(int index) const { return bottoms_[index]->DataAsDouble(); }
  std::vector<double> BottomDiff(int index) const { return bottoms_[index]->DiffAsDouble(); }
  std::vector<double> Top(int index = 0) const { return tops_[index]->DataAsDouble(); }
  // Fills the diff of a top with numbers in (-1, 1).
  void RandomTopDiff(int index = 0);
  void SetTopDiff(int index, const std::vector<double>& values) { tops_[index]->SetDiff(values); }
  BlobBase& bottom(int index = 0) { return *bottoms_[index]; }
  BlobBase& top(int index = 0) { return *tops_[index]; }
  LayerBase& layer() { return *layer_; }

  // Compares the gradients of bottoms and of parameters that have one with central differences of
  // sum over tops of top * random weights; for double on the CPU. Elements of a bottom within
  // `kink_range` of `kink` are left out. Adds test failures.
  void CheckGradient(double step = 1e-5, double tolerance = 1e-6, double kink = 0,
                     double kink_range = -1);

 private:
  NodeRanges ShapeAndSetRanges();
  double Objective(const std::vector<std::vector<double>>& weights);

  std::vector<std::shared_ptr<BlobBase>> bottoms_, tops_;
  BlobVec bottom_vec_, top_vec_;
  std::shared_ptr<LayerBase> layer_;
  std::vector<bool> propagate_down_;
  uint64_t seed_;
  std::vector<uint64_t> frozen_;  // the run state that every forward of Objective begins with
};

// `count` numbers in (-1, 1), multiples of 1/128 without 0, that depend on the seed only.
std::vector<double> TestNumbers(int64_t count, uint64_t seed);

// Adds a test failure for the first element that is further away than tolerance * max(1,
// |expected|).
void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance, const std::string& what);

}  // namespace caffe
