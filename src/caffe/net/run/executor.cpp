#include "executor.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/net/plan/describe_step.hpp"
#include "in_layer.hpp"

namespace caffe {

bool Executor::Replays() {
  if (!replays_) {
    replays_ = workspace_->device()->can_capture() && GraphModeOfEnvironment() != GraphMode::kOff;
  }
  return *replays_;
}

// The scope in which nodes compute a blob again. Their bottoms and parameters have the content that
// the last forward read. Their other tops are written only if they are not stored and nothing else
// writes them, so that afterwards they, too, have the content of the last forward.
class Executor::Making {
 public:
  Making(Executor* executor, int blob, const std::vector<int>& nodes, const std::vector<int>& tops)
      : executor_(executor), made_(executor->wiring_.blobs[blob].get()), nodes_(nodes) {
    if (executor_->making_ == 0) restored_.emplace(*executor_->late_reads_);
    CheckReads(blob);
    ++executor_->making_;
    try {
      for (int top : tops) SpareOrNote(top);
    } catch (...) {
      End();
      throw;
    }
  }
  ~Making() { End(); }

  // All nodes have run.
  void Finish() {
    End();
    for (const BlobBase* blob : written_) executor_->late_reads_->Renew(*blob);
    executor_->late_reads_->Renew(*made_);
    if (executor_->making_ == 0) executor_->NoteReads(true);
  }

 private:
  const Wiring& wiring() const { return executor_->wiring_; }
  bool Runs(int node) const {
    return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
  }
  bool Writes(int node, const SyncedMemory* memory) const {
    const Node& one = wiring().nodes[node];
    for (const Alias& alias : one.layer->Facts().aliases) {
      if (alias.bottom >= 0) return false;
    }
    return std::any_of(one.top.begin(), one.top.end(), [memory](const BlobBase* top) {
      return top->data_memory().get() == memory;
    });
  }

  void CheckReads(int made) const {
    std::set<const SyncedMemory*> own;
    for (int node : nodes_) {
      for (const BlobBase* top : wiring().nodes[node].top) own.insert(top->data_memory().get());
    }
    const auto check = [&](const BlobBase& blob) {
      const SyncedMemory& memory = *blob.data_memory();
      if (own.count(&memory) || !memory.stored() || executor_->late_reads_->Has(blob)) return;
      const std::string& name = wiring().ShownName(wiring().Version(made));
      CAFFE_THROW("blob ", made_->name(), " was not kept by the last forward, and ",
                  memory.purpose(), " has changed since; call net.keep('", name,
                  "') before the forward");
    };
    for (int node : nodes_) {
      for (const BlobBase* bottom : wiring().nodes[node].bottom) check(*bottom);
      if (executor_->trains()) continue;  // ParametersChanged
      for (const auto& blob : wiring().nodes[node].layer->blobs()) check(*blob);
    }
  }

  void SpareOrNote(int top) {
    BlobBase& blob = *wiring().blobs[top];
    const SyncedMemory* const memory = blob.data_memory().get();
    if (memory == made_->data_memory().get() || scratch_.count(memory)) return;
    std::vector<int> others, own;  // that write it
    for (int n = 0; n <= wiring().last_node(); ++n) {
      if (Writes(n, memory)) (Runs(n) ? own : others).push_back(n);
    }
    if (own.empty()) return;
    if (!memory->stored() && others.empty()) {
      written_.push_back(&blob);
      return;
    }
    const std::vector<int>& read = wiring().nodes[own[0]].bottom_ids;
    const bool changes = std::any_of(read.begin(), read.end(), [&](int id) {
      return wiring().blobs[id]->data_memory().get() == memory;
    });
    CAFFE_CHECK(!changes, "blob ", made_->name(),
                " was not kept by the last forward, and computing ", "it changes blob ",
                blob.name(), "; call net.keep('", wiring().ShownName(wiring().Version(top)),
                "') before the forward");
    const auto scratch = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name());
    scratch_.insert(scratch->data_memory().get());
    publish_.insert(others.begin(), others.end());
    for (BlobBase* one : BlobsWith(wiring(), memory)) {
      if (one->count() != blob.count() || one->type() != blob.type()) continue;
      spared_.emplace_back(one, HolderOf(*one));
      TakeMemory(one, *scratch);
    }
  }

  void End() {
    if (ended_) return;
    ended_ = true;
    for (const auto& [blob, holder] : spared_) TakeMemory(blob, *holder);
    // The ranges that blobs show are those of their last writers.
    for (int node : publish_) executor_->ranges_->Publish(node);
    restored_.reset();
    --executor_->making_;
  }

