#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// The results of one family of kernels on one device in one type, compared with the CPU's:
// float kinds within a tolerance of the type, integers for equality. The CPU itself is compared in
// another type: narrow ones and codes with double, double with float.
struct SelfTestRow {
  std::string device, type, family;
  bool passed = false;
  bool skipped = false;  // the device lacks what the row needs; `message` says what
  // The largest |a - b| / max(1, |b|) over outputs and gradients; for codes on the CPU in codes.
  double difference = 0;
  double seconds = 0;
  std::string message;  // an error, or the blob that differs
};

// The end of the names of rows with extreme values.
inline constexpr char kExtreme[] = ", extreme values";

// The names of all families, in the order of their rows.
std::vector<std::string> SelfTestFamilies();

// The types of all layers that the families contain.
std::set<std::string> SelfTestLayers();

// Runs every family in every type; `report` is called with each row as soon as it is known. A type
// that the device lacks is one row. A family that throws has failed and does not stop the others.
// `names`, unless it is empty, selects families; each runs with its rows of extreme values.
void SelfTest(Device* device, const std::vector<DataType>& types,
              const std::function<void(const SelfTestRow&)>& report,
              const std::set<std::string>& names = {});

}  // namespace caffe
