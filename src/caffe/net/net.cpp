#include "caffe/net/net.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <random>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/freed_memory.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/net/build/gradients.hpp"
#include "caffe/net/build/net_builder.hpp"
#include "caffe/net/net_file.hpp"
#include "caffe/net/plan/count_memory.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "caffe/net/run/blob_versions.hpp"
#include "caffe/net/run/executor.hpp"
#include "caffe/net/run/in_layer.hpp"
#include "caffe/net/run/loss_seeds.hpp"
#include "caffe/net/run/memory_forecast.hpp"
#include "caffe/net/run/node_runner.hpp"
#include "caffe/net/run/views.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/net/watch/debug_lines.hpp"
#include "caffe/net/watch/finite_check.hpp"
#include "caffe/net/watch/layer_callbacks.hpp"
#include "caffe/net/weights/net_weights.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

// Throws the exception of the caller's check between two steps.
class Interruption final : public PassObserver {
 public:
  std::function<void()> check;
  bool per_layer() const override { return false; }
  void BeforeForward(const Node&) override { check(); }
  void BeforeBackward(const Node&) override { check(); }
};

}  // namespace

struct Net::Rooms {
  Rooms(const Wiring& wiring, const NetParameter& given, StepState* state, Device* device)
      : gradients(wiring),
        ranges(wiring, given, device),
        losses(wiring, state),
        versions(wiring, &ranges),
        views(wiring),
        runner(wiring),
        forecast(wiring, &runner),
        debug_lines(wiring, gradients),
        finite_check(wiring, gradients),
        callbacks(wiring, gradients, views, &versions),
        in_steps(wiring.nodes.size(), false) {}

  Gradients gradients;
  NetRanges ranges;
  LossSeeds losses;
  BlobVersions versions;
  Views views;
  NodeRunner runner;
  MemoryForecast forecast;
  Interruption interruption;
  DebugLines debug_lines;
  FiniteCheck finite_check;
  LayerCallbacks callbacks;
  // Null until the first pass of that kind.
  std::unique_ptr<Executor> whole, by_layer;
  // Of each node, for the plans: TiedBottoms at an epoch of the ranges.
  std::vector<std::vector<bool>> tied;
  int planned_epoch = 0;
  // Whether each node ran last in a whole forward of the plan of steps.
  std::vector<bool> in_steps;

  // The bytes of a pass that stores every blob.
  static MemoryNeeds NeedsByLayer(const Net& net, bool backward) {
    const Rooms& own = *net.rooms_;
    StepWorkspaces workspaces;
    const WorkMemory works = own.by_layer->CountWorks(&workspaces);
    return CountMemory(net.wiring_, own.gradients, own.by_layer->plan(),
                       own.by_layer->channels_last(), nullptr, works, workspaces, backward);
  }
  // Throws if the pass needs more memory than there is.
  static void CheckMemory(const Net& net, MemoryForecast::Pass pass) {
    using Pass = MemoryForecast::Pass;
    const auto needs = [&] {
      return pass == Pass::kArena ? net.memory_needs() : NeedsByLayer(net, pass == Pass::kBackward);
    };
    const auto cure = [&](const MemoryNeeds& need) -> std::string {
      if (pass != Pass::kBackward || net.phase() != TRAIN || net.frees_memory_) return "";
      const int64_t less = net.memory_needs().total();
      if (less >= need.total()) return "";
      return Concat("; a solver with frees_memory set needs ", less, " bytes");
    };
    net.rooms_->forecast.Check(pass, needs, cure);
  }
};

Net::Net(const NetParameter& parameter, const NetOptions& options) {
  NamingMemory(NetLabel(parameter.name()), [&] { Init(parameter, options); });
}

Net::Net(const std::string& path, const NetOptions& options) {
  NamingMemory(path, [&] {
    NetOptions with_lines = options;
    const NetParameter parameter = ReadNetFile(path, &with_lines.lines);
    Init(parameter, with_lines);
  });
}

// In the order in which members are destroyed; then the device need not keep what they had.
Net::~Net() {
  Device* const device = device_;
  rooms_.reset();
  wiring_ = Wiring();
  step_state_.reset();
  if (device) TrimFreedMemory(device);
}

void Net::Init(const NetParameter& parameter, const NetOptions& options) {
  NetParameter given = parameter;
  DecodeParameters(&given);
  NetState* state = given.mutable_state();
  if (options.phase >= 0) state->set_phase(static_cast<Phase>(options.phase));
  if (options.level != 0) state->set_level(options.level);
  for (const std::string& stage : options.stages) state->add_stage(stage);
  if (!options.python_layers) RefusePythonLayers(given);
  debug_info_ = given.debug_info();
  check_finite_ = log::Topic("nan");
  explicit_device_ = options.device != nullptr;
  device_ = options.device ? options.device : Runtime::Get().default_device();
  step_state_ = std::make_unique<StepState>(device_);
  const uint64_t seed = options.seed >= 0
                            ? static_cast<uint64_t>(options.seed)
                            : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  wiring_ = NetBuilder(device_, seed, options.lines).Build(given);
  log::Info(Concat("Memory required for data: ", blob_bytes()));
  rooms_ = std::make_unique<Rooms>(wiring_, given, step_state_.get(), device_);
  for (size_t n = 0; n < wiring_.nodes.size(); ++n) {
    if (wiring_.nodes[n].nested_in >= 0) continue;
    log::Info(wiring_.nodes[n].layer->name() + (rooms_->gradients.needed(static_cast<int>(n))
                                                    ? " needs backward computation."
                                                    : " does not need backward computation."));
  }
  rooms_->versions.ShareDiffs();
  MakePlans();
  for (int output : wiring_.outputs) {
    log::Info("This network produces output " + wiring_.user_blob_names[output]);
  }
  log::Info("Network initialization done.");
}