  Executor* executor_;
  BlobBase* made_;
  const std::vector<int>& nodes_;
  const MemoryWatcher::Quiet quiet_;
  std::optional<LateReads::Restored> restored_;
  std::vector<std::pair<BlobBase*, std::shared_ptr<BlobBase>>> spared_;
  std::set<const SyncedMemory*> scratch_;
  std::set<int> publish_;
  std::vector<const BlobBase*> written_;  // other blobs
  bool ended_ = false;
};

// Makes a blob that the last forward did not keep: runs the nodes that compute it one by one. Their
// bottoms may be such blobs, too.
class Executor::RecomputedBlob final : public SyncedMemory::Source {
 public:
  RecomputedBlob(Executor* executor, int blob) : executor_(executor), blob_(blob) {
    // All steps that write the blob's memory. A step that swallows the blob is not run as a whole,
    // but its nodes up to the one that writes the blob.
    const Wiring& wiring = executor->wiring_;
    const SyncedMemory* const memory = wiring.blobs[blob]->data_memory().get();
    const auto writes = [&](const std::vector<int>& tops) {
      return std::any_of(tops.begin(), tops.end(),
                         [&](int top) { return wiring.blobs[top]->data_memory().get() == memory; });
    };
    for (const size_t s : executor->WritersOf(memory)) {
      const Step& step = executor->plan_.steps[s];
      size_t count = 0;
      for (size_t i = 0; i < step.nodes.size(); ++i) {
        if (writes(wiring.nodes[step.nodes[i]].top_ids)) count = i + 1;
      }
      if (count == 0) continue;
      nodes_.insert(nodes_.end(), step.nodes.begin(), step.nodes.begin() + count);
      const LayerBase& first = *wiring.nodes[step.nodes[0]].layer;
      const bool own_operator =
          step.fused() || (step.layouts != LayoutPair{} && first.Facts().aliases.empty());
      if (own_operator && writes(step.tops)) {
        parts_.push_back({static_cast<int>(s), -1});
      } else {
        for (size_t i = 0; i < count; ++i) parts_.push_back({-1, step.nodes[i]});
      }
    }
  }

  void Make(SyncedMemory*) override {
    const BlobBase& blob = *executor_->wiring_.blobs[blob_];
    const std::string& name = executor_->wiring_.ShownName(executor_->wiring_.Version(blob_));
    CAFFE_CHECK(!executor_->ParametersChanged(), "blob ", blob.name(), " was not kept by the ",
                "last iteration of training, and the parameters have changed since; call ",
                "net.keep('", name, "') before training");
    for (int node : nodes_) {
      CAFFE_CHECK(executor_->runner_->HasNotedShapes(node), "blob ", blob.name(),
                  " was not kept by the last forward, and blobs from which it is computed have ",
                  "other shapes now; run forward first, or call net.keep('", name,
                  "') before the forward");
    }
    if (executor_->making_ == 0) read_ = true;
    std::vector<int> tops;
    for (const Part& part : parts_) {
      const std::vector<int>& written = part.step >= 0
                                            ? executor_->plan_.steps[part.step].tops
                                            : executor_->wiring_.nodes[part.node].top_ids;
      tops.insert(tops.end(), written.begin(), written.end());
    }
    Making making(executor_, blob_, nodes_, tops);
    for (const Part& part : parts_) {
      part.step >= 0 ? executor_->RepeatStep(part.step) : executor_->Repeat(part.node);
    }
    making.Finish();
  }

  const std::vector<int>& nodes() const { return nodes_; }

  // Whether the caller has read the blob since the last call, for the second time in a row.
  bool TakeRead() {
    const bool again = read_ && read_before_;
    read_before_ = read_;
    read_ = false;
    return again;
  }

 private:
  Executor* executor_;
  int blob_;
  struct Part {
    int step, node;  // a step with an operator of its own, or a node; the other one is -1
  };
  std::vector<Part> parts_;
  std::vector<int> nodes_;  // of all parts
  bool read_ = false, read_before_ = false;
};

// A diff whose memory another array got.
class Executor::FreedDiff final : public SyncedMemory::Source {
 public:
  explicit FreedDiff(const BlobBase& blob) : name_(blob.name()) {}
  void Make(SyncedMemory*) override {
    CAFFE_THROW("the gradient of blob ", name_, " was not kept by the last iteration of training; ",
                "call net.keep('", name_, "') before training, or forward and backward of the net");
  }

