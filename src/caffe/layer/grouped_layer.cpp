#include "caffe/layer/grouped_layer.hpp"

#include <algorithm>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {
namespace {

// Of neighbouring sizes.
constexpr int64_t kRatio = 4;

}  // namespace

void GroupedLayer::SetUpGroups(const BlobVec& bottom) {
  const int64_t groups = layer_param().moe_param().experts();
  CAFFE_CHECK(groups >= 1, Where(), ": moe_param.experts ", groups, " is not positive");
  groups_ = static_cast<int>(groups);
  CAFFE_CHECK(bottom[1]->count() == groups + 1, Where(), ": ", groups, " experts need ", groups + 1,
              " offsets; blob ", bottom[1]->name(), " has shape ", bottom[1]->shape_string());
}

void GroupedLayer::ResetWeights() {
  weights_.clear();
  ops_.clear();
  made_ = false;
  rows_ = -1;
  for (int group = 0; group < groups_; ++group) {
    weights_.push_back(
        std::make_shared<OperatorWeights>(WeightSource(group), types().compute, device()));
  }
}

void GroupedLayer::ResetOps(int64_t rows, bool backward) {
  ops_.clear();
  made_ = false;
  rows_ = rows;
  backward_ = backward;
  sizes_.clear();
  for (int64_t size = 1; size <= rows; size *= kRatio) sizes_.push_back(size);
  // A group has fewer than kRatio parts of each size but the largest, of which there are fewer in all.
  parts_.reserve(groups_ * (kRatio - 1) * sizes_.size() + kRatio);
}

void GroupedLayer::EnsureOps() {
  if (made_) return;
  ops_.resize(groups_);
  for (int group = 0; group < groups_; ++group) {
    for (const int64_t size : sizes_) {
      try {
        auto op = MakeOp(size, backward_, weights_[group]);
        op->set_forward_only(phase() == TEST && !backward_);
        ops_[group].push_back(std::move(op));
      } catch (const Error& error) {
        CAFFE_THROW(Where(), ": ", error.what());
      }
    }
  }
  made_ = true;
}

void GroupedLayer::PrepareParameters() {
  EnsureOps();
  for (int group = 0; group < groups_; ++group) {
    OperatorWeights& weights = *weights_[group];
    if (weights.quantized()) weights.SetRanges(BottomRange(0), TopRange(0));
    try {
      for (const auto& op : ops_[group]) {
        workspace().Need(op->workspace_bytes());
        op->Prepare();
      }
      if (ops_[group].empty()) weights.Refresh();
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": expert ", group, ": ", error.what());
    }
  }
}

void GroupedLayer::CountMemory(WorkMemory* memory) const {
  const_cast<GroupedLayer*>(this)->EnsureOps();
  for (const auto& ops : ops_) {
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i == 0) {
        ops[i]->CountMemory(memory);
      } else {
        memory->derived += ops[i]->op().prepared_bytes();
      }
    }
  }
}

void GroupedLayer::FindParts(const BlobBase& offsets) {
  const auto* const first = static_cast<const float*>(offsets.host_data());
  parts_.clear();
  for (int group = 0; group < groups_; ++group) {
    auto row = static_cast<int64_t>(first[group]);
    const int64_t end = group + 1 < groups_ ? static_cast<int64_t>(first[group + 1]) : rows_;
    CAFFE_CHECK(row >= 0 && row <= end && end <= rows_, Where(), ": the rows of expert ", group,
                " are from ", row, " to ", end, ", but there are ", rows_);
    for (size_t size = sizes_.size(); size-- > 0;) {
      for (; end - row >= sizes_[size]; row += sizes_[size]) parts_.push_back({group, size, row});
    }
  }
}

DevicePtr GroupedLayer::Row(DevicePtr from, int64_t row, const BlobBase& blob) {
  return from + row * blob.count(1) * static_cast<int64_t>(blob.type().bytes());
}

Epilogue GroupedLayer::BiasAlong(Epilogue::Bias axis, const OperatorWeights& weights) const {
  Epilogue epilogue;
  epilogue.bias = weights.has_bias() ? axis : Epilogue::Bias::kNone;
  epilogue.bias_type = master_type();
  return epilogue;
}

void GroupedLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!made_) PrepareParameters();
  if (bottom[0]->count() == 0) return;
  const DevicePtr x = bottom[0]->device_data(), y = top[0]->mutable_device_data();
  FindParts(*bottom[1]);
  for (const Part& part : parts_) {
    WeightedOp::Operands operands;
    operands.x = Row(x, part.begin, *bottom[0]);
    operands.y = Row(y, part.begin, *top[0]);
    operands.workspace = workspace().Need(op(part).workspace_bytes());
    op(part).Run(operands);
  }
}

LayerFacts GroupedLayer::Facts() const {
  LayerFacts facts;
  facts.host = true;
  return facts;
}

}  // namespace caffe