void Net::FollowRanges(bool whole) {
  rooms_->ranges.Update();
  if (rooms_->ranges.epoch() == rooms_->planned_epoch) return;
  rooms_->planned_epoch = rooms_->ranges.epoch();
  if (TiedBottoms() == rooms_->tied) return;
  // A whole forward computes all blobs again.
  if (whole) rooms_->whole->lost().DropForgotten();
  MakePlans();
}

std::vector<std::vector<bool>> Net::TiedBottoms() const {
  std::vector<std::vector<bool>> tied;
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    tied.push_back(caffe::TiedBottoms(wiring_.nodes[n], rooms_->ranges.of(n)));
  }
  return tied;
}

void Net::MakePlans() {
  // The previous plan's executor is needed for the blobs that it did not keep.
  const std::unique_ptr<Executor> previous = std::move(rooms_->whole);
  if (previous) {
    previous->lost().MakeForgotten();
    previous->LeaveArena();
  }
  std::vector<PlanNode> nodes;
  PlanOptions options;
  rooms_->tied = TiedBottoms();
  rooms_->planned_epoch = rooms_->ranges.epoch();
  for (const Node& node : wiring_.nodes) {
    nodes.push_back({node.layer->name(), node.layer->Facts(), node.layer->types(), node.bottom_ids,
                     node.top_ids, rooms_->tied[nodes.size()]});
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      if (node.layer->loss_weight(static_cast<int>(t)) != 0) options.kept.insert(node.top_ids[t]);
    }
  }
  for (int id = 0; id < static_cast<int>(wiring_.blobs.size()); ++id) {
    // Of the versions of a blob the user sees the last one.
    const bool earlier = wiring_.versions.count(id) > 0;
    const bool kept = !earlier && kept_.count(wiring_.blobs[wiring_.UserBlob(id)]->name());
    if (kept || viewed_.count(id)) options.kept.insert(id);
  }
  for (const auto& [first, last] : rooms_->versions.ChangedInputs()) {
    options.kept.insert({first, last});
  }
  // Tops that could not be computed again, because a later layer works in place on the memory of a
  // bottom (on a view of it).
  std::map<const SyncedMemory*, size_t> last_writers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<Alias>& aliases = nodes[n].facts.aliases;
    if (std::any_of(aliases.begin(), aliases.end(), [](const Alias& a) { return a.bottom >= 0; })) {
      continue;
    }
    for (const BlobBase* top : wiring_.nodes[n].top) last_writers[top->data_memory().get()] = n;
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    for (const BlobBase* bottom : node.bottom) {
      const auto writer = last_writers.find(bottom->data_memory().get());
      if (writer == last_writers.end() || writer->second <= n) continue;
      for (size_t t = 0; t < node.top.size(); ++t) {
        if (node.top[t]->data_memory() != bottom->data_memory()) {
          options.kept.insert(node.top_ids[t]);
        }
      }
    }
  }
  if (phase() == TRAIN && rooms_->gradients.requested().empty()) {
    for (int n = 0; n <= wiring_.last_node(); ++n) {
      const std::vector<bool>& bottoms = rooms_->gradients.bottoms(n);
      if (rooms_->gradients.needed(n) &&
          std::all_of(bottoms.begin(), bottoms.end(), [](bool one) { return one; })) {
        options.trained.insert(n);
      }
    }
    // Layers that run again do so in C order.
    const bool again =
        std::any_of(wiring_.nodes.begin(), wiring_.nodes.end(),
                    [](const Node& node) { return node.layer->layer_param().recompute(); });
    for (int n = 0; !again && n <= wiring_.last_node(); ++n) {
      const bool needed = rooms_->gradients.needed(n);
      options.gradients.push_back(needed ? rooms_->gradients.bottoms(n) : std::vector<bool>());
    }
  }
  // In phase TEST most nets never run backward, though a loss gives their layers gradients.
  options.fuse = phase() == TEST && !wiring_.parameter->force_backward() &&
                 rooms_->gradients.requested().empty() && !layer_by_layer_;
  const NetParameter& parameter = *wiring_.parameter;
  options.parts = options.fuse && (!parameter.has_reduced_memory_inference() ||
                                   parameter.reduced_memory_inference());
  Plan plan = Plan::Make(nodes, options);
  const std::string report = plan.Report(nodes);
  if (!report.empty()) log::Debug("fused steps:\n" + report);
  ChannelsLast channels_last = MakeChannelsLast(wiring_, plan);
  std::unique_ptr<ActivationArena> arena;
  if (phase() == TRAIN) {
    arena = std::make_unique<ActivationArena>(
        wiring_,
        PassArrays::Training(wiring_, nodes, plan, channels_last, rooms_->gradients, options.kept));
  } else if (options.parts) {
    arena = std::make_unique<ActivationArena>(
        wiring_, PassArrays::Forward(wiring_, nodes, plan, channels_last, options.kept));
  }
  options.fuse = options.parts = false;
  options.trained.clear();
  options.gradients.clear();
  const auto make = [this](Plan plan, ChannelsLast channels_last = {},
                           std::unique_ptr<ActivationArena> arena = nullptr) {
    const PassRooms rooms{&rooms_->runner, &rooms_->ranges,   &rooms_->gradients,
                          &rooms_->losses, &rooms_->versions, wiring_.workspace.get(),
                          &tail_};
    return std::make_unique<Executor>(wiring_, rooms, std::move(plan), std::move(channels_last),
                                      std::move(arena));
  };
  rooms_->by_layer = make(Plan::Make(nodes, options));
  rooms_->whole = make(std::move(plan), std::move(channels_last), std::move(arena));
  if (previous) rooms_->whole->lost().TakeForgotten(&previous->lost());
  forward_in_arena_ = false;
  rooms_->forecast.Forget();
}