 private:
  std::string name_;
};

Executor::Executor(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges,
                   Workspace* workspace, Plan plan, ChannelsLast channels_last,
                   std::unique_ptr<ActivationArena> arena)
    : wiring_(wiring),
      runner_(runner),
      ranges_(ranges),
      workspace_(workspace),
      plan_(std::move(plan)),
      arena_(std::move(arena)),
      works_(plan_.steps.size()),
      channels_last_(std::move(channels_last)),
      sources_(wiring.blobs.size()),
      freed_diffs_(wiring.blobs.size()),
      late_reads_(std::make_unique<LateReads>(wiring)) {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const Step& step = plan_.steps[s];
    if (step.trains() || !step.gradients.empty()) trained_[step.nodes.back()] = s;
    if (!step.diffs.empty()) converts_diffs_[step.nodes.back()] = s;
  }
}

Executor::~Executor() = default;

std::unique_ptr<Work> Executor::MakeWork(const Step& step) const {
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

BlobBase* Executor::Array(int blob, Layout layout) const {
  if (layout == Layout::kNCHW) return wiring_.blobs[blob].get();
  return channels_last_[plan_.channels_last[blob]].get();
}

int64_t Executor::Pitch(const Step& step) const {
  return step.part ? PitchOf(wiring_, step.part) : 0;
}

void Executor::PlacePart(const Step& step) {
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
LayoutConverter& Executor::Converter(DataType type) {
  auto found = converters_.find(type);
  if (found == converters_.end()) {
    found = converters_.try_emplace(type, workspace_->device(), type).first;
  }
  return found->second;
}

// The step's arrays in kNHWC take the shapes of their blobs.
void Executor::PrepareArrays(const Step& step) {
  ForEachArray(wiring_.nodes[step.nodes[0]].bottom_ids, step, Layout::kNHWC, [&](int id, bool) {
    BlobBase& array = *Array(id, Layout::kNHWC);
    if (array.shape() != wiring_.blobs[id]->shape()) array.ReshapeLike(*wiring_.blobs[id]);
  });
  ShareChannelsLast(wiring_, step, channels_last_);
  for (const std::vector<Conversion>* conversions : {&step.before, &step.after, &step.diffs}) {
    for (const Conversion& one : *conversions) Converter(wiring_.blobs[one.blob]->type());
  }
}

void Executor::ConvertDiffs(const std::vector<Conversion>& conversions) {
  for (const Conversion& conversion : conversions) {
    const bool to_nhwc = conversion.to == Layout::kNHWC;
    const BlobBase* from = Array(conversion.blob, to_nhwc ? Layout::kNCHW : Layout::kNHWC);
    BlobBase* to = Array(conversion.blob, conversion.to);
    SyncedMemory& memory = *to->diff_memory();
    if (!memory.stored()) memory.ForgetHostWrites();  // it is not made to be overwritten
    Converter(from->type())
        .Run(from->shape(), from->device_diff(), to->mutable_device_diff(), conversion.to, 0);
  }
}

void Executor::Convert(const std::vector<Conversion>& conversions, int64_t pitch) {
  for (const Conversion& conversion : conversions) {
    const bool to_nhwc = conversion.to == Layout::kNHWC;
    const BlobBase* from = Array(conversion.blob, to_nhwc ? Layout::kNCHW : Layout::kNHWC);
    BlobBase* to = Array(conversion.blob, conversion.to);
    SyncedMemory& memory = *to->data_memory();
    if (!memory.stored()) memory.ForgetHostWrites();  // it is not made to be overwritten
    Converter(from->type())
        .Run(from->shape(), from->device_data(), to->mutable_device_data(), conversion.to, pitch);
  }
}

void Executor::Prepare(size_t index) {
  PrepareStep(index);
  PrepareWork(index);
}

void Executor::PrepareStep(size_t index) {
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

void Executor::PrepareWork(size_t index) {
  const int node = plan_.steps[index].nodes[0];
  StepWork& own = works_[index];
  InLayer(*wiring_.nodes[node].layer, [&] {
    own.work->Prepare();
    if (!PlansWorkspaces()) workspace_->Need(own.work->workspace_bytes());
  });
  own.prepared_epoch = runner_->shape_epoch(node);
}

void Executor::PrepareAll(int first, int last) {
  const auto within = [&](const Step& step) {
    return step.nodes.front() >= first && step.nodes.back() <= last;
  };
  for (size_t i = 0; i < works_.size(); ++i) {
    if (within(plan_.steps[i])) Prepare(i);
  }
  // The shapes of the arrays that hold parts are known only now.
  for (size_t i = 0; i < works_.size(); ++i) {
    if (within(plan_.steps[i]) && works_[i].pitch != Pitch(plan_.steps[i])) Prepare(i);
  }
}

// Returns whether the step is recorded.
bool Executor::BeginStep() {
  Capture* const capture = Capture::Of(workspace_->device());
  if (capture) capture->NextStep();
  workspace_->Next();
  return capture != nullptr;
}

// The step writes some columns of the array of which its top is a part.
void Executor::NoteColumns(const Step& step) const {
  const SyncedMemory& whole =
      *Array(wiring_.nodes[step.part.node].top_ids[0], Layout::kNHWC)->data_memory();
  if (!whole.buffer()) return;
  const BlobBase& top = *Array(step.tops[0], Layout::kNHWC);
  const int64_t size = static_cast<int64_t>(top.type().bytes());
  const int64_t first = OffsetOf(wiring_, step.part) * size;
  Capture::NoteColumns(workspace_->device(), whole.buffer()->pointer() + whole.offset(),
                       whole.bytes(), Pitch(step) * size, first, first + top.shape(1) * size);
}

void Executor::Run(size_t index) {
  const Step& step = plan_.steps[index];
  StepWork& own = works_[index];
  if (BeginStep() && step.part) NoteColumns(step);
  InLayer(*wiring_.nodes[step.nodes[0]].layer, [&] {
    Convert(step.before);
    own.work->Run(WorkspaceOf(index));
    Convert(step.after);
  });
  NoteRun(index);
}

const StepWorkspaces& Executor::FindWorkspaces() {
  if (!PlansWorkspaces()) return workspaces_;
  workspaces_.shared = workspace_->bytes();
  workspaces_.bytes.resize(works_.size());
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].work) workspaces_.Set(i, *works_[i].work);
  }
  return workspaces_;
}

