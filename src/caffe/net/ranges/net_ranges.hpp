#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "range_pass.hpp"
#include "range_resolver.hpp"
#include "range_table.hpp"

namespace caffe {

// The ranges and quantizers of a net: the table, which files, users and passes change, and the
// ranges of the nodes that follow from it.
class NetRanges {
 public:
  // Reads the table and the ranges of `given`.
  NetRanges(const Wiring& wiring, const NetParameter& given, Device* device);

  const RangeTable& table() const { return table_; }
  RangePass& pass() { return pass_; }
  const RangePass& pass() const { return pass_; }

  // The names of all quantizers, in the order of the layers.
  std::vector<std::string> Quantizers() const;
  // Sets the mode of all quantizers. Returns whether weights are quantized otherwise than before:
  // then works that exist are stale. So do the three functions after it.
  bool set_mode(QuantizerMode mode);
  // Sets the type of codes of all quantizers in mode pseudo: quant8 or quant16.
  bool set_pseudo_type(DataType type);
  // Sets the mode of one quantizer; throws for an unknown name.
  bool SetMode(const std::string& quantizer, QuantizerMode mode);
  bool SetPseudoType(const std::string& quantizer, DataType type);

  // The ranges that a file of this net has: all but the unions that ReadRanges makes for nets whose
  // experts compute together. The next file would keep them while the ranges of the experts move.
  std::map<std::string, Range> Stored() const;
  // Forgets all ranges and values that were read or observed.
  void Forget();
  // Reads the ranges of a file.
  void Read(const NetParameter& source);
  void Write(NetParameter* parameter) const;
  // Takes the ranges that another net has now.
  void CopyFrom(const NetRanges& other);
  // Sets the range [-1, 1] for quantized blobs without a range.
  void UsePlaceholders() { placeholders_ = changed_ = true; }
  void SetDevice(Device* device);

  // Sets the ranges of the layers of quantized nodes, and of blobs of scaled types, if any range
  // has changed since the last call; returns true if so.
  bool Update();
  // Throws if a blob of a scaled type has no range.
  void CheckScales() const;
  // Incremented when Update sets new ranges.
  int epoch() const { return epoch_; }
  const NodeRanges& of(int node) const { return nodes_[node]; }
  // Writes the ranges of a node's tops to its blobs, from which users read them.
  void Publish(int node) const;
  // Update, and Publish for all nodes if any range has changed.
  void UpdateBlobs();
  // Whether a quantized blob has no range.
  bool Lack() const;
  // The range with which a layer reads the codes of a quantized blob.
  QuantRange AsRead(int blob) const;

 private:
  void SetScales(int node) const;
  void CheckNames() const;
  void CheckQuantizer(const std::string& name) const;
  // Throws if passes cannot get this mode. `what`: the quantizer; empty: all.
  void CheckMode(QuantizerMode mode, const std::string& what) const;
  // Has the layers quantize their weights as the modes say; returns whether that changed anything.
  bool SetWeights();

  const Wiring& wiring_;
  RangeTable table_;
  RangePass pass_;
  bool placeholders_ = false, changed_ = true;
  int epoch_ = 0;
  std::vector<NodeRanges> nodes_;
  std::map<int, std::optional<DataType>> weights_;  // in pseudo, by node
};

}  // namespace caffe
