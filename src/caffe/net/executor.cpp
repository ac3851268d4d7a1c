#include "executor.hpp"

#include <algorithm>
#include <utility>

#include "describe_step.hpp"
#include "in_layer.hpp"

namespace caffe {

// Makes a blob that the last forward did not keep: runs the nodes that compute it one by one. Their
// bottoms may be such blobs, too.
class Executor::RecomputedBlob final : public SyncedMemory::Source {
 public:
  RecomputedBlob(Executor* executor, int blob) : executor_(executor), blob_(blob) {
    // All nodes that write the blob, and in their steps those before them.
    for (const Step& step : executor->plan_.steps) {
      size_t count = 0;
      for (size_t i = 0; i < step.nodes.size(); ++i) {
        const std::vector<int>& tops = executor->wiring_.nodes[step.nodes[i]].top_ids;
        if (std::find(tops.begin(), tops.end(), blob) != tops.end()) count = i + 1;
      }
      nodes_.insert(nodes_.end(), step.nodes.begin(), step.nodes.begin() + count);
    }
  }

  void Make(SyncedMemory*) override {
    const BlobBase& blob = *executor_->wiring_.blobs[blob_];
    for (int node : nodes_) {
      CAFFE_CHECK(executor_->runner_->HasNotedShapes(node), "blob ", blob.name(),
                  " was not kept by the last forward, and blobs from which it is computed have ",
                  "other shapes now; run forward first, or have the net keep the blob");
    }
    for (int node : nodes_) executor_->RunNode(node);
  }

 private:
  Executor* executor_;
  int blob_;
  std::vector<int> nodes_;
};

Executor::Executor(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges,
                   Workspace* workspace, Plan plan, std::unique_ptr<ActivationArena> arena)
    : wiring_(wiring),
      runner_(runner),
      ranges_(ranges),
      workspace_(workspace),
      plan_(std::move(plan)),
      arena_(std::move(arena)),
      works_(plan_.steps.size()),
      channels_last_(wiring.blobs.size()),
      sources_(wiring.blobs.size()) {}

Executor::~Executor() = default;

std::unique_ptr<Work> Executor::MakeWork(const Step& step) const {
  const Node& node = wiring_.nodes[step.nodes[0]];
  BlobVec bottom, top;
  for (int id : node.bottom_ids) bottom.push_back(Array(id, step.layouts.x));
  for (int id : step.tops) top.push_back(Array(id, step.layouts.y));
  WorkRequest request;
  request.layouts = step.layouts;
  request.maps = step.maps;
  request.stages = step.stages;
  request.slopes = step.slopes;
  if (step.residual >= 0) request.residual = Array(step.residual, step.layouts.y);
  const std::vector<BlobRange>& ranges = ranges_->top_ranges(step.nodes.back());
  if (node.quantized && !ranges.empty()) request.top_range = ranges[0];
  return node.layer->MakeWork(request, bottom, top);
}

BlobBase* Executor::Array(int blob, Layout layout) const {
  if (layout == Layout::kNCHW) return wiring_.blobs[blob].get();
  return channels_last_[plan_.channels_last[blob]].get();
}

// Makes the arrays in kNHWC that the step reads or writes, in the shapes of their blobs.
void Executor::PrepareArrays(const Step& step) {
  const auto prepare = [this](int id) {
    const BlobBase& blob = *wiring_.blobs[id];
    std::shared_ptr<BlobBase>& array = channels_last_[plan_.channels_last[id]];
    if (!array) {
      array = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name() + " (NHWC)");
    } else if (array->shape() != blob.shape()) {
      array->ReshapeLike(blob);
    }
  };
  for (const std::vector<Conversion>* conversions : {&step.before, &step.after}) {
    for (const Conversion& conversion : *conversions) {
      prepare(conversion.blob);
      const DataType type = wiring_.blobs[conversion.blob]->type();
      if (!converters_.count(type)) {
        converters_.try_emplace(type, wiring_.blobs[conversion.blob]->device(), type);
      }
    }
  }
  if (step.layouts.x == Layout::kNHWC) {
    for (int id : wiring_.nodes[step.nodes[0]].bottom_ids) prepare(id);
  }
  if (step.layouts.y == Layout::kNHWC) {
    for (int id : step.tops) prepare(id);
    if (step.residual >= 0) prepare(step.residual);
  }
}

void Executor::Convert(const std::vector<Conversion>& conversions) {
  for (const Conversion& conversion : conversions) {
    const bool to_nhwc = conversion.to == Layout::kNHWC;
    const BlobBase* from = Array(conversion.blob, to_nhwc ? Layout::kNCHW : Layout::kNHWC);
    BlobBase* to = Array(conversion.blob, conversion.to);
    converters_.at(from->type())
        .Run(from->shape(), from->device_data(), to->mutable_device_data(), conversion.to);
  }
}