DevicePtr Executor::WorkspaceOf(size_t index) {
  const int64_t bytes = works_[index].work->workspace_bytes();
  const DevicePtr planned = PlansWorkspaces() ? arena_->WorkspaceOf(index, bytes) : DevicePtr();
  if (!planned) return workspace_->Need(bytes);
  Capture::NoteExtent(workspace_->device(), planned, bytes);
  return planned;
}

void Executor::PlaceForward() {
  KeepBlobsThatAreRead();
  arena_->Update(FindWorkspaces());
  arena_->Place(workspace_->device(), 0, arena_->arrays().forward_steps);
  if (!PlansWorkspaces()) return;
  // Nothing is allocated while steps run.
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].work) WorkspaceOf(i);
  }
}

void Executor::NoteRun(size_t index) {
  const Step& step = plan_.steps[index];
  for (int node : step.nodes) runner_->NoteRun(node);
  for (int blob : step.swallowed) Forget(blob);
  for (int blob : step.unstored) Forget(blob);
  ranges_->Publish(step.nodes.back());
}

const std::vector<size_t>& Executor::WritersOf(const SyncedMemory* memory) {
  const auto found = writers_.find(memory);
  if (found != writers_.end()) return found->second;
  writers_.clear();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    for (const int node : plan_.steps[s].nodes) {
      for (const int id : wiring_.nodes[node].top_ids) {
        std::vector<size_t>& steps = writers_[wiring_.blobs[id]->data_memory().get()];
        if (steps.empty() || steps.back() != s) steps.push_back(s);
      }
    }
  }
  return writers_[memory];
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

// Content that is not stored is not made for tops that are written now.
void Executor::ForgetTops(const std::vector<int>& tops, const std::vector<int>& bottoms) {
  for (int top : tops) {
    SyncedMemory& memory = *wiring_.blobs[top]->data_memory();
    const bool read = std::any_of(bottoms.begin(), bottoms.end(), [&](int bottom) {
      return wiring_.blobs[bottom]->data_memory().get() == &memory;
    });
    if (!memory.stored() && !read) memory.ForgetHostWrites();
  }
}

// Computes the node's tops as in the last forward.
void Executor::Repeat(int node) {
  ForgetTops(wiring_.nodes[node].top_ids, wiring_.nodes[node].bottom_ids);
  runner_->ReshapeIfNeeded(node);
  runner_->Prepare(node);
  runner_->RepeatForward(node);
  ranges_->Publish(node);
}