void Net::Keep(const std::vector<std::string>& blobs) {
  const size_t before = kept_.size();
  for (const std::string& blob : blobs) kept_.insert(BlobByName(blob)->name());
  if (kept_.size() != before) MakePlans();
}

// Blobs inside steps that train, and blobs in kNHWC, are not stored: those that the caller sees
// through views are, from now on.
void Net::StoreViewed() {
  if (phase() != TRAIN || !frees_memory_) return;
  const size_t before = viewed_.size();
  for (const Step& step : plan().steps) {
    if (!step.trains() && !step.channels_last()) continue;
    std::vector<int> hidden = step.swallowed;
    if (step.channels_last()) hidden.insert(hidden.end(), step.tops.begin(), step.tops.end());
    for (int id : hidden) {
      const BlobBase& blob = *wiring_.blobs[id];
      if (blob.data_memory()->has_view() || (blob.has_diff() && blob.diff_memory()->has_view())) {
        viewed_.insert(id);
      }
    }
  }
  if (viewed_.size() != before) MakePlans();
}

void Net::set_debug_info(bool value) { debug_info_ = value; }

const Plan& Net::plan() const { return rooms_->whole->plan(); }

// Runs a pass that may write inputs, in layers that change them in place.
template <class Work> void Net::WithInputs(const Work& work) {
  rooms_->versions.TakeInputs();
  try {
    work();
  } catch (...) {
    rooms_->versions.NoteInputs();
    throw;
  }
  rooms_->versions.NoteInputs();
}

template <class Work> void Net::WithNeeds(const Work& work) const {
  const auto label = [&] { return NetLabel(name()); };
  NamingMemory(label, [&] {
    try {
      NamingMemory(label, work);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(
          Concat(error.what(), "; net ", name(), " needs ", memory_needs().ToString()));
    }
  });
}

std::vector<StepInfo> Net::Steps() {
  FollowDefaultDevice();
  FollowRanges(false);
  rooms_->versions.ShapeInputs();
  rooms_->views.TakeData();
  std::vector<StepInfo> steps;
  WithNeeds([&] { steps = rooms_->whole->Describe(); });
  SyncViews();
  return steps;
}

void Net::FollowDefaultDevice() {
  if (explicit_device_ || !Runtime::Get().default_device_is_set()) return;
  Device* device = Runtime::Get().default_device();
  if (device != device_) SetDevice(device);
}

void Net::SetDevice(Device* device) {
  if (device == device_) return;
  rooms_->whole->lost().MakeForgotten();
  device_ = device;
  step_state_->SetDevice(device);
  for (auto& blob : wiring_.blobs) blob->SetDevice(device);
  for (auto& blob : wiring_.parameters) blob->SetDevice(device);
  rooms_->losses.SetDevice();
  rooms_->ranges.SetDevice(device);
  for (Node& node : wiring_.nodes) node.layer->MoveToDevice(device, node.bottom, node.top);
  MakePlans();
}

void Net::Reshape() {
  rooms_->versions.ShapeInputs();
  for (int n = 0; n <= wiring_.last_node(); ++n) rooms_->runner.Reshape(n);
}

std::vector<PassObserver*> Net::ActiveObservers() const {
  std::vector<PassObserver*> active;
  if (rooms_->interruption.check) active.push_back(&rooms_->interruption);
  rooms_->debug_lines.set_all(debug_info_);
  if (rooms_->debug_lines.any()) active.push_back(&rooms_->debug_lines);
  if (check_finite_) active.push_back(&rooms_->finite_check);
  if (rooms_->ranges.table().active()) active.push_back(&rooms_->ranges.pass());
  const LayerCallbacks& callbacks = rooms_->callbacks;
  if (callbacks.before_forward || callbacks.after_forward || callbacks.before_backward ||
      callbacks.after_backward) {
    active.push_back(&rooms_->callbacks);
  }
  active.insert(active.end(), observers_.begin(), observers_.end());
  return active;
}

