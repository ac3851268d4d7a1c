#include "works.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"
#include "in_layer.hpp"

namespace caffe {

Works::Works(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Workspace* workspace,
             const Plan& plan, ChannelsLast channels_last, const ActivationArena* arena)
    : wiring_(wiring),
      runner_(runner),
      ranges_(ranges),
      workspace_(workspace),
      plan_(plan),
      arena_(arena),
      works_(plan_.steps.size()),
      channels_last_(std::move(channels_last)) {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    if (step.trains() || !step.gradients.empty()) trained_[step.nodes.back()] = s;
    if (!step.diffs.empty()) converts_diffs_[step.nodes.back()] = s;
  }
}

namespace {

const Step* StepOf(const std::map<int, size_t>& steps, const Plan& plan, int node) {
  const auto found = steps.find(node);
  return found == steps.end() ? nullptr : &plan.steps[found->second];
}

}  // namespace

const Step* Works::Trained(int node) const { return StepOf(trained_, plan_, node); }

const Step* Works::ConvertsDiffs(int node) const { return StepOf(converts_diffs_, plan_, node); }

bool Works::prepared(size_t index) const {
  return works_[index].prepared_epoch == runner_->shape_epoch(plan_.steps[index].nodes[0]);
}

void Works::NeedWorkspaces() {
  if (!PlansWorkspaces()) return;
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].work) WorkspaceOf(i);
  }
}

std::unique_ptr<Work> Works::MakeWork(const Step& step) const {
  const Node& node = wiring_.nodes[step.nodes[0]];
  BlobVec bottom, top;
  for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
    bottom.push_back(Array(node.bottom_ids[b], step.bottom_layout(b)));
  }
  for (int id : step.tops) top.push_back(Array(id, step.layouts.y));
  if (!step.chain.empty()) {
    for (int id : step.summands) bottom.push_back(Array(id, step.layouts.y));
    return MakeChainWork(step.chain, bottom, top[0], step.layouts.y);
  }
  WorkRequest request;
  request.layouts = step.layouts;
  request.layouts.y_pitch = Pitch(step);
  request.maps = step.maps;
  request.stages = step.stages;
  request.slopes = step.slopes;
  request.scale = step.scale;
  request.gradients = step.gradients;
  if (!step.summands.empty()) request.residual = Array(step.summands[0], step.layouts.y);
  request.last = &ranges_->of(step.nodes.back());
  for (const int n : step.nodes) {
    const std::vector<int>& bottoms = wiring_.nodes[n].bottom_ids;
    if (!request.residual || bottoms.size() != 2) continue;
    request.sum = &ranges_->of(n);
    request.residual_bottom = bottoms[0] == step.summands[0] ? 0 : 1;
  }
  return node.layer->MakeWork(request, bottom, top);
}

BlobBase* Works::Array(int blob, Layout layout) const {
  if (layout == Layout::kNCHW) return wiring_.blobs[blob].get();
  return channels_last_[plan_.channels_last[blob]].get();
}

int64_t Works::Pitch(const Step& step) const { return step.part ? PitchOf(wiring_, step.part) : 0; }

void Works::PlacePart(const Step& step) {
  BlobBase& whole = *Array(wiring_.nodes[step.part.node].top_ids[0], Layout::kNHWC);
  whole.mutable_device_data();
  const SyncedMemory& memory = *whole.data_memory();
  const int64_t offset = OffsetOf(wiring_, step.part);
  Array(step.tops[0], Layout::kNHWC)
      ->data_memory()
      ->Borrow(memory.buffer(),
               memory.offset() + offset * static_cast<int64_t>(whole.type().bytes()));
}

// Of a type; its program is built at the first call.
LayoutConverter& Works::Converter(DataType type) {
  auto found = converters_.find(type);
  if (found == converters_.end()) {
    found = converters_.try_emplace(type, workspace_->device(), type).first;
  }
  return found->second;
}

// The step's arrays in kNHWC take the shapes of their blobs.
void Works::PrepareArrays(const Step& step) {
  ForEachArray(wiring_.nodes[step.nodes[0]].bottom_ids, step, Layout::kNHWC, [&](int id, bool) {
    BlobBase& array = *Array(id, Layout::kNHWC);
    if (array.shape() != wiring_.blobs[id]->shape()) array.ReshapeLike(*wiring_.blobs[id]);
  });
  ShareChannelsLast(wiring_, step, channels_last_);
  for (const std::vector<Conversion>* conversions : {&step.before, &step.after, &step.diffs}) {
    for (const Conversion& one : *conversions) Converter(wiring_.blobs[one.blob]->type());
  }
}