// Computes the tops of a step of several nodes, with the same bits as the last forward.
void Executor::RepeatStep(int index) {
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

std::vector<StepInfo> Executor::Describe() {
  ranges_->Update();
  std::vector<StepInfo> steps;
  PrepareAll(0, static_cast<int>(wiring_.nodes.size()) - 1);
  std::optional<ActivationArena> planned;  // the arena itself changes only in a forward
  if (arena_) planned.emplace(wiring_, arena_->arrays()).Update();
  for (size_t i = 0; i < works_.size(); ++i) {
    const auto is_part = [&](int node, int bottom) {
      return planned && planned->IsPart(node, bottom);
    };
    steps.push_back(DescribeStep(wiring_, plan_.steps[i], *works_[i].work, is_part));
  }
  return steps;
}

void Executor::Forward(int first, int last, const Observers& observers, bool per_layer) {
  late_reads_->End();
  // In phase TRAIN, forwards write parameters, which other nets may share.
  const MemoryWatcher::Quiet quiet(wiring_.phase == TEST);
  ranges_->Update();
  if (first > 0) {
    const std::vector<int> before = wiring_.AddedNodesBefore(first, last);
    for (auto node = before.rbegin(); node != before.rend(); ++node) RunNode(*node);
  }
  const auto within = [&](const Step& step) {
    return step.nodes.front() >= first && step.nodes.back() <= last;
  };
  PrepareAll(first, last);
  try {
    if (arena_) PlaceForward();
    const bool whole = first == 0 && last + 1 == static_cast<int>(wiring_.nodes.size());
    const bool per_step =
        std::any_of(observers.begin(), observers.end(),
                    [](const PassObserver* observer) { return observer->per_step(); });
    const bool replays = whole && !per_layer && !per_step && Replays();
    if (replays && !made_segments_) MakeSegments();
    auto segment = segments_.begin();
    for (size_t i = 0; i < works_.size(); ++i) {
      if (replays && segment != segments_.end() && segment->steps().begin == i) {
        GraphSegment& now = *segment++;
        if (RunSegment(&now, observers)) {
          i = now.steps().end - 1;
          continue;
        }
      }
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
    NoteReads(false);
    throw;
  }
  ForgetLost();
  if (trains()) NoteParameters();
  NoteReads(false);
}

void Executor::NoteReads(bool again) {
  now_.clear();
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (sources_[blob] && !wiring_.blobs[blob]->data_memory()->stored()) {
      now_.push_back(static_cast<int>(blob));
    }
  }
  if (now_ != forgotten_ || !late_reads_->Records(reads_)) FindReads();
  late_reads_->Record(reads_, again);
}

// Collects what is read by the nodes that make blobs that are not stored, and by the nodes that run
// again before a backward.
void Executor::FindReads() {
  forgotten_ = now_;
  reads_.clear();
  const auto add = [&](int node) {
    const BlobVec& bottom = wiring_.nodes[node].bottom;
    reads_.insert(reads_.end(), bottom.begin(), bottom.end());
    if (trains()) return;  // ParametersChanged
    for (const auto& blob : wiring_.nodes[node].layer->blobs()) reads_.push_back(blob.get());
  };
  for (int blob : forgotten_) {
    for (int node : sources_[blob]->nodes()) add(node);
  }
  for (int node : lost_arrays_) add(node);
  LateReads::Sort(&reads_);
}

void Executor::MakeSegments() {
  made_segments_ = true;
  segments_.clear();
  std::vector<bool> replayable;
  for (const Step& step : plan_.steps) {
    const LayerBase& layer = *wiring_.nodes[step.nodes[0]].layer;
    const LayerFacts facts = layer.Facts();
    replayable.push_back(layer.phase() == TEST && facts.replayable && !facts.host &&
                         !facts.shapes_from_data);
  }
  for (const StepRange& steps : ReplayableRanges(replayable)) {
    BlobVec inputs, targets;
    for (size_t i = steps.begin; i < steps.end; ++i) {
      const Step& step = plan_.steps[i];
      const auto reads = [&](BlobBase* array) {
        for (const BlobVec* known : {&targets, &inputs}) {
          if (std::find(known->begin(), known->end(), array) != known->end()) return;
        }
        inputs.push_back(array);
      };
      const auto converts = [&](const std::vector<Conversion>& conversions) {
        for (const Conversion& one : conversions) {
          reads(Array(one.blob, one.to == Layout::kNHWC ? Layout::kNCHW : Layout::kNHWC));
          targets.push_back(Array(one.blob, one.to));
        }
      };
      converts(step.before);
      const std::vector<int>& bottoms = wiring_.nodes[step.nodes[0]].bottom_ids;
      for (size_t b = 0; b < bottoms.size(); ++b) reads(Array(bottoms[b], step.bottom_layout(b)));
      for (int id : step.summands) reads(Array(id, step.layouts.y));
      for (int id : step.tops) targets.push_back(Array(id, step.layouts.y));
      converts(step.after);
    }
    segments_.emplace_back(steps, std::move(inputs), std::move(targets));
  }
}

void Executor::AddToEpoch(const GraphSegment& segment, GraphEpoch* epoch) const {
  epoch->Add(static_cast<uint64_t>(ranges_->epoch()));
  epoch->Add(arena_ ? arena_->plans() : 0);
  for (size_t i = segment.steps().begin; i < segment.steps().end; ++i) {
    epoch->Add(works_[i].serial);
    for (int node : plan_.steps[i].nodes) {
      epoch->Add(static_cast<uint64_t>(runner_->shape_epoch(node)));
      for (const auto& blob : wiring_.nodes[node].layer->blobs()) {
        // A copy that Prepare made of the parameter has new content, or other memory.
        epoch->Add(blob->data_version());
        epoch->Add(reinterpret_cast<uintptr_t>(blob->data_memory()->buffer().get()));
      }
    }
  }
}

BlobVec Executor::LayerOwned(const StepRange& steps) const {
  BlobVec arrays;
  for (size_t i = steps.begin; i < steps.end; ++i) {
    const Node& node = wiring_.nodes[plan_.steps[i].nodes[0]];
    const LayerArrays own = node.layer->Arrays(node.bottom, node.top);
    arrays.insert(arrays.end(), own.kept.begin(), own.kept.end());
  }
  return arrays;
}

bool Executor::RunSegment(GraphSegment* segment, const Observers& observers) {
  const StepRange steps = segment->steps();
  for (size_t i = steps.begin; i < steps.end; ++i) {
    if (!HasNotedShapes(plan_.steps[i])) return false;
  }
  const auto each = [&](const auto& use) {
    for (size_t i = steps.begin; i < steps.end; ++i) use(i);
  };
  const auto node = [&](size_t i) -> const Node& { return wiring_.nodes[plan_.steps[i].nodes[0]]; };
  for (PassObserver* observer : observers) {
    each([&](size_t i) { observer->BeforeForward(node(i)); });
  }
  segment->Run(
      workspace_->device(), [&](GraphEpoch* epoch) { AddToEpoch(*segment, epoch); },
      [&] { return LayerOwned(steps); }, [&] { each([&](size_t i) { Run(i); }); },
      [&] { each([&](size_t i) { NoteRun(i); }); });
  for (PassObserver* observer : observers) {
    each([&](size_t i) { observer->AfterForward(node(i)); });
  }
  return true;
}

void Executor::ForgetLost() {
  if (!arena_) return;
  if (lost_plan_ != arena_->plans()) {
    lost_plan_ = arena_->plans();
    lost_arrays_.clear();
    forgotten_.assign(1, -1);  // FindReads
  }
  for (const auto* arrays : {&arena_->lost_in_forward(), &arena_->parts()}) {
    for (int array : *arrays) {
      const PassArrays::Array& one = arena_->arrays().arrays[array];
      if (one.kind == PassArrays::Kind::kOwn && !trains()) lost_arrays_.insert(one.node);
      Lose(array);
    }
  }
}

void Executor::Lose(int array) {
  SyncedMemory& memory = *arena_->Memory(array);
  if (!memory.borrowed()) return;
  const PassArrays::Array& one = arena_->arrays().arrays[array];
  if (one.kind == PassArrays::Kind::kData) {
    Forget(one.blob);
  } else if (one.kind == PassArrays::Kind::kDiff) {
    LoseDiff(one.blob);
  } else {
    memory.Return();
  }
}

void Executor::LoseDiff(int blob) {
  std::shared_ptr<FreedDiff>& source = freed_diffs_[blob];
  if (!source) source = std::make_shared<FreedDiff>(*wiring_.blobs[blob]);
  wiring_.blobs[blob]->diff_memory()->SetSource(source);
}

void Executor::LoseSwallowedDiffs() {
  std::set<const SyncedMemory*> written;  // diffs in C order
  for (const int index : arena_->arrays().backward) {
    const auto found = trained_.find(index);
    const Node& node =
        wiring_.nodes[found == trained_.end() ? index : plan_.steps[found->second].nodes[0]];
    const LayoutPair layouts =
        found == trained_.end() ? LayoutPair{} : plan_.steps[found->second].layouts;
    if (layouts.y == Layout::kNCHW) {
      for (const int id : wiring_.nodes[index].top_ids) {
        written.insert(wiring_.blobs[id]->diff_memory().get());
      }
    }
    if (layouts.x == Layout::kNCHW) {
      for (const int id : node.bottom_ids) written.insert(wiring_.blobs[id]->diff_memory().get());
    }
    const auto converts = converts_diffs_.find(index);
    if (converts == converts_diffs_.end()) continue;
    for (const Conversion& one : plan_.steps[converts->second].diffs) {
      if (one.to == Layout::kNCHW) written.insert(wiring_.blobs[one.blob]->diff_memory().get());
    }
  }
  for (const auto& [node, s] : trained_) {
    const Step& step = plan_.steps[s];
    std::vector<int> lost = step.swallowed;
    if (step.channels_last()) {
      const std::vector<int>& bottoms = wiring_.nodes[step.nodes[0]].bottom_ids;
      lost.insert(lost.end(), step.tops.begin(), step.tops.end());
      lost.insert(lost.end(), bottoms.begin(), bottoms.end());
    }
    for (const int blob : lost) {
      if (!written.count(wiring_.blobs[blob]->diff_memory().get())) LoseDiff(blob);
    }
  }
}

void Executor::RunAgain(int index) {
  BeginStep();
  const auto trained = trained_.find(index);
  if (trained == trained_.end()) return runner_->RepeatForward(index);
  Work& work = *works_[trained->second].work;
  InLayer(*wiring_.nodes[plan_.steps[trained->second].nodes[0]].layer,
          [&] { work.Repeat(workspace_->Need(work.workspace_bytes())); });
}

void Executor::RunBackward(int index, const Gradients& gradients) {
  BeginStep();
  const auto trained = trained_.find(index);
  if (trained == trained_.end()) {
    runner_->Backward(index, gradients.bottoms(index));
  } else {
    const Step& step = plan_.steps[trained->second];
    const LayerBase& first = *wiring_.nodes[step.nodes[0]].layer;
    CAFFE_CHECK(HasNotedShapes(step), first.name(), " (", first.type(),
                "): a bottom or top was reshaped since the last forward; run forward first");
    Work& work = *works_[trained->second].work;
    InLayer(first, [&] { work.Backward(workspace_->Need(work.workspace_bytes())); });
  }
  const auto converts = converts_diffs_.find(index);
  if (converts != converts_diffs_.end()) ConvertDiffs(plan_.steps[converts->second].diffs);
}

// Blobs that the caller reads after every forward are stored from then on: computing them each time
// would cost more than their memory.
void Executor::KeepBlobsThatAreRead() {
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (!sources_[blob] || !sources_[blob]->TakeRead()) continue;
    arena_->Exclude(static_cast<int>(blob));
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      Step& step = plan_.steps[s];
      // In kNHWC only, so far.
      if (std::erase(step.unstored, static_cast<int>(blob)) == 0) continue;
      step.after.push_back({static_cast<int>(blob), Layout::kNCHW});
      made_segments_ = false;  // they write one more array
      if (!step.part) continue;
      arena_->Detach(step.part);
      step.part = {};
      Prepare(s);
    }
  }
}

