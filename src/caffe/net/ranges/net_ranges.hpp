#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/net/pass_observer.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/pseudo_quantizer.hpp"

namespace caffe {

class RangeObserver;

enum QuantizerMode : int;

// The ranges of a net's blobs: observed in float kinds, read from and written to files, and set in
// quantized layers; and the modes of quantizers. A quantizer has the name of a range, or
// <layer>_blobs_0_quant for the weights of a layer. A range has the name of its blob, or
// <blob>@<layer> if a later layer changes the blob in place. If several layers have one name, <layer>
// is <layer>#2 for the second one, and so on: Wiring::unique_names.
class NetRanges final : public PassObserver {
 public:
  // Reads the ranges and modes of `given` and of the quantizers of its layers. Throws for modes and
  // fields that are not supported.
  NetRanges(const Wiring& wiring, const NetParameter& given, Device* device);
  ~NetRanges() override;

  // Sets the mode of all quantizers. Returns whether weights are quantized otherwise than before:
  // then works that exist are stale. So do the three functions after it.
  bool set_mode(QuantizerMode mode);
  QuantizerMode mode() const { return mode_; }
  // Sets the type of codes of all quantizers in mode pseudo: quant8 or quant16.
  bool set_pseudo_type(DataType type);
  DataType pseudo_type() const { return pseudo_type_; }
  // Of one quantizer; throws for an unknown name.
  bool SetMode(const std::string& quantizer, QuantizerMode mode);
  bool SetPseudoType(const std::string& quantizer, DataType type);
  QuantizerMode ModeOf(const std::string& quantizer) const;
  DataType PseudoTypeOf(const std::string& quantizer) const;
  // The names of all quantizers, in the order of the layers.
  std::vector<std::string> Quantizers() const;
  // Whether a quantizer has that mode.
  bool HasMode(QuantizerMode mode) const;
  // Whether passes need this observer.
  bool active() const;
  void AfterForward(const Node& node) override;
  void BeforeBackward(const Node& node) override;
  // Call it when a node has run again: mode pseudo rounds its tops as before.
  void AfterRepeat(const Node& node);

  // All known ranges; waits for the device.
  std::map<std::string, Range> All() const;
  // Those that a file of this net has: All without the unions that ReadRanges makes for nets whose
  // experts compute together. The next file would keep them while the ranges of the experts move.
  std::map<std::string, Range> Stored() const;
  // The values that were observed; waits for the device.
  std::map<std::string, Histogram> Histograms() const;
  // Forgets all ranges and values that were read or observed.
  void Forget();
  // Reads the ranges of a file.
  void Read(const NetParameter& source);
  void Write(NetParameter* parameter) const;
  // Takes the ranges that another net has now.
  void CopyFrom(const NetRanges& other);
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
  const NodeRanges& of(int node) const { return nodes_[node]; }
  // Of each bottom of a node that joins blobs of codes: whether it has the range of the top. Empty for
  // other nodes.
  std::vector<bool> TiedBottoms(int node) const;
  // The range with which a layer reads the codes of a quantized blob.
  QuantRange AsRead(int blob) const;

 private:
  void ReadLayerQuantizers();
  void ReadModes(const NetParameter& given);
  // Those of Wiring::TiedRanges that are observed.
  std::vector<std::pair<std::string, std::string>> TiedNames() const;
  void Resolve();
  // Ends moving ranges: their last values are those of a file from then on.
  void TakeMovedRanges();
  void CheckQuantizer(const std::string& name) const;
  // Has the layers quantize their weights as the modes say; returns whether that changed anything.
  bool SetWeights();
  Range KnownRange(const std::string& name) const;
  // Whether training moves the range.
  bool Moves(const std::string& name) const;
  PseudoQuantizer& Pseudo(const std::string& name, DataType type);
  void ForwardPseudo(const Node& node, int top, const std::string& name, bool repeats);

  const Wiring& wiring_;
  Device* device_;
  bool placeholders_ = false, changed_ = true;
  QuantizerMode mode_;
  DataType pseudo_type_ = kQuant8;
  int epoch_ = 0;
  std::vector<NodeRanges> nodes_;
  std::map<std::string, std::unique_ptr<RangeObserver>> observers_;
  std::shared_ptr<BlobBase> scratch_;  // of all observers
  std::map<std::string, Range> loaded_;
  std::map<std::string, Histogram> histograms_;  // of observers on a former device
  // The settings of layers' quantizers, by the names of ranges: mode, name or zone.
  std::map<std::string, QuantizerMode> modes_;
  std::map<std::string, DataType> pseudo_types_;
  std::set<std::string> resets_;  // ranges of files are forgotten when training begins
  std::map<int, std::optional<DataType>> weights_;  // in pseudo, by node
  std::map<std::string, std::unique_ptr<PseudoQuantizer>> pseudo_;
  std::vector<std::vector<bool>> pseudo_tops_;  // empty until the first forward in mode pseudo
  std::map<std::string, std::set<std::string>> names_;
  std::map<int64_t, std::set<std::string>> zones_;
};

}  // namespace caffe
