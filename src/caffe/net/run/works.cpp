#include "works.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "caffe/core/error.hpp"
#include "convert_work.hpp"
#include "in_layer.hpp"

namespace caffe {

Works::Works(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Workspace* workspace,
             const Plan& plan, ArrayBlobs array_blobs, const ActivationArena* arena)
    : wiring_(wiring),
      runner_(runner),
      ranges_(ranges),
      workspace_(workspace),
      plan_(plan),
      arena_(arena),
      works_(plan_.steps.size()),
      array_blobs_(std::move(array_blobs)) {
  for (const Step& step : plan_.diffs) diffs_.emplace(step.nodes[0], DiffWork{&step, nullptr});
  FindSteps();
}

void Works::AddStep(size_t step) {
  works_.emplace(works_.begin() + static_cast<long>(step));
  FindSteps();
}

void Works::FindSteps() {
  step_of_.assign(wiring_.nodes.size(), -1);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    if (plan_.steps[s].converts()) continue;
    for (const int node : plan_.steps[s].nodes) step_of_[node] = static_cast<int>(s);
  }
}

const Step* Works::Trained(int node) const {
  const Step& step = plan_.steps[step_of_[node]];
  return step.trains() || !step.request.gradients.empty() ? &step : nullptr;
}

bool Works::prepared(size_t index) const {
  return works_[index].prepared_epoch == runner_->shape_epoch(plan_.steps[index].nodes[0]);
}

void Works::NeedWorkspaces() {
  if (!PlansWorkspaces()) return;
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].work) WorkspaceOf(i);
  }
}

BlobVec Works::BlobsOf(const std::vector<int>& arrays) const {
  BlobVec blobs;
  for (const int array : arrays) blobs.push_back(array_blobs_[array].get());
  return blobs;
}

std::unique_ptr<Work> Works::MakeConversion(const Step& step) {
  const Array& to = plan_.arrays[step.writes[0]];
  BlobBase* const target = array_blobs_[step.writes[0]].get();
  return std::make_unique<ConvertWork>(&Converter(target->type()), to.kind,
                                       array_blobs_[step.reads[0]].get(), target, to.layout);
}

std::unique_ptr<Work> Works::MakeWork(const Step& step) const {
  const Node& node = wiring_.nodes[step.nodes[0]];
  BlobVec bottom = BlobsOf(step.reads), top = BlobsOf(step.writes);
  WorkRequest request = step.request;
  if (!step.request.chain.empty()) {
    return MakeChainWork(step.request.chain, bottom, top[0], request.layouts.y);
  }
  request.layouts.y_pitch = Pitch(step);
  if (bottom.size() > node.bottom.size()) request.residual = bottom.back();
  bottom.resize(node.bottom.size());
  request.last = &ranges_->of(step.nodes.back());
  for (size_t i = 1; i < step.nodes.size(); ++i) {
    const std::vector<int>& bottoms = wiring_.nodes[step.nodes[i]].bottom_ids;
    if (!request.residual || bottoms.size() != 2) continue;
    request.sum = &ranges_->of(step.nodes[i]);
    // The step has computed the other one.
    request.residual_bottom = bottoms[0] == wiring_.nodes[step.nodes[i - 1]].top_ids[0] ? 1 : 0;
  }
  return node.layer->MakeWork(request, bottom, top);
}

int64_t Works::Pitch(const Step& step) const { return step.part ? PitchOf(wiring_, step.part) : 0; }

void Works::PlacePart(const Step& step) {
  BlobBase& whole = *array_blobs_[step.part.whole];
  whole.mutable_device_data();
  const SyncedMemory& memory = *whole.data_memory();
  const int64_t offset = OffsetOf(wiring_, step.part) * static_cast<int64_t>(whole.type().bytes());
  array_blobs_[step.writes[0]]->data_memory()->Borrow(memory.buffer(), memory.offset() + offset);
}

// The converter of a type; its program is built at the first call.
LayoutConverter& Works::Converter(DataType type) {
  auto found = converters_.find(type);
  if (found == converters_.end()) {
    found = converters_.try_emplace(type, workspace_->device(), type).first;
  }
  return found->second;
}

