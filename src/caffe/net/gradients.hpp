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
  bool any() const;
  // Any blob narrower than float takes part in the gradient.
  bool narrow() const;
  // The gradients at a blob of the user are computed from now on; false, and why not, if there are
  // none. Calls change what the functions above say.
  bool Request(const std::string& blob, std::string* why);
  const std::set<int>& requested() const { return requested_; }
  // Takes requests back that are not in `requested`.
  void Restore(const std::set<int>& requested);
  // Throws if a layer that runs backward reads what another layer has overwritten, because the net
  // keeps nothing for gradients.
  void CheckConflicts() const;
  // Throws, naming the first one, if backpropagation passes through a quantized layer.
  void CheckTrainable() const;
  // The nodes that must run forward once more: those that keep a copy of their bottom for the backward
  // pass, did not keep it because nobody needed their gradient (`needed_before`), and have run
  // (`ran`); with all nodes that write the same memory. Throws if that cannot be done.
  std::set<int> ToRepeat(const std::vector<bool>& needed_before,
                         const std::vector<bool>& ran) const;

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
