#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "caffe/net/wiring.hpp"
#include "caffe/quant/range.hpp"

namespace caffe {

enum QuantizerMode : int;

// The ranges and quantizers of a net by their names: a value. A quantizer has the name of a range,
// or <layer>_blobs_0_quant for the weights of a layer. A range has the name of its blob, or
// <blob>@<layer> if a later layer changes the blob in place. If several layers have one name,
// <layer> is <layer>#2 for the second one, and so on: Wiring::unique_names.
struct RangeTable {
  // The modes of `given`, and what the quantizers of its layers say. Throws for modes and fields
  // that are not supported.
  RangeTable(const Wiring& wiring, const NetParameter& given);

  // Takes the ranges of a file for `net`, and returns them.
  std::map<std::string, Range> Read(const NetParameter& source, const NetParameter& net);
  // Not known if there is none.
  Range Find(const std::string& name) const;
  QuantizerMode ModeOf(const std::string& quantizer) const;
  DataType PseudoTypeOf(const std::string& quantizer) const;
  // Whether a quantizer has that mode, and whether one has a mode in which passes do something.
  bool HasMode(QuantizerMode mode) const;
  bool active() const;

  std::map<std::string, Range> ranges;
  // The mode of quantizers that have none of their own; the types are quant8 or quant16.
  QuantizerMode mode;
  DataType pseudo_type;
  std::map<std::string, QuantizerMode> modes;
  std::map<std::string, DataType> pseudo_types;
  std::set<std::string> resets;  // ranges of files are forgotten when training begins
  // The ranges that files store under other names, or as those of zones.
  std::map<std::string, std::set<std::string>> names;
  std::map<int64_t, std::set<std::string>> zones;

 private:
  void ReadLayers(const Wiring& wiring);
};

}  // namespace caffe