const char* Net::LooksAtLayers() const {
  const LayerCallbacks& callbacks = rooms_->callbacks;
  if (callbacks.before_forward || callbacks.after_forward || callbacks.before_backward ||
      callbacks.after_backward) {
    return callbacks.name();
  }
  for (const PassObserver* observer : ActiveObservers()) {
    if (observer->per_layer()) return observer->name();
  }
  return nullptr;
}

void Net::Forward() { Forward(0, wiring_.last_layer()); }

void Net::Forward(int start, int end) {
  const int last_layer = wiring_.last_layer();
  if (last_layer < 0) return;
  CAFFE_CHECK(start >= 0 && start <= last_layer && end >= start - 1 && end <= last_layer,
              NetLabel(name()), ": layers ", start, " to ", end,
              " were requested, but the layers are 0 to ", last_layer);
  if (end < start) return;
  FollowDefaultDevice();
  const bool whole = start == 0 && end == last_layer;
  FollowRanges(whole);
  StoreViewed();
  rooms_->views.TakeData();
  // Casts and splits that follow a user layer belong to it; those before the first layer belong to
  // the first layer.
  const int first = start == 0 ? 0 : wiring_.layer_begins[start];
  const int last = wiring_.EndOf(end) - 1;
  const std::vector<PassObserver*> observers = ActiveObservers();
  const bool per_layer = std::any_of(observers.begin(), observers.end(),
                                     [](const PassObserver* o) { return o->per_layer(); });
  // In phase TRAIN the arena is for the passes of a solver.
  const bool trains = phase() == TRAIN;
  const bool in_whole = whole && !per_layer && (!trains || (frees_memory_ && !LooksAtLayers()));
  forward_in_arena_ = false;
  if (trains && !in_whole) rooms_->whole->LeaveArena();
  if (!whole && !trains) {
    rooms_->whole->lost().MakeDependents(first, last, rooms_->versions.WrittenInputs());
  }
  // What the pass changes is not needed for late reads any more.
  const MemoryWatcher::Quiet quiet(!trains);
  WithInputs([&] {
    BlobVersions::Taken taken;
    if (start > 0) taken = rooms_->versions.Take(first, last);
    rooms_->views.ForgetOverwritten(first, last, whole);
    // The arena needs the memories of diffs as the backward pass will find them.
    if (trains && in_whole) rooms_->versions.ShareDiffs();
    Executor& executor = in_whole ? *rooms_->whole : *rooms_->by_layer;
    if (whole) {
      using Pass = MemoryForecast::Pass;
      Rooms::CheckMemory(*this, in_whole ? Pass::kArena : Pass::kForward);
    }
    for (int n = first; n <= last; ++n) rooms_->in_steps[n] = in_whole;
    WithNeeds([&] { executor.Forward(first, last, observers, per_layer); });
    if (!in_whole) rooms_->whole->lost().NoteReads(true);
    forward_in_arena_ = trains && in_whole;
    if (end < last_layer) rooms_->versions.Publish(first, last);
    SyncViews();
  });
}

void Net::Backward() { Backward(wiring_.last_layer(), 0); }

void Net::Backward(int start, int end) {
  const int last_layer = wiring_.last_layer();
  if (last_layer < 0) return;
  CAFFE_CHECK(end >= 0 && start <= last_layer && start >= end - 1, NetLabel(name()),
              ": backward from layer ", start, " to ", end, ", but the layers are 0 to ",
              last_layer);
  if (start < end) return;
  const std::vector<int> run = wiring_.BackwardNodes(start, end);
  for (const int n : run) {
    const LayerBase& layer = *wiring_.nodes[n].layer;
    CAFFE_CHECK(rooms_->runner.ran()[n] || !rooms_->gradients.needed(n), NetLabel(name()),
                ": backward reads what a forward of layer ", layer.name(), " (", layer.type(),
                ") has computed, but there was none; call forward first");
  }
  if (phase() == TEST && !layer_by_layer_ && rooms_->gradients.any()) {
    layer_by_layer_ = true;
    TakeNewGradients(NeededNodes());
  }
  rooms_->views.TakeDiffs();
  rooms_->gradients.CheckConflicts();
  rooms_->versions.ShareDiffs();
  const auto& nodes = wiring_.nodes;
  const int first = wiring_.layer_nodes[start], last = wiring_.layer_begins[end];
  if (start < last_layer) rooms_->versions.CopyDiffs(nodes[first].top_ids, true);
  const std::vector<PassObserver*> observers = ActiveObservers();
  const bool in_arena =
      forward_in_arena_ && frees_memory_ && start == last_layer && end == 0 && !LooksAtLayers();
  forward_in_arena_ = false;
  if (phase() == TRAIN && !in_arena) rooms_->whole->LeaveArena();
  if (!in_arena && start == last_layer && end == 0) {
    Rooms::CheckMemory(*this, MemoryForecast::Pass::kBackward);
  }
  WithNeeds([&] {
    if (end > 0) ClearUnreadDiffs(run, first, last);
    const bool whole = start == last_layer && end == 0;
    (in_arena ? *rooms_->whole : *rooms_->by_layer).Backward(run, whole, observers);
    if (!in_arena) ClearInputGradientsOutsideRanges(run, first, last);
  });
  if (end > 0) {
    rooms_->versions.CopyDiffs(nodes[wiring_.layer_nodes[end]].named_bottom_ids(), false);
  } else {
    ShowInputDiffs();
  }
  if (start == last_layer && end == 0) {
    for (PassObserver* observer : observers) observer->AfterBackwardPass();
  }
  SyncViews();
}

