#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "caffe/device/program_cache.hpp"
#include "caffe/library/tuning.hpp"

namespace caffe {

class Device;

// Whether a TuneExhaustively exists.
bool TuningIsExhaustive();

// One operation of a library in the table of tuning results.
struct TunedOperation {
  Device* device;
  std::string library;  // "cudnn"
  std::string version;  // of the library
  std::string pass;     // "forward"
  std::string shape;    // everything that the choice depends on besides the types
  std::string types;

  ProgramCache::TuningKey key() const;
  std::string name() const { return pass + " " + shape; }
};

// A row of the table.
struct TunedRow {
  bool exhaustive = false;
  double milliseconds = 0;
  std::string configuration;  // one line, in the library's own words

  std::string text() const;
  // No value if the text is not that of a row.
  static std::optional<TunedRow> Parse(const std::string& text);
};

// The row of the operation in the program cache, unless an exhaustive choice is requested and this
// process has not made it.
std::optional<TunedRow> FindTuned(const TunedOperation& operation);
// Keeps the row and reports the choice; `measured` is the number of measured algorithms. A row of
// an exhaustive choice is replaced only by another one.
void StoreTuned(const TunedOperation& operation, const TunedRow& row, int measured);
// Reports a choice that comes from the table.
void ReportTuned(const TunedOperation& operation, const TunedRow& row, int measured);

// One of several ways to compute an operation.
struct TunedCandidate {
  std::string name;  // one line
  // The time in milliseconds; it may stop early if it takes much longer than `best`.
  std::function<double(double best)> measure;
};

// The name of the fastest of `candidates`: one that the table has, otherwise what is measured now
// and kept there. A candidate that throws is left out; so are all of them if memory is missing, and
// then the first one is chosen.
std::string FastestOf(const TunedOperation& operation,
                      const std::vector<TunedCandidate>& candidates);
// The candidate that the table has, without a measurement.
std::optional<std::string> KnownFastest(const TunedOperation& operation,
                                        const std::vector<TunedCandidate>& candidates);

// The time of `run`, which enqueues work on the current stream of the device, in milliseconds. It
// runs several times. The first run, which may load or compile kernels, does not count; if the
// second takes much longer than `best`, its time is returned.
double MeasureMilliseconds(Device* device, const std::function<void()>& run, double best);

}  // namespace caffe
