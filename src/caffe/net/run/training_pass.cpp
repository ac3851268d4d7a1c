// The passes of a solver's iteration, as actions of which most can be replayed.
#include <utility>

#include "executor.hpp"
#include "in_layer.hpp"

namespace caffe {
namespace {

using Kind = PassAction::Kind;

Kind KindOf(const LayerBase& layer) {
  const LayerFacts facts = layer.Facts();
  const bool replayable = facts.replayable && !facts.host && !facts.shapes_from_data;
  return replayable ? Kind::kWork : Kind::kNormal;
}

PassAction Notes(std::function<void()> run) {
  PassAction action;
  action.kind = Kind::kNotes;
  action.run = std::move(run);
  return action;
}

PassAction Enqueue(std::function<void()> run, std::function<void()> note = {}) {
  PassAction action;
  action.kind = Kind::kWork;
  action.run = std::move(run);
  action.note = std::move(note);
  return action;
}

}  // namespace

void Executor::AddForwardActions(std::vector<PassAction>* actions) {
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    PassAction action;
    action.node = &wiring_.nodes[plan_.steps[i].nodes[0]];
    action.kind = KindOf(*action.node->layer);
    action.run = [this, i] {
      // A layer before this one may have shapes that depend on its data.
      if (!HasNotedShapes(plan_.steps[i])) PrepareStep(i);
      PrepareWork(i);
      Run(i);
    };
    action.note = [this, i] { NoteRun(i); };
    actions->push_back(std::move(action));
  }
  if (!trains()) return;
  actions->push_back(Notes([this] {
    ForgetLost();
    NoteParameters();
  }));
}

void Executor::AddBackwardActions(const Gradients& gradients, std::vector<PassAction>* actions) {
  const auto backward = [&](int index) {
    PassAction action;
    action.node = &wiring_.nodes[index];
    action.backward = true;
    action.kind = KindOf(*action.node->layer);
    action.run = [this, index] { RunBackward(index, *pass_->gradients); };
    actions->push_back(std::move(action));
  };
  if (!trains()) {
    for (int index : wiring_.BackwardNodes(wiring_.last_layer(), 0)) {
      if (gradients.needed(index)) backward(index);
    }
    return;
  }
  const PassArrays& arrays = arena_->arrays();
  actions->push_back(Notes([this, &arrays] {
    for (int array : arena_->dead_after_forward()) Lose(array);
    arena_->Place(workspace_->device(), arrays.forward_steps,
                  static_cast<int>(arrays.steps.size()));
  }));
  auto segment = arrays.segments.begin();  // in the order of their steps
  for (int index : arrays.backward) {
    for (; segment != arrays.segments.end() && segment->before == index; ++segment) {
      actions->push_back(Notes([this, segment] {
        const int end = segment->step + static_cast<int>(segment->nodes.size());
        arena_->PlaceAgain(segment->step, end);
      }));
      for (int node : segment->nodes) {
        actions->push_back(Enqueue([this, node] { RunAgain(node); }));
        actions->back().kind = KindOf(*wiring_.nodes[node].layer);
      }
    }
    backward(index);
  }
  actions->push_back(Notes([this] {
    for (int array : arena_->placed()) Lose(array);
    LoseSwallowedDiffs();
  }));
}

std::vector<PassAction> Executor::MakeActions(const TrainingPass& pass) {
  std::vector<PassAction> actions;
  AddForwardActions(&actions);
  actions.push_back(
      Enqueue([this] { pass_->before_backward(); }, [this] { pass_->seeds->NoteSeeded(); }));
  AddBackwardActions(*pass.gradients, &actions);
  if (pass.then) actions.push_back(Enqueue([this] { pass_->then(); }));
  return actions;
}

void Executor::AddToEpoch(GraphEpoch* epoch) const {
  const auto memory = [epoch](const SyncedMemory* one) {
    epoch->Add(reinterpret_cast<uintptr_t>(one));
  };
  const auto blob = [&](const BlobBase& one) {
    memory(one.data_memory().get());
    memory(one.has_diff() ? one.diff_memory().get() : nullptr);
  };
  epoch->Add(static_cast<uint64_t>(ranges_->epoch()));
  for (const auto& one : wiring_.blobs) blob(*one);
  for (size_t i = 0; i < works_.size(); ++i) epoch->Add(works_[i].serial);
  for (size_t n = 0; n < wiring_.nodes.size(); ++n) {
    const int node = static_cast<int>(n);
    const LayerBase& layer = *wiring_.nodes[n].layer;
    epoch->Add(static_cast<uint64_t>(runner_->shape_epoch(node)));
    epoch->Add(layer.context().seed);
    for (size_t i = 0; i < layer.blobs().size(); ++i) {
      blob(*layer.blobs()[i]);
      epoch->Add(layer.param_propagate_down(static_cast<int>(i)));
    }
  }
  if (arena_) {
    epoch->Add(arena_->plans());
    epoch->Add(reinterpret_cast<uintptr_t>(arena_->pointer().handle));
    for (size_t i = 0; i < arena_->arrays().arrays.size(); ++i) {
      memory(arena_->Memory(static_cast<int>(i)).get());
    }
  }
  pass_->seeds->AddToEpoch(epoch);
  epoch->Add(reinterpret_cast<uintptr_t>(pass_->owner));
}

void Executor::ForwardBackward(const TrainingPass& pass, const Observers& observers) {
  late_reads_->End();
  ranges_->Update();
  for (size_t i = 0; i < works_.size(); ++i) {
    PrepareStep(i);
    // Later passes renew derived weights right before the step, as a part of the work that is
    // replayed. The first one also allocates and measures.
    if (works_[i].prepared_epoch != runner_->shape_epoch(plan_.steps[i].nodes[0])) PrepareWork(i);
  }
  std::unique_ptr<PassActions>& actions = actions_[pass.then ? 1 : 0];
  if (!actions) actions = std::make_unique<PassActions>(MakeActions(pass));
  const auto make_stale = [this] {
    for (const Node& node : wiring_.nodes) {
      for (const auto& blob : node.layer->blobs()) {
        blob->device_data();
        blob->data_memory()->MarkDeviceWritten();
      }
    }
  };
  pass_ = &pass;
  try {
    if (arena_) PlaceForward();
    actions->Run(workspace_->device(), observers,
                 {[this](GraphEpoch* epoch) { AddToEpoch(epoch); }, make_stale,
                  [this] { pass_->seeds->NoteSeeded(); }});
  } catch (...) {
    if (arena_) {
      for (int array : arena_->placed()) Lose(array);
    }
    pass_ = nullptr;
    throw;
  }
  pass_ = nullptr;
  NoteReads(false);
}

}  // namespace caffe