void Net::ClearInputGradientsOutsideRanges(const std::vector<int>& run, int first, int last) {
  if (!is_pseudo()) return;
  const auto has_gradient = [&](int id) {
    return std::any_of(run.begin(), run.end(), [&](int n) {
      const std::vector<int>& ids = wiring_.nodes[n].bottom_ids;
      const std::vector<bool>& gradients = rooms_->gradients.bottoms(n);
      for (size_t b = 0; b < ids.size() && b < gradients.size(); ++b) {
        if (ids[b] == id && gradients[b]) return true;
      }
      return false;
    });
  };
  for (int n = last; n <= first; ++n) {
    const Node& node = wiring_.nodes[n];
    if (!node.bottom.empty() || rooms_->gradients.needed(n)) continue;
    if (std::any_of(node.top_ids.begin(), node.top_ids.end(), has_gradient)) {
      rooms_->ranges.pass().BeforeBackward(node);
    }
  }
}

void Net::SetTrainingTail(std::vector<std::function<void()>> tail) {
  tail_ = std::move(tail);
  rooms_->whole->DropTail();
  rooms_->by_layer->DropTail();
}

void Net::RunTail() {
  for (const auto& entry : tail_) entry();
}

std::string Net::WhyInParts() const {
  if (phase() != TRAIN) return "the net is in phase TEST";
  if (const char* const name = LooksAtLayers()) return Concat(name, " looks at every layer");
  const BlobBase* const viewed = rooms_->views.Viewed();
  return viewed ? Concat("there is a view of blob ", viewed->name()) : "";
}

void Net::RunIteration(bool with_tail) {
  FollowDefaultDevice();
  StoreViewed();
  Executor& executor = frees_memory_ ? *rooms_->whole : *rooms_->by_layer;
  using Pass = MemoryForecast::Pass;
  Rooms::CheckMemory(*this, frees_memory_ && !LooksAtLayers() ? Pass::kArena : Pass::kBackward);
  const std::string why = WhyInParts();
  if (why != why_in_parts_ && !why.empty() && executor.Replays()) {
    log::Debug(Concat(NetLabel(name()), ": iterations are not replayed as a graph: ", why));
  }
  why_in_parts_ = why;
  if (!why.empty()) {
    Forward();
    Backward();
    if (with_tail) RunTail();
    return;
  }
  const std::vector<PassObserver*> observers = ActiveObservers();
  forward_in_arena_ = false;
  if (!frees_memory_) rooms_->whole->LeaveArena();
  rooms_->versions.ShareDiffs();  // before the arena is planned
  rooms_->in_steps.assign(wiring_.nodes.size(), frees_memory_);
  WithInputs([&] {
    rooms_->views.ForgetOverwritten(0, wiring_.last_node(), true);
    WithNeeds([&] { executor.Iterate(with_tail, observers); });
  });
  ShowInputDiffs();
  for (PassObserver* observer : observers) observer->AfterBackwardPass();
}

// The diff of an input is that of its first version.
void Net::ShowInputDiffs() {
  std::vector<int> known;
  for (const auto& [first, last] : rooms_->versions.ChangedInputs()) {
    for (int n = 0; n <= wiring_.last_node(); ++n) {
      const std::vector<int>& bottoms = wiring_.nodes[n].bottom_ids;
      for (size_t b = 0; b < bottoms.size(); ++b) {
        if (bottoms[b] == first && rooms_->gradients.bottoms(n)[b]) known.push_back(first);
      }
    }
  }
  rooms_->versions.CopyDiffs(known, false);
}

// The gradient of a split's top before the pass is 0 if its reader would run later in the backward
// pass.
void Net::ClearUnreadDiffs(const std::vector<int>& run, int first, int last) {
  for (int split : run) {
    if (split >= last) continue;
    for (BlobBase* top : wiring_.nodes[split].top) {
      for (int n = split + 1; n < last; ++n) {
        const BlobVec& read = wiring_.nodes[n].bottom;
        if (std::find(run.begin(), run.end(), n) == run.end() &&
            std::find(read.begin(), read.end(), top) != read.end()) {
          SyncedMemory& diff = *top->diff_memory();
          device_->Fill(diff.mutable_device_data(), 0, diff.bytes());
        }
      }
    }
  }
}

std::vector<bool> Net::NeededNodes() const {
  std::vector<bool> needed;
  for (int n = 0; n <= wiring_.last_node(); ++n) needed.push_back(rooms_->gradients.needed(n));
  return needed;
}