void Works::ConvertDiffs(const std::vector<Conversion>& conversions) {
  for (const auto& [blob, to] : conversions) {
    const BlobBase& source = *Array(blob, to == Layout::kNHWC ? Layout::kNCHW : Layout::kNHWC);
    Converter(source.type())
        .Run(source.shape(), source.device_diff(), Array(blob, to)->overwrite_device_diff(), to);
  }
}

void Works::Convert(const std::vector<Conversion>& conversions, int64_t pitch) {
  for (const auto& [blob, to] : conversions) {
    const BlobBase& source = *Array(blob, to == Layout::kNHWC ? Layout::kNCHW : Layout::kNHWC);
    Converter(source.type())
        .Run(source.shape(), source.device_data(), Array(blob, to)->overwrite_device_data(), to,
             pitch);
  }
}

void Works::Prepare(size_t index) {
  PrepareStep(index);
  PrepareWork(index);
}

void Works::PrepareStep(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  for (int node : step.nodes) runner_->ReshapeIfNeeded(node);
  PrepareArrays(step);
  const Node& first = wiring_.nodes[step.nodes[0]];
  const int shape_epoch = runner_->shape_epoch(step.nodes[0]);
  const bool own_operator = step.fused() || step.layouts != LayoutPair{};
  const bool stale = own_operator && (own.shape_epoch != shape_epoch || own.pitch != Pitch(step) ||
                                      (first.quantized && own.range_epoch != ranges_->epoch()));
  InLayer(*first.layer, [&] {
    if (!own.work || stale) {
      own.work = MakeWork(step);
      own.serial = ++works_made_;
      own.shape_epoch = shape_epoch;
      own.range_epoch = ranges_->epoch();
      own.pitch = Pitch(step);
      own.prepared_epoch = -1;
    }
  });
}

void Works::PrepareWork(size_t index) {
  const int node = plan_.steps[index].nodes[0];
  StepWork& own = works_[index];
  InLayer(*wiring_.nodes[node].layer, [&] {
    own.work->Prepare();
    if (!PlansWorkspaces()) workspace_->Need(own.work->workspace_bytes());
  });
  own.prepared_epoch = runner_->shape_epoch(node);
}

// Returns whether the step is recorded.
bool Works::BeginStep() {
  Capture* const capture = Capture::Of(workspace_->device());
  if (capture) capture->NextStep();
  workspace_->Next();
  return capture != nullptr;
}

// The step writes some columns of the array of which its top is a part.
void Works::NoteColumns(const Step& step) const {
  const SyncedMemory& whole =
      *Array(wiring_.nodes[step.part.node].top_ids[0], Layout::kNHWC)->data_memory();
  if (!whole.buffer()) return;
  const BlobBase& top = *Array(step.tops[0], Layout::kNHWC);
  const int64_t size = static_cast<int64_t>(top.type().bytes());
  const int64_t first = OffsetOf(wiring_, step.part) * size;
  Capture::NoteColumns(workspace_->device(), whole.buffer()->pointer() + whole.offset(),
                       whole.bytes(), Pitch(step) * size, first, first + top.shape(1) * size);
}

void Works::Run(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  if (BeginStep() && step.part) NoteColumns(step);
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] {
    Convert(step.before);
    own.work->Run(WorkspaceOf(index));
    Convert(step.after);
  });
}

const StepWorkspaces& Works::FindWorkspaces() {
  if (!PlansWorkspaces()) return workspaces_;
  workspaces_.shared = workspace_->bytes();
  workspaces_.bytes.resize(works_.size());
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].work) workspaces_.Set(i, *works_[i].work);
  }
  return workspaces_;
}

DevicePtr Works::WorkspaceOf(size_t index) {
  const int64_t bytes = works_[index].work->workspace_bytes();
  const DevicePtr planned = PlansWorkspaces() ? arena_->WorkspaceOf(index, bytes) : DevicePtr();
  if (!planned) return workspace_->Need(bytes);
  Capture::NoteExtent(workspace_->device(), planned, bytes);
  return planned;
}

// Content that is not stored is not made for tops that are written now.
void Works::ForgetTops(const std::vector<int>& tops, const std::vector<int>& bottoms) {
  for (int top : tops) {
    SyncedMemory& memory = *wiring_.blobs[top]->data_memory();
    const bool read = std::any_of(bottoms.begin(), bottoms.end(), [&](int bottom) {
      return wiring_.blobs[bottom]->data_memory().get() == &memory;
    });
    if (!memory.stored() && !read) memory.Discard();
  }
}

