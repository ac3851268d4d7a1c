#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "caffe/library/convolution.hpp"
#include "caffe/library/cudnn/cudnn_api.hpp"

namespace caffe::cudnn {

// The target of plans: the device of a handle, or one that is described as JSON, which need not be
// present.
struct Target {
  Handle handle = nullptr;
  const Descriptor* properties = nullptr;
};

enum class ConvPass { kForward, kData, kWeights };
const char* ConvPassName(ConvPass pass);  // forward, data, weights

// The identifiers of the arrays of a graph. With kWeights, kW is the gradient.
enum TensorId : int64_t { kX = 1, kW = 2, kY = 3, kBias = 4, kResidual = 5 };

// Whether an engine with these notes may compute data of this type, with windows of at most
// `window` elements along an axis: results must repeat bit by bit, no engine may round data or
// partial sums to a shorter type, and transforms may cost a digit, not three.
bool MayUse(DataType type, int64_t window, const std::vector<int>& notes);

// Whether one graph computes the convolution and its epilogue. Other epilogues are a pass of ours.
bool CanFuse(const Epilogue& epilogue);

// An engine of cuDNN and values of its knobs; knobs that are not listed have their defaults.
struct EngineChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value

  bool operator==(const EngineChoice&) const = default;
  std::string text() const;  // "engine 53 knobs 2=1,13=4"
  static std::optional<EngineChoice> Parse(const std::string& text);
};

// A plan of an engine; it can be executed on every stream of the device.
struct ConvPlan {
  Descriptor config, plan;
  int64_t workspace = 0;
};

// One pass of a convolution as a graph of cuDNN's operations.
//
// x and y have the descriptor's layouts; if that is kNHWC, the weights have the order
// (out_channels, kernel…, in_channels / group). Gradients of weights are float.
// The type in which a graph stores gradients of weights: that of x if it is `fused`, else float.
// The engines that use matrix units for all of the work store them in the type of x. Their sums are
// float and are rounded once.
DataType GradientType(const ConvDescriptor& d, bool fused);

class ConvGraph {
 public:
  // With `fused` a forward graph includes the epilogue, and a graph of gradients of weights stores
  // them in GradientType.
  ConvGraph(const Target& target, const ConvDescriptor& d, ConvPass pass, bool fused);

  // The engines that the heuristics recommend, the best one first.
  std::vector<EngineChoice> Recommended(int mode) const;
  // How many engines there are for this graph; most do not support it.
  int64_t engines() const { return graph_.Integer(attribute::kGraphEngines); }

  struct Facts {
    bool compiled_at_run_time = false;
  };
  // No value if cuDNN does not support the choice, or if it may not be used.
  std::optional<Facts> Check(const EngineChoice& choice) const;
  // Null in the same cases. May compile a kernel.
  std::unique_ptr<ConvPlan> Make(const EngineChoice& choice) const;

 private:
  struct Config {
    Descriptor engine, config;
    Facts facts;
  };
  std::optional<Config> MakeConfig(const EngineChoice& choice) const;

  const Target target_;
  const DataType type_;   // of x
  const int64_t window_;  // the largest extent of the window
  std::vector<Descriptor> parts_;
  Descriptor graph_;
};

}  // namespace caffe::cudnn