void Net::RequestGradients(const std::vector<std::string>& blobs) {
  const std::set<int> before = rooms_->gradients.requested();
  const std::vector<bool> needed = NeededNodes();
  for (const std::string& blob : blobs) {
    std::string why;
    if (rooms_->gradients.Request(blob, &why)) continue;
    rooms_->gradients.Restore(before);
    CAFFE_THROW(NetLabel(name()), ": no gradient for blob '", blob, "': ", why);
  }
  if (rooms_->gradients.requested() != before) TakeNewGradients(needed);
}

std::vector<std::string> Net::RequestGradientsWhereKnown(const std::vector<std::string>& blobs) {
  const size_t before = rooms_->gradients.requested().size();
  const std::vector<bool> needed = NeededNodes();
  std::vector<std::string> known;
  std::string first;
  for (const std::string& blob : blobs) {
    std::string why;
    if (rooms_->gradients.Request(blob, &why)) {
      known.push_back(blob);
    } else if (first.empty()) {
      first = Concat(NetLabel(name()), ": no gradient for blob '", blob, "': ", why);
    }
  }
  CAFFE_CHECK(rooms_->gradients.any() || first.empty() || !known.empty(), first);
  if (rooms_->gradients.requested().size() != before) TakeNewGradients(needed);
  return known;
}

// Layers that work in place keep a copy of their bottom only if Backward will be called. A layer
// that did not keep it runs again, and so does one that another layer's step computed, or whose own
// arrays were not written or not kept, with all layers that write the same memory.
void Net::TakeNewGradients(const std::vector<bool>& needed_before) {
  rooms_->gradients.CheckConflicts();
  std::set<int> skipped = rooms_->whole->lost().lost_arrays(), in_nhwc;
  for (const Step& step : plan().steps) {
    if (step.trains()) continue;
    if (step.fused()) skipped.insert(step.nodes.begin(), step.nodes.end());
    if (step.channels_last()) in_nhwc.insert(step.nodes.begin(), step.nodes.end());
  }
  MakePlans();
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    const Node& node = wiring_.nodes[n];
    if (!rooms_->in_steps[n] || !rooms_->gradients.needed(n)) continue;
    const BlobVec kept = node.layer->Arrays(node.bottom, node.top).kept;
    if (std::any_of(kept.begin(), kept.end(), [&](const BlobBase* array) {
          return in_nhwc.count(n) || (array->count() > 0 && array->data_version() == 0);
        })) {
      skipped.insert(n);
    }
  }
  std::erase_if(skipped, [this](int n) { return !rooms_->in_steps[n]; });
  NodeRunner& runner = rooms_->runner;
  const std::set<int> repeated = rooms_->gradients.ToRepeat(needed_before, runner.ran(), skipped);
  if (repeated.empty()) return;
  WithInputs([&] {
    const LateReads::Restored restored(rooms_->whole->lost().late_reads());
    for (int node : repeated) {
      runner.Prepare(node);
      runner.RepeatForward(node);
      rooms_->ranges.pass().AfterRepeat(wiring_.nodes[node]);
    }
    SyncViews();
  });
}

void Net::CheckTrainable() const { rooms_->gradients.CheckTrainable(); }

bool Net::has_narrow_gradients() const { return rooms_->gradients.narrow(); }

void Net::ClearParamDiffs() {
  std::set<SyncedMemory*> cleared;
  for (BlobBase* blob : wiring_.learnable) {
    SyncedMemory* memory = blob->diff_memory().get();
    if (!cleared.insert(memory).second) continue;
    device_->Fill(memory->mutable_device_data(), 0, memory->bytes());
  }
}

float Net::Loss() {
  const double loss = rooms_->losses.Sum();
  if (!std::isfinite(loss)) CheckData();
  return static_cast<float>(loss);
}