void Executor::Prepare(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  for (int node : step.nodes) runner_->ReshapeIfNeeded(node);
  PrepareArrays(step);
  const Node& first = wiring_.nodes[step.nodes[0]];
  const int shape_epoch = runner_->shape_epoch(step.nodes[0]);
  const bool own_operator = step.fused() || step.layouts != LayoutPair{};
  const bool stale = own_operator && (own.shape_epoch != shape_epoch ||
                                      (first.quantized && own.range_epoch != ranges_->epoch()));
  InLayer(*first.layer, [&] {
    if (!own.work || stale) {
      own.work = MakeWork(step);
      own.shape_epoch = shape_epoch;
      own.range_epoch = ranges_->epoch();
    }
    own.work->Prepare();
    workspace_->Need(own.work->workspace_bytes());
  });
}

void Executor::Run(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] {
    Convert(step.before);
    own.work->Run(workspace_->Need(own.work->workspace_bytes()));
    Convert(step.after);
  });
  for (int node : step.nodes) runner_->NoteRun(node);
  for (int blob : step.swallowed) Forget(blob);
  for (int blob : step.unstored) Forget(blob);
  ranges_->Publish(step.nodes.back());
}

void Executor::Forget(int blob) {
  if (!sources_[blob]) sources_[blob] = std::make_shared<RecomputedBlob>(this, blob);
  wiring_.blobs[blob]->data_memory()->SetSource(sources_[blob]);
}

void Executor::RunNode(int node) {
  runner_->ReshapeIfNeeded(node);
  runner_->Prepare(node);
  runner_->Forward(node);
  ranges_->Publish(node);
}

std::vector<StepInfo> Executor::Describe() {
  ranges_->Update();
  std::vector<StepInfo> steps;
  for (size_t i = 0; i < works_.size(); ++i) {
    Prepare(i);
    steps.push_back(DescribeStep(wiring_, plan_.steps[i], *works_[i].work));
  }
  return steps;
}

void Executor::Forward(int first, int last, const Observers& observers, bool per_layer) {
  ranges_->Update();
  if (first > 0) {
    const std::vector<int> before = wiring_.AddedNodesBefore(first, last);
    for (auto node = before.rbegin(); node != before.rend(); ++node) RunNode(*node);
  }
  const auto within = [&](const Step& step) {
    return step.nodes.front() >= first && step.nodes.back() <= last;
  };
  for (size_t i = 0; i < works_.size(); ++i) {
    if (within(plan_.steps[i])) Prepare(i);
  }
  try {
    if (arena_) arena_->Place(workspace_->device());
    for (size_t i = 0; i < works_.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (!within(step)) continue;
      const Node& node = wiring_.nodes[step.nodes[0]];
      for (PassObserver* observer : observers) observer->BeforeForward(node);
      // A layer before this one may have shapes that depend on its data, and an observer may have
      // written parameters.
      if (per_layer || !HasNotedShapes(step)) Prepare(i);
      Run(i);
      for (PassObserver* observer : observers) observer->AfterForward(node);
    }
  } catch (...) {
    ForgetLost();
    throw;
  }
  ForgetLost();
}

void Executor::ForgetLost() {
  if (!arena_) return;
  for (int blob : arena_->lost()) Forget(blob);
}

std::set<int> Executor::BlobsWithoutMemory() const {
  std::set<int> blobs;
  for (const Step& step : plan_.steps) {
    blobs.insert(step.swallowed.begin(), step.swallowed.end());
    blobs.insert(step.unstored.begin(), step.unstored.end());
  }
  if (arena_) {
    const std::vector<int> placed = arena_->Blobs();
    blobs.insert(placed.begin(), placed.end());
  }
  return blobs;
}

bool Executor::HasNotedShapes(const Step& step) const {
  return std::all_of(step.nodes.begin(), step.nodes.end(),
                     [this](int node) { return runner_->HasNotedShapes(node); });
}

void Executor::MakeForgotten() {
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (sources_[blob] && !wiring_.blobs[blob]->data_memory()->stored()) {
      wiring_.blobs[blob]->device_data();
    }
  }
}

void Executor::Backward(const std::vector<int>& nodes, const Gradients& gradients,
                        const Observers& observers) {
  for (int index : nodes) {
    if (!gradients.needed(index)) continue;
    const Node& node = wiring_.nodes[index];
    for (PassObserver* observer : observers) observer->BeforeBackward(node);
    runner_->Backward(index, gradients.bottoms(index));
    for (PassObserver* observer : observers) observer->AfterBackward(node);
  }
}

}  // namespace caffe
