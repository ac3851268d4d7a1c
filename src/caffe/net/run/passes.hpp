#pragma once

#include <string>
#include <vector>

#include "caffe/net/watch/observers.hpp"
#include "plans.hpp"
#include "views.hpp"

namespace caffe {

// The passes of a net, as users ask for them: decides which executor runs each, and what is done
// before and after it for observers, views, inputs that layers change, and versions of blobs.
class Passes {
 public:
  Passes(const Wiring& wiring, const PassRooms& rooms, Views* views, Observers* observers);

  Plans& plans() { return plans_; }
  const Plans& plans() const { return plans_; }

  // Layers [start, end], in Wiring::layers; see Net.
  void Forward(int start, int end);
  void Backward(int start, int end);
  // A whole forward and backward; and what follows them up to `end`.
  void Iterate(IterationEnd end);
  const TrainingTail& tail() const { return *rooms_.tail; }
  // The entries of the tail.
  void RunTail();
  // Iterate in parts, for several replicas. Whether the iteration cannot be one list of actions,
  // but needs a forward and a backward of their own.
  bool BeginIteration();
  void ForwardBackward();
  // After the reductions of such an iteration: views show the sums.
  void ShowReduced();
  // After BeginIteration; see Executor::Iterate.
  void IterateInOneList(IterationEnd end, int replica, const RunAsMember* member);
  // PassRooms::tail has changed.
  void DropTail();
  void set_frees_memory(bool value) { frees_memory_ = value; }
  std::vector<StepInfo> Describe();
  // After gradients were requested: runs the layers again that did not keep what their backward
  // pass reads. `needed_before`: which nodes ran backward then.
  void TakeNewGradients(const std::vector<bool>& needed_before);

 private:
  // Why an iteration runs as a forward and a backward; empty if it is one list of actions.
  std::string WhyInParts() const;
  // Writes a debug line if `why` is not the reason of the last pass of this kind, and not empty.
  void NoteReplays(const char* passes, const std::string& why, std::string* last,
                   Executor* executor);
  void StoreViewed();
  // Throws if the pass needs more memory than there is.
  void CheckMemory(MemoryForecast::Pass pass);
  void ShowInputDiffs();
  void ClearUnreadDiffs(const std::vector<int>& run, int first, int last);
  // In mode pseudo, the gradients of inputs are 0 outside of their ranges. No layer runs backward
  // on inputs, so that no observer sees them.
  void ClearInputGradientsOutsideRanges(const std::vector<int>& run, int first, int last);
  template <class Work> void WithInputs(const Work& work);
  // Runs `work`; adds the memory needs of the whole net to an OutOfMemory error.
  template <class Work> void WithNeeds(const Work& work) const;

  const Wiring& wiring_;
  const PassRooms rooms_;
  Views& views_;
  Observers& observers_;
  MemoryForecast forecast_;
  Plans plans_;
  int checked_ = 0;  // the serial of the plans whose needs forecast_ knows
  bool frees_memory_ = false;
  // The serial of the plans by which the last pass was a forward in the arena of training; else 0.
  int forward_in_arena_ = 0;
  // Whether each node ran last in a whole forward of the plan of steps.
  std::vector<bool> in_steps_;
  // Why the last pass of this kind was not replayed; empty if it was.
  std::string why_no_iterations_, why_no_forwards_;
};

}  // namespace caffe
