#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "caffe/net/observed_range.hpp"
#include "caffe/net/pass_observer.hpp"

namespace caffe {

class RangeObserver;

// The ranges of a net's blobs: observed in float kinds, read from and written to files, and given to
// quantized layers. A range is known by the name of its blob, or <blob>@<layer> where a later layer
// changes the blob in place.
class NetRanges final : public PassObserver {
 public:
  // Takes the ranges and modes that `given` and the quantizers of its layers bring. Throws for modes
  // and fields that are not supported.
  NetRanges(const Wiring& wiring, const NetParameter& given, Device* device);
  ~NetRanges() override;

  // Observes every blob, or none, until the quantizers' own modes are given anew.
  void set_observe(bool observe);
  bool observe() const { return observe_; }
  bool observes_any() const { return observe_ || !observed_blobs_.empty(); }
  void AfterForward(const Node& node) override;

  // All known ranges; waits for the device.
  std::map<std::string, ObservedRange> All() const;
  // Takes the ranges that a file brings.
  void Read(const NetParameter& source);
  void Write(NetParameter* parameter) const;
  // Quantized blobs without a range get [-1, 1].
  void UsePlaceholders();
  void SetDevice(Device* device);

  // Gives the layers of quantized nodes their ranges if any range has changed since the last call;
  // true if it did.
  bool Update();
  // Raised when Update gave layers new ranges.
  int epoch() const { return epoch_; }
  // Writes the ranges of a node's tops into its blobs, from where users read them.
  void Publish(int node) const;
  const std::vector<BlobRange>& bottom_ranges(int node) const { return nodes_[node].bottom; }
  const std::vector<BlobRange>& top_ranges(int node) const { return nodes_[node].top; }
  // The range with which the layer that reads a quantized blob takes its codes.
  QuantRange AsRead(int blob) const;

 private:
  struct NodeRanges {
    std::vector<BlobRange> bottom, top;
  };
  void ReadLayerQuantizers();
  void Resolve();

  const Wiring& wiring_;
  Device* device_;
  bool observe_ = false, placeholders_ = false, changed_ = true;
  int epoch_ = 0;
  std::vector<NodeRanges> nodes_;
  std::map<std::string, std::unique_ptr<RangeObserver>> observers_;
  std::map<std::string, ObservedRange> loaded_;
  // What the quantizers of layers say, by the names of ranges: their mode, their own name or zone.
  std::set<std::string> observed_blobs_, unobserved_blobs_;
  std::map<std::string, std::set<std::string>> names_;
  std::map<int64_t, std::set<std::string>> zones_;
};

}  // namespace caffe
