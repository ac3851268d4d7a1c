#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

// Decides which nodes run backward, for the losses, for force_backward and for the gradients that
// callers request.
class Gradients {
 public:
  explicit Gradients(const Wiring& wiring);

  // Whether a node runs backward, and which diffs of its bottoms it writes.
  bool needed(int node) const { return nodes_[node].needed; }
  const std::vector<bool>& bottoms(int node) const { return nodes_[node].bottoms; }
  // Which of all nodes are needed.
  std::vector<bool> NeededNodes() const;
  bool any() const;
  // True if a blob narrower than float has a gradient.
  bool narrow() const;
  // Requests the gradient of a blob of the user; returns false and the reason if there is none.
  // Calls change the results of the functions above.
  bool Request(const std::string& blob, std::string* why);
  const std::set<int>& requested() const { return requested_; }
  // Cancels requests that are not in `requested`.
  void Restore(const std::set<int>& requested);
  // Throws if a layer that runs backward reads a blob that another layer has overwritten, because
  // the net keeps no data for gradients.
  void CheckConflicts() const;
  // Throws if backpropagation passes through a quantized layer; the message names the first.
  void CheckTrainable() const;
  // The nodes that must run forward again: those that keep a copy of their bottom for the backward
  // pass, did not keep it because their gradient was not needed (`needed_before`), and have run
  // (`ran`); and nodes that another one computed in a step of several layers (`skipped`). With all
  // nodes that write the same memory. Throws if that is not possible.
  std::set<int> ToRepeat(const std::vector<bool>& needed_before, const std::vector<bool>& ran,
                         const std::set<int>& skipped) const;

 private:
  struct NodeGradients {
    bool needed = false;
    std::vector<bool> bottoms;
  };
  void Decide();
  std::string WhyNone(int id) const;

  const Wiring& wiring_;
  std::vector<NodeGradients> nodes_;
  std::set<int> requested_;                     // blobs of the user
  std::map<std::string, std::string> refused_;  // blob -> why it has no gradient
};

}  // namespace caffe