// The step's arrays take the shapes of their blobs.
void Works::PrepareArrays(const Step& step) {
  for (const auto* arrays : {&step.reads, &step.writes}) {
    for (const int array : *arrays) {
      const Array& one = plan_.arrays[array];
      if (one.in_c_order()) continue;  // it is the blob
      const BlobBase& blob = *wiring_.blobs[one.blob];
      if (array_blobs_[array]->shape() != blob.shape()) array_blobs_[array]->ReshapeLike(blob);
      if (blob.type().is_scaled()) array_blobs_[array]->set_range(blob.range());
    }
  }
  ShareArrays(wiring_, plan_.arrays, step, array_blobs_);
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
  const bool own_operator = step.fused() || !step.in_c_order();
  const bool stale = own_operator && (own.shape_epoch != shape_epoch || own.pitch != Pitch(step) ||
                                      (first.quantized && own.range_epoch != ranges_->epoch()));
  InLayer(*first.layer, [&] {
    if (!own.work || stale) {
      own.work = step.converts() ? MakeConversion(step) : MakeWork(step);
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
  const SyncedMemory& whole = *array_blobs_[step.part.whole]->data_memory();
  if (!whole.buffer()) return;
  const BlobBase& top = *array_blobs_[step.writes[0]];
  const int64_t size = static_cast<int64_t>(top.type().bytes());
  const int64_t first = OffsetOf(wiring_, step.part) * size;
  Capture::NoteColumns(workspace_->device(), whole.buffer()->pointer() + whole.offset(),
                       whole.bytes(), Pitch(step) * size, first, first + top.shape(1) * size);
}

void Works::Run(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  if (BeginStep() && step.part) NoteColumns(step);
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] { own.work->Run(WorkspaceOf(index)); });
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

void Works::ConvertFromBlob(int array) {
  const Array& one = plan_.arrays[array];
  if (one.in_c_order()) return;
  BlobBase* const blob = wiring_.blobs[one.blob].get();
  ConvertWork(&Converter(blob->type()), one.kind, blob, array_blobs_[array].get(), one.layout)
      .Run({});
}

void Works::ConvertToBlob(int array, int64_t pitch) {
  const Array& one = plan_.arrays[array];
  if (one.in_c_order()) return;
  BlobBase* const blob = wiring_.blobs[one.blob].get();
  ConvertWork(&Converter(blob->type()), one.kind, array_blobs_[array].get(), blob, Layout::kNCHW,
              pitch)
      .Run({});
}

// Computes the tops of a step of several nodes, with the same bits as the last forward.
void Works::RepeatStep(int node) {
  const auto index = static_cast<size_t>(step_of_[node]);
  const Step& step = plan_.steps[index];
  std::vector<int> read;  // blobs
  for (const int array : step.reads) read.push_back(plan_.arrays[array].blob);
  // First, because making these uses the workspace, too.
  for (int id : read) wiring_.blobs[id]->device_data();
  ForgetTops(wiring_.nodes[step.nodes.back()].top_ids, read);
  Prepare(index);
  if (step.part) {
    Prepare(index);  // the shape of the whole array may have been computed only now
    PlacePart(step);
  }
  Work& work = *works_[index].work;
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] {
    // The arrays in other layouts have the bytes of others now, or none.
    for (const int array : std::set<int>(step.reads.begin(), step.reads.end())) {
      ConvertFromBlob(array);
    }
    work.Repeat(workspace_->Need(work.workspace_bytes()));
    for (const int array : step.writes) ConvertToBlob(array, Pitch(step));
  });
  if (step.part) array_blobs_[step.writes[0]]->data_memory()->Return();
  ranges_->Publish(step.nodes.back());
}

void Works::RunAgain(int index) {
  BeginStep();
  const Step* const step = Trained(index);
  if (!step) return runner_->RepeatForward(index);
  Work& work = *works_[step_of_[index]].work;
  InLayer(*wiring_.nodes[step->nodes[0]].layer,
          [&] { work.Repeat(workspace_->Need(work.workspace_bytes())); });
}

void Works::RunBackward(int index, const std::vector<bool>& bottom_gradients) {
  BeginStep();
  if (const Step* const step = Trained(index)) {
    const LayerBase& first = *wiring_.nodes[step->nodes[0]].layer;
    const auto of_node = static_cast<size_t>(step_of_[index]);
    CAFFE_CHECK(HasNotedShapes(of_node), first.name(), " (", first.type(),
                "): a bottom or top was reshaped since the last forward; run forward first");
    Work& work = *works_[of_node].work;
    InLayer(first, [&] { work.Backward(workspace_->Need(work.workspace_bytes())); });
  } else {
    runner_->Backward(index, bottom_gradients);
  }
  const auto [begin, end] = diffs_.equal_range(index);
  for (auto diff = begin; diff != end; ++diff) {
    auto& [step, work] = diff->second;
    if (!work) work = MakeConversion(*step);
    work->Run({});
  }
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
    if (plan_.steps[i].converts()) continue;
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