void Executor::NoteParameters() {
  parameter_versions_.clear();
  for (const BlobBase* blob : wiring_.learnable) {
    parameter_versions_.push_back(blob->data_version());
  }
}

bool Executor::ParametersChanged() const {
  for (size_t i = 0; i < parameter_versions_.size(); ++i) {
    if (wiring_.learnable[i]->data_version() != parameter_versions_[i]) return true;
  }
  return false;
}

void Executor::TakeForgotten(Executor* other) {
  parameter_versions_ = other->parameter_versions_;
  late_reads_.swap(other->late_reads_);
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (other->sources_[blob] && !wiring_.blobs[blob]->data_memory()->stored()) {
      Forget(static_cast<int>(blob));
    }
  }
}

WorkMemory Executor::CountWorks(StepWorkspaces* workspaces) const {
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

void Executor::LeaveArena() {
  for (size_t blob = 0; blob < freed_diffs_.size(); ++blob) {
    SyncedMemory& memory = *wiring_.blobs[blob]->diff_memory();
    if (freed_diffs_[blob] && !memory.stored()) memory.ForgetHostWrites();
  }
  if (arena_) arena_->Release();
}

bool Executor::HasNotedShapes(const Step& step) const {
  return std::all_of(step.nodes.begin(), step.nodes.end(),
                     [this](int node) { return runner_->HasNotedShapes(node); });
}

void Executor::MakeForgotten() {
  if (trains()) return;
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (!sources_[blob] || wiring_.blobs[blob]->data_memory()->stored()) continue;
    try {
      wiring_.blobs[blob]->device_data();
    } catch (const Error&) {
      // Shapes have changed. Reading the blob reports it.
    }
  }
}

