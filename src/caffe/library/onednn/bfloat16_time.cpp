#include "caffe/library/onednn/bfloat16_time.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/library/onednn/arrays.hpp"
#include "caffe/library/onednn/onednn_api.hpp"
#include "caffe/library/onednn/onednn_call.hpp"
#include "caffe/library/onednn/threads.hpp"

namespace caffe::onednn {
namespace {

constexpr int64_t kChannels = 128, kRows = 4, kColumns = 16;

// A convolution of 1x1 whose arrays fit into the cache of a thread.
class Probe {
 public:
  explicit Probe(Element type) {
    Description c;
    c.x = c.y = Desc({1, kChannels, kRows, kColumns}, type, Tag::nhwc);
    c.weights = Desc({kChannels, kChannels, 1, 1}, type, Tag::any);
    c.stride = {1, 1};
    c.dilation = c.pad_left = c.pad_right = {0, 0};
    const ForwardPlan plan = PlanForward(Engine(), c, false, Attributes());
    const auto zeros = [](const Desc& desc) { return std::vector<char>(desc.get_size() + 1); };
    x_ = zeros(plan.src_desc());
    weights_ = zeros(plan.weights_desc());
    y_ = zeros(plan.dst_desc());
    scratch_ = zeros(plan.scratchpad_desc());
    call_ = std::make_unique<Call>(
        dnnl::convolution_forward(plan),
        std::initializer_list<Call::Operand>{{DNNL_ARG_SRC, plan.src_desc()},
                                             {DNNL_ARG_WEIGHTS, plan.weights_desc()},
                                             {DNNL_ARG_DST, plan.dst_desc()},
                                             {DNNL_ARG_SCRATCHPAD, plan.scratchpad_desc()}});
  }
  double Seconds() {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    call_->Run({{DNNL_ARG_SRC, x_.data()},
                {DNNL_ARG_WEIGHTS, weights_.data()},
                {DNNL_ARG_DST, y_.data()},
                {DNNL_ARG_SCRATCHPAD, scratch_.data()}});
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  std::vector<char> x_, weights_, y_, scratch_;
  std::unique_ptr<Call> call_;
};

double Measure() {
  constexpr int kRuns = 12;
  const OneThread one;
  double ratio = 1;
  try {
    const auto lock = Making();
    Probe wide(Element::f32), narrow(Element::bf16);
    double wide_time = std::numeric_limits<double>::infinity(), narrow_time = wide_time;
    // In turns, so that both see the same disturbances.
    for (int i = 0; i < kRuns; ++i) {
      wide_time = std::min(wide_time, wide.Seconds());
      narrow_time = std::min(narrow_time, narrow.Seconds());
    }
    ratio = narrow_time / wide_time;
  } catch (const dnnl::error&) {
    // Then the rows do not support bfloat16, and nothing needs the ratio.
  }
  if (log::Topic("library")) {
    log::Info(Concat("oneDNN's convolutions in bfloat16 take ", ratio, " of the time in float"));
  }
  // Noise must not make two processes choose other libraries for a layer, whose bits differ.
  return std::round(2 * ratio) / 2;
}

}  // namespace

double Bfloat16Time() {
  static const double time = Measure();
  return time;
}

}  // namespace caffe::onednn
