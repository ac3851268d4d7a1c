#include "caffe/library/bias.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/epilogue_pass.hpp"

namespace caffe {
namespace {

// With inner = 1, from this number of rows on work groups share the sum of a channel.
constexpr int64_t kManyRows = 1024, kChannelsOfGroup = 32;

}  // namespace

BiasOp::BiasOp(Device* device, DataType type, DataType bias_type, int64_t outer, int64_t channels,
               int64_t inner, std::optional<Epilogue> forward, bool backward)
    : device_(device), outer_(outer), channels_(channels), inner_(inner) {
  const DataType compute = type == kDouble ? kDouble : kFloat;
  CAFFE_CHECK(type.is_float() && bias_type == compute, "a bias of type ", bias_type.name(),
              " cannot be added to ", type.name());
  const TypeTriple types{compute, type, bias_type};
  const bool simple = inner == 1 || !device->has_groups();
  if (forward) {
    const auto axis = inner == 1 ? Epilogue::Bias::kPerColumn : Epilogue::Bias::kPerRow;
    if (forward->bias != Epilogue::Bias::kNone) forward->bias = axis;
    if (forward->slopes != Epilogue::Bias::kNone) forward->slopes = axis;
    forward_ = std::make_unique<EpiloguePass>(device, type, type, *forward);
  }
  if (backward && simple) {
    auto program = ProgramBuilder(device, "bias gradient").Types(types).Body("blas/bias").Build();
    backward_ = program->CreateKernel(inner == 1 ? "bias_backward_columns" : "bias_backward");
  }
  const int64_t group = device->info().group_items();
  const bool by_rows =
      inner == 1 && outer >= kManyRows && device->has_groups() && group >= 2 * kChannelsOfGroup;
  if (!backward || (simple && !by_rows)) return;
  // Enough groups to fill the device, but not more parts, which one item adds, than rounds of work.
  const int64_t groups = by_rows ? ChannelGroups() : channels;
  const int64_t round = by_rows ? group / kChannelsOfGroup : group;
  const auto rounds = static_cast<int64_t>(std::sqrt(outer * inner / round));
  slices_ = std::clamp<int64_t>(4 * device->info().compute_units / groups, 1,
                                std::max<int64_t>(rounds, 1));
  ProgramBuilder builder(device, "bias gradient");
  builder.Types(types).Body("blas/reduce");
  if (by_rows) {
    rows_ = builder.GroupKernel("bias_backward_rows");
  } else {
    backward_ = builder.GroupKernel("bias_backward_groups");
    if (slices_ == 1) return;
  }
  parts_bytes_ = slices_ * channels * static_cast<int64_t>(bias_type.bytes());
  accumulate_ = ProgramBuilder(device, "accumulate")
                    .Types(bias_type)
                    .Body("blas/accumulate")
                    .Build()
                    ->CreateKernel("accumulate_parts");
}

BiasOp::~BiasOp() = default;

int64_t BiasOp::ChannelGroups() const {
  return (channels_ + kChannelsOfGroup - 1) / kChannelsOfGroup;
}

void BiasOp::Forward(DevicePtr x, DevicePtr bias, DevicePtr y, const EpilogueOperands& operands) {
  const int64_t image = channels_ * inner_;
  if (inner_ == 1) {
    forward_->Run({outer_, image, outer_, 0, image, 0, image}, x, y, bias, operands);
  } else {
    forward_->Run({outer_ * channels_, inner_, channels_, image, inner_, image, inner_}, x, y, bias,
                  operands);
  }
}

void BiasOp::Backward(DevicePtr y_diff, DevicePtr b_diff, DevicePtr workspace) {
  if (rows_ && workspace) {
    rows_->LaunchInGroups(LaunchGroups{{ChannelGroups(), slices_, 1}, {rows_->group(), 1, 1}},
                          {outer_, channels_, slices_, y_diff, workspace});
    accumulate_->Launch(channels_, {channels_, slices_, workspace, b_diff});
  } else if (inner_ == 1) {
    backward_->Launch(channels_, {channels_, outer_, y_diff, b_diff});
  } else if (!device_->has_groups()) {
    backward_->Launch(LaunchRange::WithCost(channels_, outer_ * inner_),
                      {channels_, outer_, inner_, y_diff, b_diff});
  } else {
    CAFFE_CHECK(slices_ == 1 || workspace, "the gradient of a bias needs ", parts_bytes_,
                " bytes of workspace");
    const DevicePtr target = slices_ > 1 ? workspace : b_diff;
    backward_->LaunchInGroups(LaunchGroups{{channels_, slices_, 1}, {backward_->group(), 1, 1}},
                              {channels_, outer_, inner_, slices_, y_diff, target});
    if (slices_ > 1) accumulate_->Launch(channels_, {channels_, slices_, workspace, b_diff});
  }
}

}  // namespace caffe
