#include "caffe/library/tuning_table.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {
namespace {

constexpr double kTooSlow = 100;  // milliseconds: one run is enough

std::atomic<int> exhaustive_scopes{0};

struct Record {
  std::mutex mutex;
  std::vector<TunedChoice> choices;
  std::set<ProgramCache::TuningKey> exhaustive;  // chosen exhaustively by this process
};

Record& All() {
  static auto* const record = new Record;
  return *record;
}

}  // namespace

TuneExhaustively::TuneExhaustively() { ++exhaustive_scopes; }
TuneExhaustively::~TuneExhaustively() { --exhaustive_scopes; }

bool TuningIsExhaustive() { return exhaustive_scopes > 0; }

std::vector<TunedChoice> TunedChoices() {
  const std::lock_guard lock(All().mutex);
  return All().choices;
}

ProgramCache::TuningKey TunedOperation::key() const {
  const DeviceInfo& info = device->info();
  return {library + " " + pass, shape, types, info.name + " " + info.architecture,
          Concat(info.driver, ", ", library, " ", version)};
}

std::string TunedRow::text() const {
  return Concat(exhaustive ? "exhaustive" : "quick", " ", milliseconds, " ", configuration);
}

std::optional<TunedRow> TunedRow::Parse(const std::string& text) {
  std::istringstream words(text);
  std::string effort, time;
  TunedRow row;
  if (!(words >> effort >> time) || (effort != "exhaustive" && effort != "quick")) {
    return std::nullopt;
  }
  row.exhaustive = effort == "exhaustive";
  const char* end = time.data() + time.size();
  const auto [rest, error] = std::from_chars(time.data(), end, row.milliseconds);
  if (error != std::errc() || rest != end || !(row.milliseconds >= 0)) return std::nullopt;
  std::getline(words >> std::ws, row.configuration);
  if (row.configuration.empty()) return std::nullopt;
  return row;
}

std::optional<TunedRow> FindTuned(const TunedOperation& operation) {
  const ProgramCache::TuningKey key = operation.key();
  if (TuningIsExhaustive()) {
    const std::lock_guard lock(All().mutex);
    if (!All().exhaustive.contains(key)) return std::nullopt;
  }
  const auto text = Runtime::Get().program_cache().FindTuning(key);
  return text ? TunedRow::Parse(*text) : std::nullopt;
}

void StoreTuned(const TunedOperation& operation, const TunedRow& row, int measured) {
  const ProgramCache::TuningKey key = operation.key();
  if (row.exhaustive) {
    const std::lock_guard lock(All().mutex);
    All().exhaustive.insert(key);
  }
  // An exhaustive row that cannot be used now, for example for lack of memory, is kept.
  ProgramCache& cache = Runtime::Get().program_cache();
  const auto text = row.exhaustive ? std::nullopt : cache.FindTuning(key);
  const auto old = text ? TunedRow::Parse(*text) : std::nullopt;
  if (!old || !old->exhaustive) cache.StoreTuning(key, row.text());
  ReportTuned(operation, row, measured);
}

void ReportTuned(const TunedOperation& operation, const TunedRow& row, int measured) {
  const std::string& device = operation.device->info().id;
  {
    const std::lock_guard lock(All().mutex);
    All().choices.push_back({device, operation.library, operation.name(), row.configuration,
                             row.milliseconds, measured});
  }
  if (!log::Topic("library")) return;
  const std::string source = measured == 0 ? std::string("from the program cache")
                                           : Concat("the fastest of ", measured, " measured");
  log::Info(Concat(device, ": ", operation.library, " computes ", operation.name(), " with ",
                   row.configuration, ", ", row.milliseconds, " ms, ", source));
}

std::optional<std::string> KnownFastest(const TunedOperation& operation,
                                        const std::vector<TunedCandidate>& candidates) {
  const auto known = FindTuned(operation);
  const auto named = [&](const TunedCandidate& one) { return one.name == known->configuration; };
  if (!known || std::none_of(candidates.begin(), candidates.end(), named)) return std::nullopt;
  ReportTuned(operation, *known, 0);
  return known->configuration;
}

std::string FastestOf(const TunedOperation& operation,
                      const std::vector<TunedCandidate>& candidates) {
  if (const auto known = KnownFastest(operation, candidates)) return *known;
  TunedRow best{TuningIsExhaustive(), std::numeric_limits<double>::infinity(), candidates[0].name};
  int measured = 0;
  std::string too_large;
  for (const TunedCandidate& candidate : candidates) {
    try {
      const double time = candidate.measure(best.milliseconds);
      ++measured;
      if (time < best.milliseconds) {
        best.milliseconds = time;
        best.configuration = candidate.name;
      }
    } catch (const OutOfMemory& error) {
      too_large = error.what();  // it may fit in the net
    } catch (const Error& error) {
      log::Debug(Concat(operation.device->info().id, ": ", candidate.name, " is not measured for ",
                        operation.name(), ": ", error.what()));
    }
  }
  if (measured > 1) StoreTuned(operation, best, measured);
  if (measured == 0 && !too_large.empty()) {
    log::Info(Concat(operation.device->info().id, ": nothing is measured for ", operation.name(),
                     ": ", too_large));
  }
  return best.configuration;
}

double MeasureMilliseconds(Device* device, const std::function<void()>& run, double best) {
  const auto timed = [&](int runs) {
    const auto begin = device->RecordEvent();
    for (int i = 0; i < runs; ++i) run();
    const auto end = device->RecordEvent();
    return 1e3 * end->SecondsSince(*begin) / runs;
  };
  // The first run may load kernels, which takes milliseconds, or compile them, as PoCL does.
  timed(1);
  const double first = timed(1);
  if (first > 3 * best || first > kTooSlow) return first;
  const int runs = std::clamp(static_cast<int>(1 / std::max(first, 1e-3)), 2, 20);
  return std::min(timed(runs), timed(runs));
}

}  // namespace caffe