void Net::CheckData() {
  // Calls CheckData of every layer, so that the next call reports only later forwards.
  std::exception_ptr first;
  for (const Node& node : wiring_.nodes) {
    try {
      InLayer(*node.layer, [&node] { node.layer->CheckData(); });
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

namespace {

int IndexOf(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::vector<BlobBase*> Pick(const std::vector<std::shared_ptr<BlobBase>>& blobs,
                            const std::vector<int>& indices) {
  std::vector<BlobBase*> picked;
  for (int index : indices) picked.push_back(blobs[index].get());
  return picked;
}

}  // namespace

bool Net::has_blob(const std::string& blob) const {
  return IndexOf(wiring_.user_blob_names, blob) >= 0;
}

const std::shared_ptr<BlobBase>& Net::BlobByName(const std::string& blob) const {
  const int index = IndexOf(wiring_.user_blob_names, blob);
  CAFFE_CHECK(index >= 0, NetLabel(name()), " has no blob '", blob, "'");
  return wiring_.user_blobs[index];
}

bool Net::has_layer(const std::string& layer) const {
  return IndexOf(wiring_.layer_names, layer) >= 0;
}

const std::shared_ptr<LayerBase>& Net::LayerByName(const std::string& layer) const {
  const int index = IndexOf(wiring_.layer_names, layer);
  CAFFE_CHECK(index >= 0, NetLabel(name()), " has no layer '", layer, "'");
  return wiring_.layers[index];
}

std::vector<BlobBase*> Net::input_blobs() const { return Pick(wiring_.user_blobs, wiring_.inputs); }

std::vector<BlobBase*> Net::output_blobs() const {
  return Pick(wiring_.user_blobs, wiring_.outputs);
}

void Net::ShareTrainedLayersWith(const Net& other) {
  std::set<const SyncedMemory*> shared;
  for (const auto& blob : other.wiring_.parameters) shared.insert(blob->data_memory().get());
  for (const auto& blob : wiring_.parameters) {
    if (shared.count(blob->data_memory().get())) continue;
    rooms_->whole->lost().MakeForgotten();  // with the parameters of the last forward
    break;
  }
  ShareWeights(wiring_, other.wiring_);
}

std::vector<int> Net::CopyTrainedLayersFrom(const NetParameter& trained, MissingWeights missing) {
  rooms_->whole->lost().MakeForgotten();  // with the parameters and ranges of the last forward
  WeightsOptions options;
  options.missing = missing;
  const WeightsSource source{Concat("the weights of net '", trained.name(), "'"), &trained,
                             nullptr};
  std::vector<int> without = CopyWeights(wiring_, {source}, options);
  rooms_->ranges.Read(trained);
  return without;
}

std::vector<int> Net::CopyTrainedLayersFrom(const std::string& path,
                                            const WeightsOptions& options) {
  return CopyTrainedLayersFrom(std::vector<std::string>{path}, options);
}

namespace {

std::string JoinedPaths(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

}  // namespace

std::vector<int> Net::CopyTrainedLayersFrom(const std::vector<std::string>& paths,
                                            const WeightsOptions& options) {
  CAFFE_CHECK(!paths.empty(), NetLabel(name()), ": no file of weights is named");
  rooms_->whole->lost().MakeForgotten();
  try {
    std::vector<WeightsFile> files;
    std::vector<WeightsSource> sources;
    files.reserve(paths.size());
    for (const std::string& path : paths) {
      CAFFE_CHECK(!path.empty(), NetLabel(name()), ": the name of a file of weights is empty");
      NamingMemory(path, [&] { files.push_back(ReadWeights(wiring_, path, options.whole)); });
      sources.push_back({path, &files.back().net(), &files.back()});
    }
    return NamingMemory(NetLabel(name()) + ", which reads " + JoinedPaths(paths), [&] {
      std::vector<int> without = CopyWeights(wiring_, sources, options);
      // A snapshot has all ranges of its training; others were observed in another one.
      if (options.whole) rooms_->ranges.Forget();
      for (const WeightsFile& file : files) rooms_->ranges.Read(file.net());
      return without;
    });
  } catch (const Error&) {
    RethrowWithAdvice(paths);
  }
}

void Net::ToProto(NetParameter* parameter, bool write_diff) const {
  *parameter = *wiring_.parameter;
  rooms_->ranges.Write(parameter);
  WriteWeights(wiring_, parameter, Narrow::kAsStored, write_diff);
}

void Net::ToHDF5(NetParameter* parameter, bool write_diff) const {
  CheckHdf5Names();
  *parameter = *wiring_.parameter;
  rooms_->ranges.Write(parameter);
  WriteWeights(wiring_, parameter, Narrow::kAsFloat, write_diff);
  RemoveSharedParameters(wiring_, parameter);
}

void Net::SaveHDF5(const std::string& path, bool write_diff) const {
  NamingMemory(path, [&] {
    NetParameter parameter;
    ToHDF5(&parameter, write_diff);
    WriteNetHdf5(path, parameter);
  });
}

void Net::CheckHdf5Names() const { caffe::CheckHdf5Names(wiring_); }

std::string Net::WeightsId() const { return caffe::WeightsId(wiring_); }

std::vector<int> Net::LoadHDF5(const std::string& path, const WeightsOptions& options) {
  return NamingMemory(path, [&] {
    const WeightsFile file(ReadHdf5Weights(wiring_, path));
    rooms_->whole->lost().MakeForgotten();
    std::vector<int> without = CopyWeights(wiring_, {{path, &file.net(), &file}}, options);
    rooms_->ranges.Read(file.net());
    return without;
  });
}

void Net::WriteRunState(NetRunState* state) const {
  for (const Node& node : wiring_.nodes) {
    if (node.added()) continue;
    LayerRunState* one = state->add_layer();
    one->set_name(node.layer->name());
    one->set_seed(node.layer->context().seed);
    for (uint64_t value : node.layer->RunState()) one->add_value(value);
  }
}

void Net::ReadRunState(const NetRunState& state) {
  rooms_->whole->lost().MakeForgotten();  // with the random numbers of the last forward
  // Layers of one name match in their order.
  std::map<std::string, std::vector<LayerBase*>> layers;
  for (const Node& node : wiring_.nodes) {
    if (!node.added()) layers[node.layer->name()].push_back(node.layer.get());
  }
  std::map<std::string, size_t> given;
  for (const LayerRunState& one : state.layer()) {
    const std::vector<LayerBase*>& namesakes = layers[one.name()];
    const size_t place = given[one.name()]++;
    if (place >= namesakes.size()) {
      log::Info(Concat("Ignoring the position of layer ", one.name(), ": ", name(), " has none"));
      continue;
    }
    namesakes[place]->SetRunState(one.seed(), {one.value().begin(), one.value().end()});
  }
}

void Net::set_before_forward(Callback callback) {
  rooms_->callbacks.before_forward = std::move(callback);
}
void Net::set_after_forward(Callback callback) {
  rooms_->callbacks.after_forward = std::move(callback);
}
void Net::set_before_backward(Callback callback) {
  rooms_->callbacks.before_backward = std::move(callback);
}
void Net::set_after_backward(Callback callback) {
  rooms_->callbacks.after_backward = std::move(callback);
}
void Net::AddObserver(PassObserver* observer) { observers_.push_back(observer); }
void Net::RemoveObserver(PassObserver* observer) { std::erase(observers_, observer); }
void Net::set_interruption(std::function<void()> check) {
  rooms_->interruption.check = std::move(check);
}

void Net::set_observe(bool observe) {
  set_quantizer_mode(observe ? CAFFE_QUANT_OBSERVE : CAFFE_QUANT_PASSIVE);
}

bool Net::observe() const { return quantizer_mode() == CAFFE_QUANT_OBSERVE; }

void Net::set_quantizer_mode(QuantizerMode mode) {
  if (rooms_->ranges.set_mode(mode)) MakePlans();
}

QuantizerMode Net::quantizer_mode() const { return rooms_->ranges.table().mode; }

void Net::set_pseudo_type(DataType type) {
  if (rooms_->ranges.set_pseudo_type(type)) MakePlans();
}

DataType Net::pseudo_type() const { return rooms_->ranges.table().pseudo_type; }

std::vector<std::string> Net::quantizers() const { return rooms_->ranges.Quantizers(); }

void Net::SetQuantizerMode(const std::string& quantizer, QuantizerMode mode) {
  if (rooms_->ranges.SetMode(quantizer, mode)) MakePlans();
}

QuantizerMode Net::QuantizerModeOf(const std::string& quantizer) const {
  return rooms_->ranges.table().ModeOf(quantizer);
}

void Net::SetPseudoType(const std::string& quantizer, DataType type) {
  if (rooms_->ranges.SetPseudoType(quantizer, type)) MakePlans();
}

DataType Net::PseudoTypeOf(const std::string& quantizer) const {
  return rooms_->ranges.table().PseudoTypeOf(quantizer);
}

bool Net::is_pseudo() const { return rooms_->ranges.table().HasMode(CAFFE_QUANT_PSEUDO); }
void Net::CopyRangesFrom(const Net& other) {
  rooms_->whole->lost().MakeForgotten();  // with the ranges of the last forward
  rooms_->ranges.CopyFrom(other.rooms_->ranges);
}
std::map<std::string, Range> Net::Ranges() const { return rooms_->ranges.Stored(); }
std::map<std::string, Histogram> Net::Histograms() const {
  return rooms_->ranges.pass().Histograms();
}
void Net::UsePlaceholderRanges() { rooms_->ranges.UsePlaceholders(); }

void Net::UpdateBlobRanges() {
  if (!rooms_->ranges.Update()) return;
  // In the order of a forward, so that the last version of a blob sets the range.
  for (int n = 0; n <= wiring_.last_node(); ++n) rooms_->ranges.Publish(n);
}

bool Net::lacks_ranges() {
  UpdateBlobRanges();
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    const BlobVec& tops = wiring_.nodes[n].top;
    for (size_t t = 0; t < tops.size(); ++t) {
      const bool codes = tops[t]->type().is_quantized();
      if (codes && !rooms_->ranges.of(n).top[t].observed) return true;
    }
  }
  return false;
}

void Net::SyncViews() { rooms_->views.Update(); }

BlobBase* Net::FirstVersion(const BlobBase& input) {
  rooms_->versions.ShapeInputs();
  return rooms_->versions.FirstVersion(input);
}

void Net::NoteWritten(const BlobBase& input) { rooms_->versions.NoteWritten(input); }

void Net::ExpectForward(bool yes) { rooms_->whole->lost().late_reads().ExpectForward(yes); }

void Net::NoteFirstVersion(const BlobBase& input) { rooms_->versions.NoteInput(input); }

void Net::TakeViews() {
  rooms_->views.TakeData();
  rooms_->views.TakeDiffs();
}

int64_t Net::blob_bytes() const {
  int64_t bytes = 0;
  for (const auto& blob : wiring_.blobs) bytes += blob->bytes();
  return bytes;
}

int64_t Net::parameter_bytes() const {
  int64_t bytes = 0;
  for (const BlobBase* blob : wiring_.learnable) bytes += blob->bytes();
  return bytes;
}

MemoryNeeds Net::memory_needs() const {
  const bool backward = phase() == TRAIN || wiring_.parameter->force_backward() ||
                        !rooms_->gradients.requested().empty();
  StepWorkspaces workspaces;
  const WorkMemory works = rooms_->whole->CountWorks(&workspaces);
  return CountMemory(wiring_, rooms_->gradients, plan(), rooms_->whole->channels_last(),
                     rooms_->whole->arena(), works, workspaces, backward);
}

}  // namespace caffe
