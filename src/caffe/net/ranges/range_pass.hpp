#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/net/pass_observer.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/pseudo_quantizer.hpp"
#include "range_table.hpp"

namespace caffe {

// Observes the ranges of blobs in float kinds, and quantizes and dequantizes blobs in mode pseudo,
// as the modes of the table say.
class RangePass final : public PassObserver {
 public:
  // The table must outlive this.
  RangePass(const Wiring& wiring, RangeTable* table, Device* device)
      : wiring_(wiring), table_(table), device_(device) {}
  const char* name() const override { return "a quantizer"; }
  void AfterForward(const Node& node) override { Visit(node, false); }
  void BeforeBackward(const Node& node) override;
  // Call it when a node has run again: mode pseudo rounds its tops as before.
  void AfterRepeat(const Node& node) { Visit(node, true); }

  // The ranges of the table, replaced by those that passes found; waits for the device.
  std::map<std::string, Range> Ranges() const;
  // Those of Wiring::TiedRanges that are observed.
  std::vector<std::pair<std::string, std::string>> Tied() const;
  // The values that were observed; waits for the device.
  std::map<std::string, Histogram> Histograms() const;

  // Forgets what passes found, of all ranges or of one.
  void Forget();
  void Forget(const std::string& name);
  // Ends moving ranges, of all quantizers or of one: their last values become those of the table.
  void EndMoving(const std::string& only = "");
  // Quantizes with the ranges of the table from now on.
  void TakeTable();
  void SetDevice(Device* device);

 private:
  void Visit(const Node& node, bool repeats);
  void Observe(const BlobBase& blob, const std::string& name);
  // The range of the table, or what passes found.
  Range Find(const std::string& name) const;
  // Whether training moves the range.
  bool Moves(const std::string& name) const;
  PseudoQuantizer& Pseudo(const std::string& name, DataType type);
  void Quantize(const Node& node, int top, const std::string& name, bool repeats);

  const Wiring& wiring_;
  RangeTable* table_;
  Device* device_;
  std::map<std::string, std::unique_ptr<RangeObserver>> observers_;
  std::shared_ptr<BlobBase> scratch_;            // of all observers
  std::map<std::string, Histogram> histograms_;  // of observers on a former device
  std::map<std::string, std::unique_ptr<PseudoQuantizer>> pseudo_;
  std::vector<std::vector<bool>> pseudo_tops_;  // empty until the first forward in mode pseudo
};

}  // namespace caffe