void Executor::MakeDependents(int first, int last, const std::vector<int>& written) {
  if (std::none_of(sources_.begin(), sources_.end(), [](const auto& one) { return one; })) return;
  // Memories that change in the pass, and those of blobs that depend on them; those that the pass
  // writes before it reads them.
  std::set<const SyncedMemory*> changes, overwritten, read;
  const auto memory_of = [&](int id) { return wiring_.blobs[id]->data_memory().get(); };
  const auto add = [&](int id) { changes.insert(memory_of(id)); };
  for (int id : written) add(id);
  const auto added = wiring_.AddedNodesBefore(first, last);
  std::vector<int> run(added.begin(), added.end());
  for (int n = first; n <= last; ++n) run.push_back(n);
  std::reverse(run.begin(), run.begin() + static_cast<int>(added.size()));  // as they run
  for (int n : run) {
    const Node& node = wiring_.nodes[n];
    for (int id : node.bottom_ids) {
      const int version = wiring_.Version(id);
      if (wiring_.versions.count(version)) {
        add(version);
        read.insert(memory_of(wiring_.UserBlob(version)));
      }
      if (!overwritten.count(memory_of(id))) read.insert(memory_of(id));
    }
    const LayerFacts facts = node.layer->Facts();
    const bool alias = std::any_of(facts.aliases.begin(), facts.aliases.end(),
                                   [](const Alias& one) { return one.bottom >= 0; });
    if (alias && n < first) continue;
    for (int id : node.top_ids) {
      for (int one : {id, wiring_.UserBlob(id)}) {
        add(one);
        if (!alias && !read.count(memory_of(one))) overwritten.insert(memory_of(one));
      }
    }
  }
  std::vector<int> wanted;
  std::set<const SyncedMemory*> made;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t blob = 0; blob < sources_.size(); ++blob) {
      const SyncedMemory* const memory = wiring_.blobs[blob]->data_memory().get();
      if (!sources_[blob] || memory->stored() || overwritten.count(memory)) continue;
      if (made.count(memory)) continue;
      for (int node : sources_[blob]->nodes()) {
        const BlobVec& bottom = wiring_.nodes[node].bottom;
        if (std::none_of(bottom.begin(), bottom.end(), [&](const BlobBase* one) {
              const SyncedMemory* const source = one->data_memory().get();
              return source != memory && changes.count(source) > 0;
            })) {
          continue;
        }
        changes.insert(memory);
        made.insert(memory);
        wanted.push_back(static_cast<int>(blob));
        grows = true;
        break;
      }
    }
  }
  for (int blob : wanted) wiring_.blobs[blob]->device_data();
}

