#include "executor.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "caffe.pb.h"
#include "caffe/net/plan/describe_step.hpp"

namespace caffe {
namespace {

using Kind = Action::Kind;

// For each node, whether its layer enqueues the same work in each pass.
std::vector<bool> FindReplayable(const Wiring& wiring) {
  std::vector<bool> replays;
  for (const Node& node : wiring.nodes) {
    const LayerFacts facts = node.layer->Facts();
    replays.push_back(facts.replayable && !facts.host && !facts.shapes_from_data);
  }
  return replays;
}

}  // namespace

Executor::Executor(const Wiring& wiring, const PassRooms& rooms, Plan plan, ArrayBlobs array_blobs,
                   std::unique_ptr<ActivationArena> arena)
    : wiring_(wiring),
      rooms_(rooms),
      plan_(std::move(plan)),
      unwritten_(UnwrittenBlobs(wiring, plan_)),
      arena_(std::move(arena)),
      works_(wiring, rooms.runner, rooms.ranges, rooms.workspace, plan_, std::move(array_blobs),
             arena_.get()),
      lost_(wiring, rooms.runner, rooms.ranges, plan_, &works_, arena_.get()) {}

Executor::~Executor() = default;

bool Executor::Replays() {
  if (!replays_) {
    replays_ =
        rooms_.workspace->device()->can_capture() && GraphModeOfEnvironment() != GraphMode::kOff;
  }
  return *replays_;
}

const ScheduleMaker& Executor::Maker() {
  if (!maker_) {
    maker_.emplace(plan_, FindReplayable(wiring_), arena_ ? &arena_->arrays() : nullptr);
  }
  return *maker_;
}

Executor::Pass* Executor::WholePass(Whole kind) {
  std::unique_ptr<Pass>& pass = passes_[kind];
  if (pass) return pass.get();
  const ScheduleMaker& maker = Maker();
  if (kind == kForward) {
    pass = std::make_unique<Pass>(maker.Forward({}, 0, wiring_.last_node()));
    return pass.get();
  }
  const std::vector<int> run = wiring_.BackwardNodes(wiring_.last_layer(), 0);
  const std::vector<bool> needed = rooms_.gradients->NeededNodes();
  if (kind == kBackward) {
    pass = std::make_unique<Pass>(maker.Backward(run, needed));
    return pass.get();
  }
  const size_t entries = kind == kWholeIteration ? rooms_.tail->entries.size() : 0;
  const auto writers = kind == kIteration ? std::vector<std::set<int>>() : FindWriters();
  pass = std::make_unique<Pass>(maker.Training(run, needed, writers, entries));
  return pass.get();
}

std::vector<std::set<int>> Executor::FindWriters() const {
  std::vector<std::set<int>> writers;
  for (const TrainingTail::Reduction& reduction : rooms_.tail->reductions) {
    std::set<const SyncedMemory*> diffs;
    for (const int id : reduction.parameters) {
      diffs.insert(wiring_.learnable[id]->diff_memory().get());
    }
    std::set<int> nodes;
    for (int n = 0; n <= wiring_.last_node(); ++n) {
      for (const auto& blob : wiring_.nodes[n].layer->blobs()) {
        if (blob->has_diff() && diffs.count(blob->diff_memory().get())) nodes.insert(n);
      }
    }
    writers.push_back(std::move(nodes));
  }
  return writers;
}

void Executor::DropTail() {
  passes_[kReducedIteration].reset();
  passes_[kWholeIteration].reset();
}

template <class Work> void Executor::WhileRunning(const Running& running, const Work& run) {
  const Running* const outer = std::exchange(running_, &running);
  try {
    run();
  } catch (...) {
    running_ = outer;
    throw;
  }
  running_ = outer;
}

bool Executor::Replays(const Observers& observers) {
  const bool per_step = std::any_of(observers.begin(), observers.end(),
                                    [](const PassObserver* one) { return one->per_step(); });
  return !per_step && Replays();
}

void Executor::Run(Pass* pass, const Running& running, bool replays) {
  WhileRunning(running, [&] {
    if (replays && Replays(running.observers)) {
      pass->replay.Run(rooms_.workspace->device(), this);
    } else {
      pass->replay.RunNormally(this);
    }
  });
}

void Executor::Prepare(const Schedule& schedule) {
  const auto each_step = [&](const auto& use) {
    for (const Action& action : schedule.actions) {
      if (action.of_step()) use(static_cast<size_t>(action.index));
    }
  };
  each_step([this](size_t step) { works_.Prepare(step); });
  // The shapes of the arrays that hold parts are known only now.
  each_step([this](size_t step) {
    if (!works_.HasCurrentPitch(step)) works_.Prepare(step);
  });
}

std::vector<StepInfo> Executor::Describe() {
  rooms_.ranges->Update();
  std::vector<StepInfo> steps;
  Prepare(WholePass(kForward)->schedule);
  std::optional<ActivationArena> planned;  // the arena itself changes only in a forward
  if (arena_) planned.emplace(wiring_, arena_->arrays()).Update();
  for (size_t i = 0; i < works_.size(); ++i) {
    const auto is_part = [&](int node, int bottom) {
      return planned && planned->IsPart(node, bottom);
    };
    if (plan_.steps[i].converts()) continue;
    steps.push_back(DescribeStep(wiring_, plan_, i, works_.work(i), is_part));
  }
  return steps;
}

void Executor::PlaceForward() {
  if (!arena_) return;
  arena_->Update(works_.FindWorkspaces());
  arena_->Place(rooms_.workspace->device(), 0, arena_->arrays().forward_steps);
  works_.NeedWorkspaces();
}

void Executor::Forward(int first, int last, const Observers& observers, bool per_layer) {
  lost_.late_reads().End();
  // In phase TRAIN, forwards write parameters, which other nets may share.
  const MemoryWatcher::Quiet quiet(wiring_.phase == TEST);
  rooms_.ranges->Update();
  rooms_.ranges->CheckScales();
  KeepBlobsThatAreRead();
  const bool whole = first == 0 && last == wiring_.last_node();
  std::optional<Pass> part;
  if (!whole) {
    std::vector<int> added;
    if (first > 0) added = wiring_.AddedNodesBefore(first, last);
    std::reverse(added.begin(), added.end());
    part.emplace(Maker().Forward(added, first, last));
  }
  Pass* const pass = whole ? WholePass(kForward) : &*part;
  Prepare(pass->schedule);
  try {
    PlaceForward();
    Run(pass, {pass->schedule, observers, false, per_layer},
        whole && !per_layer && wiring_.phase == TEST);
  } catch (...) {
    Run({Kind::kEndForward});
    throw;
  }
}

void Executor::Backward(const std::vector<int>& nodes, bool whole, const Observers& observers) {
  std::optional<Pass> part;
  if (!whole) part.emplace(Maker().Backward(nodes, rooms_.gradients->NeededNodes()));
  Pass* const pass = whole ? WholePass(kBackward) : &*part;
  try {
    Run(pass, {pass->schedule, observers}, false);
  } catch (...) {
    EndBackward();
    throw;
  }
}

void Executor::PrepareIteration() {
  for (size_t i = 0; i < works_.size(); ++i) {
    works_.PrepareStep(i);
    // Later passes renew derived weights right before the step. The first one also allocates and
    // measures.
    if (!works_.prepared(i)) works_.PrepareWork(i);
  }
}

void Executor::Iterate(IterationEnd end, const Observers& observers, int replica,
                       const RunAsMember* member) {
  lost_.late_reads().End();
  rooms_.ranges->Update();
  KeepBlobsThatAreRead();
  PrepareIteration();
  const bool reduces = end == IterationEnd::kReductions && !rooms_.tail->reductions.empty();
  Pass* const pass = WholePass(end == IterationEnd::kTail ? kWholeIteration
                               : reduces                  ? kReducedIteration
                                                          : kIteration);
  try {
    PlaceForward();
    const Running running{pass->schedule, observers, true, false, replica};
    if (!member) {
      Run(pass, running, true);
    } else {
      WhileRunning(running, [&] {
        (*member)({this, pass->shared, rooms_.workspace->device(), Replays(observers)});
      });
    }
  } catch (...) {
    EndBackward();
    throw;
  }
}

void Executor::Before(const Action& action) {
  if (action.node < 0 || !action.begins) return;
  const Node& node = wiring_.nodes[action.node];
  for (PassObserver* observer : running_->observers) {
    action.kind == Kind::kBackward ? observer->BeforeBackward(node) : observer->BeforeForward(node);
  }
}

void Executor::After(const Action& action) {
  if (action.node < 0 || !action.ends) return;
  const Node& node = wiring_.nodes[action.node];
  for (PassObserver* observer : running_->observers) {
    action.kind == Kind::kBackward ? observer->AfterBackward(node) : observer->AfterForward(node);
  }
}

void Executor::Run(const Action& action) {
  const size_t step = static_cast<size_t>(action.index);
  switch (action.kind) {
    case Kind::kStep:
    case Kind::kConvert:
      // A layer before this one may have shapes that depend on its data, and an observer may have
      // written parameters.
      if (running_->prepares_each || !works_.IsPrepared(step)) {
        works_.Prepare(step);
      } else if (running_->renews) {
        works_.PrepareWork(step);
      }
      works_.Run(step);
      break;
    case Kind::kEndForward:
      lost_.ForgetLost();
      if (trains()) lost_.NoteParameters();
      lost_.NoteReads(false);
      break;
    case Kind::kSeed:
      rooms_.gradients->CheckConflicts();
      rooms_.versions->ShareDiffs();
      rooms_.losses->Seed(running_->schedule.backward, rooms_.workspace->device());
      break;
    case Kind::kBeginBackward: BeginBackward(); break;
    case Kind::kPlaceAgain: {
      const RecomputedSegment& segment = arena_->arrays().segments[action.index];
      arena_->PlaceAgain(segment.step, segment.step + static_cast<int>(segment.nodes.size()));
      break;
    }
    case Kind::kAgain: works_.RunAgain(action.index); break;
    case Kind::kBackward:
      works_.RunBackward(action.index, rooms_.gradients->bottoms(action.index));
      break;
    case Kind::kEndBackward: EndBackward(); break;
    case Kind::kReduce:
      reductions_.Run(rooms_.workspace->device(), rooms_.tail->reductions[step].enqueue);
      break;
    case Kind::kJoin: reductions_.Join(rooms_.workspace->device()); break;
    case Kind::kTail: rooms_.tail->entries[step](); break;
  }
  Note(action);
}

void Executor::Note(const Action& action) {
  if (action.kind == Kind::kStep) NoteStep(static_cast<size_t>(action.index));
  if (action.kind == Kind::kSeed) rooms_.losses->NoteSeeded();
}

void Executor::NoteStep(size_t index) {
  const Step& step = plan_.steps[index];
  for (int node : step.nodes) rooms_.runner->NoteRun(node);
  for (int blob : unwritten_[index]) lost_.Forget(blob);
  rooms_.ranges->Publish(step.nodes.back());
}

void Executor::BeginBackward() {
  const PassArrays& arrays = arena_->arrays();
  for (int array : arena_->dead_after_forward()) lost_.Lose(array);
  arena_->Place(rooms_.workspace->device(), arrays.forward_steps,
                static_cast<int>(arrays.steps.size()));
}

// Also of a pass that ended early.
void Executor::EndBackward() {
  if (!arena_) return;
  for (int array : arena_->placed()) lost_.Lose(array);
  lost_.LoseHiddenDiffs();
  lost_.NoteReads(false);
}

namespace {

// `diff`: in an iteration, which has a backward.
void AddBlob(const BlobBase& blob, bool diff, GraphEpoch* epoch) {
  epoch->Add(blob.data_memory().get());
  if (diff) epoch->Add(blob.has_diff() ? blob.diff_memory().get() : nullptr);
  if (blob.type().is_quantized()) epoch->Add(static_cast<uint64_t>(blob.range().zero));
  if (blob.type().is_scaled()) epoch->Add(std::bit_cast<uint64_t>(blob.range().scale));
}

}  // namespace

void Executor::AddNode(int index, GraphEpoch* epoch) const {
  const Node& node = wiring_.nodes[index];
  epoch->Add(static_cast<uint64_t>(rooms_.runner->shape_epoch(index)));
  epoch->Add(node.layer->context().draw_seed());
  const bool iteration = running_->renews;
  for (const BlobBase* bottom : node.bottom) AddBlob(*bottom, iteration, epoch);
  for (const BlobBase* top : node.top) AddBlob(*top, iteration, epoch);
  for (size_t i = 0; i < node.layer->blobs().size(); ++i) {
    const BlobBase& parameter = *node.layer->blobs()[i];
    AddBlob(parameter, iteration, epoch);
    if (iteration) {
      epoch->Add(node.layer->param_propagate_down(static_cast<int>(i)));
      continue;
    }
    // A copy that Prepare made of the parameter has new content, or other memory.
    epoch->Add(parameter.data_version());
    epoch->Add(parameter.data_memory()->buffer().get());
  }
}

void Executor::AddStep(size_t step, GraphEpoch* epoch) const {
  if (!works_.HasNotedShapes(step)) epoch->MarkIncomplete();
  epoch->Add(works_.serial(step));
  if (!plan_.steps[step].converts()) {
    for (const int node : plan_.steps[step].nodes) AddNode(node, epoch);
  }
  works_.VisitLaidOut(step,
                      [&](const BlobBase& array) { AddBlob(array, running_->renews, epoch); });
}

void Executor::AddToEpoch(std::span<const Action> actions, GraphEpoch* epoch) {
  epoch->Add(static_cast<uint64_t>(rooms_.ranges->epoch()));
  if (arena_) {
    epoch->Add(arena_->plans());
    epoch->Add(arena_->pointer().handle);
  }
  if (trains()) {
    for (size_t i = 0; i < arena_->arrays().arrays.size(); ++i) {
      epoch->Add(arena_->Memory(static_cast<int>(i)).get());
    }
  }
  for (const Action& action : actions) {
    if (action.replica != running_->replica) continue;
    if (action.of_step()) {
      AddStep(static_cast<size_t>(action.index), epoch);
    } else if (action.kind == Kind::kBackward || action.kind == Kind::kAgain) {
      if (works_.Trained(action.index)) {
        AddStep(static_cast<size_t>(works_.step_of(action.index)), epoch);
      } else {
        AddNode(action.index, epoch);
      }
    } else if (action.kind == Kind::kSeed) {
      rooms_.losses->AddToEpoch(epoch);
    }
  }
}

void Executor::BeforeRecord() {
  if (!running_->renews) return;
  for (const Node& node : wiring_.nodes) {
    for (const auto& blob : node.layer->blobs()) {
      blob->device_data();
      blob->data_memory()->MarkDeviceWritten();
    }
  }
}

void Executor::AfterUndo() { rooms_.losses->NoteSeeded(); }

// Blobs that the caller reads after every forward are stored from then on: computing them each time
// would cost more than their memory.
void Executor::KeepBlobsThatAreRead() {
  if (!arena_ || running_) return;  // a pass that runs needs its actions
  for (const int blob : lost_.TakeRead()) {
    arena_->Exclude(blob);
    for (auto& pass : passes_) pass.reset();  // they write one more array
    for (size_t s = 0; s < plan_.steps.size(); ++s) Store(s, blob);
  }
}

void Executor::Store(size_t index, int blob) {
  const std::vector<int>& tops = wiring_.nodes[plan_.steps[index].nodes.back()].top_ids;
  const auto top = std::find(tops.begin(), tops.end(), blob);
  if (top == tops.end() || std::erase(unwritten_[index], blob) == 0) return;
  Step conversion = Step::Conversion(plan_.steps[index].nodes[0],
                                     plan_.steps[index].writes[top - tops.begin()], blob);
  const auto after = static_cast<int>(index) + 1;
  arena_->AddStep(after, {conversion.reads, conversion.writes});
  plan_.steps.insert(plan_.steps.begin() + after, std::move(conversion));
  unwritten_.emplace(unwritten_.begin() + after);
  works_.AddStep(after);
  lost_.FollowSteps();
  if (Step& step = plan_.steps[index]; step.part) {
    arena_->Detach(step.part);
    step.part = {};
  }
  works_.Prepare(index);
  works_.Prepare(after);
}

void Executor::LeaveArena() {
  lost_.TakeFreedDiffs();
  if (arena_) arena_->Release();
}

}  // namespace caffe
