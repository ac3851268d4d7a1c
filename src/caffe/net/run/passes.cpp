#include "passes.hpp"

#include <algorithm>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/memory/memory_watch.hpp"

namespace caffe {

Passes::Passes(const Wiring& wiring, const PassRooms& rooms, Views* views, Observers* observers)
    : wiring_(wiring),
      rooms_(rooms),
      views_(*views),
      observers_(*observers),
      forecast_(wiring, rooms.runner),
      plans_(wiring, rooms),
      in_steps_(wiring.nodes.size(), false) {}

void Passes::DropTail() {
  plans_.whole().DropTail();
  plans_.by_layer().DropTail();
}

void Passes::RunTail() {
  for (const auto& entry : rooms_.tail->entries) entry();
}

void Passes::StoreViewed() {
  if (wiring_.phase == TRAIN && frees_memory_) plans_.StoreViewed();
}

void Passes::CheckMemory(MemoryForecast::Pass pass) {
  using Pass = MemoryForecast::Pass;
  if (checked_ != plans_.serial()) forecast_.Forget();
  checked_ = plans_.serial();
  const auto needs = [&] {
    return pass == Pass::kArena ? plans_.Needs() : plans_.NeedsByLayer(pass == Pass::kBackward);
  };
  const auto cure = [&](const MemoryNeeds& need) -> std::string {
    if (pass != Pass::kBackward || wiring_.phase != TRAIN || frees_memory_) return "";
    const int64_t less = plans_.Needs().total();
    if (less >= need.total()) return "";
    return Concat("; a solver with frees_memory set needs ", less, " bytes");
  };
  forecast_.Check(pass, needs, cure);
}

// Runs a pass that may write inputs, in layers that change them in place.
template <class Work> void Passes::WithInputs(const Work& work) {
  rooms_.versions->TakeInputs();
  try {
    work();
  } catch (...) {
    rooms_.versions->NoteInputs();
    throw;
  }
  rooms_.versions->NoteInputs();
}

template <class Work> void Passes::WithNeeds(const Work& work) const {
  const auto label = [&] { return NetLabel(wiring_.name); };
  NamingMemory(label, [&] {
    try {
      NamingMemory(label, work);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(
          Concat(error.what(), "; net ", wiring_.name, " needs ", plans_.Needs().ToString()));
    }
  });
}

std::vector<StepInfo> Passes::Describe() {
  plans_.FollowRanges(false);
  rooms_.versions->ShapeInputs();
  views_.TakeData();
  std::vector<StepInfo> steps;
  WithNeeds([&] { steps = plans_.whole().Describe(); });
  views_.Update();
  return steps;
}

void Passes::Forward(int start, int end) {
  const int last_layer = wiring_.last_layer();
  if (last_layer < 0) return;
  CAFFE_CHECK(start >= 0 && start <= last_layer && end >= start - 1 && end <= last_layer,
              NetLabel(wiring_.name), ": layers ", start, " to ", end,
              " were requested, but the layers are 0 to ", last_layer);
  if (end < start) return;
  const bool whole = start == 0 && end == last_layer;
  plans_.FollowRanges(whole);
  StoreViewed();
  views_.TakeData();
  // Casts and splits that follow a user layer belong to it; those before the first layer belong to
  // the first layer.
  const int first = start == 0 ? 0 : wiring_.layer_begins[start];
  const int last = wiring_.EndOf(end) - 1;
  const std::vector<PassObserver*> observers = observers_.Active();
  const bool per_layer = std::any_of(observers.begin(), observers.end(),
                                     [](const PassObserver* o) { return o->per_layer(); });
  // In phase TRAIN the arena is for the passes of a solver.
  const bool trains = wiring_.phase == TRAIN;
  const bool in_whole =
      whole && !per_layer && (!trains || (frees_memory_ && !observers_.LooksAtLayers()));
  forward_in_arena_ = 0;
  if (trains && !in_whole) plans_.whole().LeaveArena();
  if (!whole && !trains) {
    plans_.whole().lost().MakeDependents(first, last, rooms_.versions->WrittenInputs());
  }
  // The blobs that the pass changes are not needed for late reads any more.
  const MemoryWatcher::Quiet quiet(!trains);
  WithInputs([&] {
    BlobVersions::Taken taken;
    if (start > 0) taken = rooms_.versions->Take(first, last);
    views_.ForgetOverwritten(first, last, whole);
    // The arena needs the memories of diffs as the backward pass will find them.
    if (trains && in_whole) rooms_.versions->ShareDiffs();
    Executor& executor = in_whole ? plans_.whole() : plans_.by_layer();
    if (whole && !trains) {
      NoteReplays("forwards", WhyNotReplayed(observers), &why_no_forwards_, &executor);
    }
    if (whole) {
      using Pass = MemoryForecast::Pass;
      CheckMemory(in_whole ? Pass::kArena : Pass::kForward);
    }
    for (int n = first; n <= last; ++n) in_steps_[n] = in_whole;
    WithNeeds([&] { executor.Forward(first, last, observers, per_layer); });
    if (!in_whole) plans_.whole().lost().NoteReads(true);
    forward_in_arena_ = trains && in_whole ? plans_.serial() : 0;
    if (end < last_layer) rooms_.versions->Publish(first, last);
    views_.Update();
  });
}

void Passes::Backward(int start, int end) {
  const int last_layer = wiring_.last_layer();
  if (last_layer < 0) return;
  CAFFE_CHECK(end >= 0 && start <= last_layer && start >= end - 1, NetLabel(wiring_.name),
              ": backward from layer ", start, " to ", end, ", but the layers are 0 to ",
              last_layer);
  if (start < end) return;
  const std::vector<int> run = wiring_.BackwardNodes(start, end);
  for (const int n : run) {
    const LayerBase& layer = *wiring_.nodes[n].layer;
    CAFFE_CHECK(rooms_.runner->ran()[n] || !rooms_.gradients->needed(n), NetLabel(wiring_.name),
                ": backward reads what a forward of layer ", layer.name(), " (", layer.type(),
                ") has computed, but there was none; call forward first");
  }
  if (wiring_.phase == TEST && plans_.covers_layers() && rooms_.gradients->any()) {
    plans_.ComputeByLayer();
    TakeNewGradients(rooms_.gradients->NeededNodes());
  }
  views_.TakeDiffs();
  rooms_.gradients->CheckConflicts();
  rooms_.versions->ShareDiffs();
  const auto& nodes = wiring_.nodes;
  const int first = wiring_.layer_nodes[start], last = wiring_.layer_begins[end];
  if (start < last_layer) rooms_.versions->CopyDiffs(nodes[first].top_ids, true);
  const std::vector<PassObserver*> observers = observers_.Active();
  const bool in_arena = forward_in_arena_ == plans_.serial() && frees_memory_ &&
                        start == last_layer && end == 0 && !observers_.LooksAtLayers();
  forward_in_arena_ = 0;
  if (wiring_.phase == TRAIN && !in_arena) plans_.whole().LeaveArena();
  if (!in_arena && start == last_layer && end == 0) {
    CheckMemory(MemoryForecast::Pass::kBackward);
  }
  WithNeeds([&] {
    if (end > 0) ClearUnreadDiffs(run, first, last);
    const bool whole = start == last_layer && end == 0;
    (in_arena ? plans_.whole() : plans_.by_layer()).Backward(run, whole, observers);
    if (!in_arena) ClearInputGradientsOutsideRanges(run, first, last);
  });
  if (end > 0) {
    rooms_.versions->CopyDiffs(nodes[wiring_.layer_nodes[end]].named_bottom_ids(), false);
  } else {
    ShowInputDiffs();
  }
  if (start == last_layer && end == 0) {
    for (PassObserver* observer : observers) observer->AfterBackwardPass();
  }
  views_.Update();
}

void Passes::ClearInputGradientsOutsideRanges(const std::vector<int>& run, int first, int last) {
  if (!rooms_.ranges->table().HasMode(CAFFE_QUANT_PSEUDO)) return;
  const auto has_gradient = [&](int id) {
    return std::any_of(run.begin(), run.end(), [&](int n) {
      const std::vector<int>& ids = wiring_.nodes[n].bottom_ids;
      const std::vector<bool>& gradients = rooms_.gradients->bottoms(n);
      for (size_t b = 0; b < ids.size() && b < gradients.size(); ++b) {
        if (ids[b] == id && gradients[b]) return true;
      }
      return false;
    });
  };
  for (int n = last; n <= first; ++n) {
    const Node& node = wiring_.nodes[n];
    if (!node.bottom.empty() || rooms_.gradients->needed(n)) continue;
    if (std::any_of(node.top_ids.begin(), node.top_ids.end(), has_gradient)) {
      rooms_.ranges->pass().BeforeBackward(node);
    }
  }
}

std::string Passes::WhyInParts() const {
  if (wiring_.phase != TRAIN) return "the net is in phase TEST";
  const char* const name = observers_.LooksAtLayers();
  if (name) return Concat(name, " looks at every layer");
  const BlobBase* const viewed = views_.Viewed();
  return viewed ? Concat("there is a view of blob ", viewed->name()) : "";
}

void Passes::NoteReplays(const char* passes, const std::string& why, std::string* last,
                         Executor* executor) {
  if (why != *last && !why.empty() && executor->Replays()) {
    log::Debug(Concat(NetLabel(wiring_.name), ": ", passes, " are not replayed as a graph: ", why));
  }
  *last = why;
}

void Passes::ForwardBackward() {
  Forward(0, wiring_.last_layer());
  Backward(wiring_.last_layer(), 0);
}

void Passes::Iterate(IterationEnd end) {
  if (!BeginIteration()) return IterateInOneList(end, 0, nullptr);
  ForwardBackward();
  if (end == IterationEnd::kBackward) return;
  for (const auto& reduction : rooms_.tail->reductions) reduction.enqueue();
  ShowReduced();
  if (end == IterationEnd::kTail) RunTail();
}

void Passes::ShowReduced() {
  if (!rooms_.tail->reductions.empty()) views_.Update();
}

bool Passes::BeginIteration() {
  StoreViewed();
  Executor& executor = frees_memory_ ? plans_.whole() : plans_.by_layer();
  using Pass = MemoryForecast::Pass;
  CheckMemory(frees_memory_ && !observers_.LooksAtLayers() ? Pass::kArena : Pass::kBackward);
  const std::string why = WhyInParts();
  NoteReplays("iterations", why.empty() ? WhyNotReplayed(observers_.Active()) : why,
              &why_no_iterations_, &executor);
  return !why.empty();
}

void Passes::IterateInOneList(IterationEnd end, int replica, const RunAsMember* member) {
  Executor& executor = frees_memory_ ? plans_.whole() : plans_.by_layer();
  const std::vector<PassObserver*> observers = observers_.Active();
  forward_in_arena_ = 0;
  if (!frees_memory_) plans_.whole().LeaveArena();
  rooms_.versions->ShareDiffs();  // before the arena is planned
  in_steps_.assign(wiring_.nodes.size(), frees_memory_);
  WithInputs([&] {
    views_.ForgetOverwritten(0, wiring_.last_node(), true);
    WithNeeds([&] { executor.Iterate(end, observers, replica, member); });
  });
  ShowInputDiffs();
  for (PassObserver* observer : observers) observer->AfterBackwardPass();
}

// The diff of an input is that of its first version.
void Passes::ShowInputDiffs() {
  std::vector<int> known;
  for (const auto& [first, last] : rooms_.versions->ChangedInputs()) {
    for (int n = 0; n <= wiring_.last_node(); ++n) {
      const std::vector<int>& bottoms = wiring_.nodes[n].bottom_ids;
      for (size_t b = 0; b < bottoms.size(); ++b) {
        if (bottoms[b] == first && rooms_.gradients->bottoms(n)[b]) known.push_back(first);
      }
    }
  }
  rooms_.versions->CopyDiffs(known, false);
}

// The gradient of a split's top before the pass is 0 if its reader would run later in the backward
// pass.
void Passes::ClearUnreadDiffs(const std::vector<int>& run, int first, int last) {
  for (int split : run) {
    if (split >= last) continue;
    for (BlobBase* top : wiring_.nodes[split].top) {
      for (int n = split + 1; n < last; ++n) {
        const BlobVec& read = wiring_.nodes[n].bottom;
        if (std::find(run.begin(), run.end(), n) == run.end() &&
            std::find(read.begin(), read.end(), top) != read.end()) {
          SyncedMemory& diff = *top->diff_memory();
          diff.device()->Fill(diff.mutable_device_data(), 0, diff.bytes());
        }
      }
    }
  }
}

// Layers that work in place keep a copy of their bottom only if Backward will be called. A layer
// that did not keep it runs again, and so does one that another layer's step computed, or whose own
// arrays were not written or not kept, with all layers that write the same memory.
void Passes::TakeNewGradients(const std::vector<bool>& needed_before) {
  rooms_.gradients->CheckConflicts();
  std::set<int> skipped = plans_.whole().lost().lost_arrays(), in_nhwc;
  for (const Step& step : plans_.whole().plan().steps) {
    if (step.trains()) continue;
    if (step.fused()) skipped.insert(step.nodes.begin(), step.nodes.end());
    if (!step.in_c_order()) in_nhwc.insert(step.nodes.begin(), step.nodes.end());
  }
  plans_.Make();
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    const Node& node = wiring_.nodes[n];
    if (!in_steps_[n] || !rooms_.gradients->needed(n)) continue;
    const BlobVec kept = node.layer->Arrays(node.bottom, node.top).kept;
    if (std::any_of(kept.begin(), kept.end(), [&](const BlobBase* array) {
          return in_nhwc.count(n) || (array->count() > 0 && array->data_version() == 0);
        })) {
      skipped.insert(n);
    }
  }
  std::erase_if(skipped, [this](int n) { return !in_steps_[n]; });
  NodeRunner& runner = *rooms_.runner;
  const std::set<int> repeated = rooms_.gradients->ToRepeat(needed_before, runner.ran(), skipped);
  if (repeated.empty()) return;
  WithInputs([&] {
    const LateReads::Restored restored(plans_.whole().lost().late_reads());
    for (int node : repeated) {
      runner.Prepare(node);
      runner.RepeatForward(node);
      rooms_.ranges->pass().AfterRepeat(wiring_.nodes[node]);
    }
    views_.Update();
  });
}

}  // namespace caffe
