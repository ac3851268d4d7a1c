#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/net/observed_range.hpp"
#include "caffe/net/pass_observer.hpp"
#include "caffe/quant/histogram.hpp"

namespace caffe {

class RangeObserver;

// The ranges of a net's blobs: observed in float kinds, read from and written to files, and set in
// quantized layers. A range has the name of its blob, or <blob>@<layer> if a later layer changes
// the blob in place.
class NetRanges final : public PassObserver {
 public:
  // Reads the ranges and modes of `given` and of the quantizers of its layers. Throws for modes and
  // fields that are not supported.
  NetRanges(const Wiring& wiring, const NetParameter& given, Device* device);
  ~NetRanges() override;

  // Starts or stops observing every blob; replaces the modes of the layers' quantizers.
  void set_observe(bool observe);
  bool observe() const { return observe_; }
  bool observes_any() const { return observe_ || !observed_blobs_.empty(); }
  void AfterForward(const Node& node) override;

  // All known ranges; waits for the device.
  std::map<std::string, ObservedRange> All() const;
  // The values that were observed; waits for the device.
  std::map<std::string, Histogram> Histograms() const;
  // Reads the ranges of a file.
  void Read(const NetParameter& source);
  void Write(NetParameter* parameter) const;
  // Sets the range [-1, 1] for quantized blobs without a range.
  void UsePlaceholders();
  void SetDevice(Device* device);

  // Sets the ranges of the layers of quantized nodes if any range has changed since the last call;
  // returns true if so.
  bool Update();
  // Incremented when Update sets new ranges.
  int epoch() const { return epoch_; }
  // Writes the ranges of a node's tops to its blobs, from which users read them.
  void Publish(int node) const;
  const std::vector<BlobRange>& bottom_ranges(int node) const { return nodes_[node].bottom; }
  const std::vector<BlobRange>& top_ranges(int node) const { return nodes_[node].top; }
  // Of each bottom of a node that joins blobs of codes: whether it has the range of the top. Empty for
  // other nodes.
  std::vector<bool> TiedBottoms(int node) const;
  // The range with which a layer reads the codes of a quantized blob.
  QuantRange AsRead(int blob) const;

 private:
  struct NodeRanges {
    std::vector<BlobRange> bottom, top;
  };
  void ReadLayerQuantizers();
  // The blobs that only a join reads, whose ranges are observed: names of their ranges and of those of
  // the joined tops. Tops come before the bottoms that are themselves joins.
  std::vector<std::pair<std::string, std::string>> TiedNames() const;
  void Resolve();

  const Wiring& wiring_;
  Device* device_;
  bool observe_ = false, placeholders_ = false, changed_ = true;
  int epoch_ = 0;
  std::vector<NodeRanges> nodes_;
  std::map<std::string, std::unique_ptr<RangeObserver>> observers_;
  std::shared_ptr<BlobBase> scratch_;  // of all observers
  std::map<std::string, ObservedRange> loaded_;
  std::map<std::string, std::string> methods_;   // by which the loaded ranges were found
  std::map<std::string, Histogram> histograms_;  // of observers on a former device
  // The settings of layers' quantizers, by the names of ranges: mode, name or zone.
  std::set<std::string> observed_blobs_, unobserved_blobs_;
  std::map<std::string, std::set<std::string>> names_;
  std::map<int64_t, std::set<std::string>> zones_;
};

}  // namespace caffe