// Computes the node's tops as in the last forward.
void Works::RepeatNode(int node) {
  ForgetTops(wiring_.nodes[node].top_ids, wiring_.nodes[node].bottom_ids);
  runner_->ReshapeIfNeeded(node);
  runner_->Prepare(node);
  runner_->RepeatForward(node);
  ranges_->Publish(node);
}

// Computes the tops of a step of several nodes, with the same bits as the last forward.
void Works::RepeatStep(size_t index) {
  const Step& step = plan_.steps[index];
  std::vector<int> read = wiring_.nodes[step.nodes[0]].bottom_ids;
  const size_t bottoms = read.size();
  read.insert(read.end(), step.summands.begin(), step.summands.end());
  // First, because making these uses the workspace, too.
  for (int id : read) wiring_.blobs[id]->device_data();
  ForgetTops(step.tops, read);
  Prepare(index);
  StepWork& own = works_[index];
  // The arrays in kNHWC have the bytes of others now, or none.
  std::vector<Conversion> before, after;
  for (size_t i = 0; i < read.size(); ++i) {
    if ((i < bottoms ? step.bottom_layout(i) : step.layouts.y) == Layout::kNHWC) {
      before.push_back({read[i], Layout::kNHWC});
    }
  }
  if (step.layouts.y == Layout::kNHWC) {
    for (int top : step.tops) after.push_back({top, Layout::kNCHW});
  }
  if (step.part) {
    Prepare(index);  // the shape of the whole array may have been computed only now
    PlacePart(step);
  }
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] {
    Convert(before);
    own.work->Repeat(workspace_->Need(own.work->workspace_bytes()));
    Convert(after, Pitch(step));
  });
  if (step.part) Array(step.tops[0], Layout::kNHWC)->data_memory()->Return();
  ranges_->Publish(step.nodes.back());
}

void Works::RunAgain(int index) {
  BeginStep();
  const auto trained = trained_.find(index);
  if (trained == trained_.end()) return runner_->RepeatForward(index);
  Work& work = *works_[trained->second].work;
  InLayer(*wiring_.nodes[plan_.steps[trained->second].nodes[0]].layer,
          [&] { work.Repeat(workspace_->Need(work.workspace_bytes())); });
}

void Works::RunBackward(int index, const std::vector<bool>& bottom_gradients) {
  BeginStep();
  const auto trained = trained_.find(index);
  if (trained == trained_.end()) {
    runner_->Backward(index, bottom_gradients);
  } else {
    const Step& step = plan_.steps[trained->second];
    const LayerBase& first = *wiring_.nodes[step.nodes[0]].layer;
    CAFFE_CHECK(HasNotedShapes(trained->second), first.name(), " (", first.type(),
                "): a bottom or top was reshaped since the last forward; run forward first");
    Work& work = *works_[trained->second].work;
    InLayer(first, [&] { work.Backward(workspace_->Need(work.workspace_bytes())); });
  }
  const auto converts = converts_diffs_.find(index);
  if (converts != converts_diffs_.end()) ConvertDiffs(plan_.steps[converts->second].diffs);
}

WorkMemory Works::Count(StepWorkspaces* workspaces) const {
  WorkMemory memory;
  workspaces->bytes.assign(works_.size(), 0);
  workspaces->shared = workspace_->bytes();
  try {
    ranges_->Update();
  } catch (const Error&) {
    // An invalid range: a forward reports it.
  }
  for (size_t i = 0; i < works_.size(); ++i) {
    try {
      const bool current =
          works_[i].work && works_[i].shape_epoch == runner_->shape_epoch(plan_.steps[i].nodes[0]);
      const std::unique_ptr<Work> made = current ? nullptr : MakeWork(plan_.steps[i]);
      const Work& work = current ? *works_[i].work : *made;
      work.CountMemory(&memory);
      workspaces->Set(i, work);
    } catch (const Error&) {
      // A quantized layer has no operator if its ranges are not known.
    }
  }
  return memory;
}

bool Works::HasNotedShapes(size_t index) const {
  const std::vector<int>& nodes = plan_.steps[index].nodes;
  return std::all_of(nodes.begin(), nodes.end(),
                     [this](int node) { return runner_->HasNotedShapes(node); });
}

}  // namespace caffe