void Executor::DropForgotten() {
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    SyncedMemory& memory = *wiring_.blobs[blob]->data_memory();
    if (sources_[blob] && !memory.stored()) memory.ForgetHostWrites();
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

void Executor::BackwardInArena(const Gradients& gradients, const Observers& observers) {
  const PassArrays& arrays = arena_->arrays();
  const auto end = [&] {
    for (int array : arena_->placed()) Lose(array);
    LoseSwallowedDiffs();
    NoteReads(false);
  };
  for (int array : arena_->dead_after_forward()) Lose(array);
  arena_->Place(workspace_->device(), arrays.forward_steps, static_cast<int>(arrays.steps.size()));
  try {
    auto segment = arrays.segments.begin();  // in the order of their steps
    for (int index : arrays.backward) {
      for (; segment != arrays.segments.end() && segment->before == index; ++segment) {
        arena_->PlaceAgain(segment->step, segment->step + static_cast<int>(segment->nodes.size()));
        for (int node : segment->nodes) RunAgain(node);
      }
      const Node& node = wiring_.nodes[index];
      for (PassObserver* observer : observers) observer->BeforeBackward(node);
      RunBackward(index, gradients);
      for (PassObserver* observer : observers) observer->AfterBackward(node);
    }
  } catch (...) {
    end();
    throw;
  }
  end();
}

}  // namespace caffe
