#include "caffe/library/cudnn/plan_choice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/tuning_table.hpp"

namespace caffe::cudnn {
namespace {

// Changes with the conditions for engines: choices made under others are made again.
constexpr int kRules = 3;
constexpr int64_t kMostWorkspace = int64_t{1} << 30;
constexpr int64_t kAlignment = 16;  // of the graphs' arrays
constexpr int kRecommended = 8;     // engines of the heuristics that are always candidates
constexpr double kQuickSeconds = 0.5;
constexpr size_t kQuickCandidates = 6;  // that are measured even if they take longer

int64_t Bytes(DataType type, int64_t count) { return count * static_cast<int64_t>(type.bytes()); }

bool Narrow(DataType type) { return type == kHalf || type == kBfloat16; }

std::string Numbers(const Shape& shape) {
  std::string text;
  for (const int64_t value : shape) text += Concat(text.empty() ? "" : "x", value);
  return text;
}

TunedOperation OperationOf(Device* device, const ConvDescriptor& d, ConvPass pass) {
  std::string shape = Concat(d.name(), " pad ", Numbers(d.geometry.pad));
  const Shape& dilation = d.geometry.dilation;
  if (std::any_of(dilation.begin(), dilation.end(), [](int64_t v) { return v != 1; })) {
    shape += " dilation " + Numbers(dilation);
  }
  if (pass == ConvPass::kForward) shape += d.epilogue.name();
  if (d.workspace_limit) shape += Concat(" workspace ", d.workspace_limit);
  return {device,
          "cudnn",
          Concat(Find()->Version(), " rules ", kRules),
          ConvPassName(pass),
          shape,
          d.in == d.out ? d.in.name() : d.in.name() + "/" + d.out.name()};
}

// The kinds of graphs that compute a pass: `fused`, see ConvGraph, and not.
std::vector<bool> KindsOf(const ConvDescriptor& d, ConvPass pass) {
  if (pass == ConvPass::kForward && !d.epilogue.empty() && CanFuse(d.epilogue)) {
    return {true, false};
  }
  if (pass == ConvPass::kWeights && Narrow(d.in)) return {false, true};
  return {false};
}

std::string Configuration(bool fused, const EngineChoice& engine) {
  return (fused ? "fused " : "") + engine.text();
}

// Memory for measurements.
struct Scratch {
  Scratch(Device* device, const ConvDescriptor& d, ConvPass pass)
      : x(device, Bytes(d.in, d.batch * d.in_channels * d.geometry.input_count()), kPurpose),
        w(device, Bytes(pass == ConvPass::kWeights ? kFloat : d.in, d.weight_count()), kPurpose),
        y(device, Bytes(d.out, YCount(d)), kPurpose) {
    if (pass == ConvPass::kForward) {
      per_channel = DeviceArray(device, Bytes(kFloat, d.out_channels), kPurpose);
      if (d.epilogue.sum()) residual = DeviceArray(device, y.bytes(), kPurpose);
    }
    // About 1 in half; small in the other types.
    for (const DeviceArray* array : {&x, &w, &y, &per_channel, &residual}) {
      if (array->get()) device->Fill(array->get(), 0x3c, array->bytes());
    }
  }
  static int64_t YCount(const ConvDescriptor& d) {
    return d.batch * d.y_row() * d.geometry.output_count();
  }
  static constexpr char kPurpose[] = "measuring convolutions of cuDNN";

  DeviceArray x, w, y, per_channel, residual, workspace;
};

// Chooses the plan of one pass.
class Chooser {
 public:
  Chooser(Device* device, Session* session, const ConvDescriptor& d, ConvPass pass)
      : device_(device),
        session_(session),
        d_(d),
        pass_(pass),
        operation_(OperationOf(device, d, pass)),
        epilogue_(pass == ConvPass::kForward && !d.epilogue.empty()),
        exhaustive_(TuningIsExhaustive()) {
    const DeviceInfo& info = device->info();
    const int64_t unused = std::max<int64_t>(info.memory_bytes - device->bytes_in_use(), 0);
    limit_ = d.workspace_limit ? d.workspace_limit : std::min(kMostWorkspace, unused / 4);
  }

  std::shared_ptr<const Chosen> Choose() {
    if (const auto row = FindTuned(operation_)) {
      if (auto chosen = FromRow(*row)) {
        ReportTuned(operation_, *row, 0);
        return chosen;
      }
    }
    try {
      Measure();
    } catch (const OutOfMemory& error) {
      log::Info(Concat(operation_.device->info().id, ": cudnn measures nothing for ",
                       operation_.name(), ": ", error.what()));
    }
    if (auto chosen = Fastest()) return chosen;
    if (auto chosen = Unmeasured()) return chosen;
    throw LibraryRefusal(Concat("no engine of cuDNN computes ", operation_.name()));
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Candidate {
    Chosen chosen;
    double milliseconds;
  };

  std::unique_ptr<ConvGraph> Graph(bool fused) const {
    try {
      return std::make_unique<ConvGraph>(Target{session_->Current()}, d_, pass_, fused);
    } catch (const LibraryRefusal&) {
      return nullptr;  // cuDNN does not know these shapes, types or functions
    }
  }

  std::vector<bool> Kinds() const { return KindsOf(d_, pass_); }

  std::shared_ptr<const Chosen> FromRow(const TunedRow& row) const {
    std::string text = row.configuration;
    const bool fused = text.starts_with("fused ");
    if (fused) text.erase(0, 6);
    const auto kinds = Kinds();
    if (std::find(kinds.begin(), kinds.end(), fused) == kinds.end()) return nullptr;
    const auto engine = EngineChoice::Parse(text);
    if (!engine) return nullptr;
    Chosen chosen{fused, Graph(fused), nullptr, row.configuration};
    if (chosen.graph) chosen.plan = chosen.graph->Make(*engine);
    if (!chosen.plan || chosen.plan->workspace > limit_) return nullptr;
    return std::make_shared<const Chosen>(std::move(chosen));
  }

  bool TimeIsUp() const {
    return !exhaustive_ && candidates_.size() >= kQuickCandidates && spent_ > kQuickSeconds;
  }

  void Measure() {
    scratch_.emplace(device_, d_, pass_);
    if (epilogue_) pass_of_epilogue_.emplace(device_, d_);
    for (const bool fused : Kinds()) {
      const auto graph = Graph(fused);
      if (!graph) continue;
      const Engines engines = EnginesOf(*graph);
      for (const EngineChoice& engine : engines.first) {
        if (!TimeIsUp()) MeasureEngine(fused, engine);
      }
      for (const EngineChoice& engine : engines.last) {
        if (exhaustive_ || candidates_.empty()) MeasureEngine(fused, engine);
      }
    }
  }

  // The engines of a graph. Those that compile their kernel take long to make: except for the
  // heuristics' first one they are measured if nothing else can be, or if the choice is exhaustive.
  struct Engines {
    std::vector<EngineChoice> first, last;
  };

  Engines EnginesOf(const ConvGraph& graph) const {
    Engines engines;
    const auto known = [](const std::vector<EngineChoice>& list, const EngineChoice& engine) {
      return std::find(list.begin(), list.end(), engine) != list.end();
    };
    const auto add = [&](const EngineChoice& engine) {
      if (known(engines.first, engine) || known(engines.last, engine)) return;
      const auto facts = graph.Check(engine);
      if (!facts) return;
      // With a candidate from another graph none needs to be compiled.
      const bool last =
          facts->compiled_at_run_time && (!engines.first.empty() || !candidates_.empty());
      (last ? engines.last : engines.first).push_back(engine);
    };
    int recommended = 0;
    for (const int mode : {kHeuristicsA, kHeuristicsB}) {
      if (mode == kHeuristicsB && !exhaustive_) break;
      for (const EngineChoice& engine : graph.Recommended(mode)) {
        if (!exhaustive_ && recommended++ >= kRecommended) break;
        add(engine);
      }
    }
    const int64_t count = graph.engines();
    for (int64_t i = 0; i < count; ++i) add({i, {}});
    return engines;
  }

  void MeasureEngine(bool fused, const EngineChoice& engine) {
    // Its own graph: the plan keeps it, and graphs are cheap.
    Chosen chosen{fused, Graph(fused), nullptr, Configuration(fused, engine)};
    if (!chosen.graph) return;
    chosen.plan = chosen.graph->Make(engine);
    if (!chosen.plan || chosen.plan->workspace > limit_) return;
    if (!ProvideWorkspace(chosen.plan->workspace)) return;
    const auto begin = Clock::now();
    try {
      Pack pack;
      const double milliseconds = MeasureMilliseconds(
          device_, [&] { Run(&pack, chosen); }, best_);
      best_ = std::min(best_, milliseconds);
      candidates_.push_back({std::move(chosen), milliseconds});
    } catch (const LibraryRefusal&) {
      // Another engine computes it.
    }
    spent_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // False if the device does not have as much memory.
  bool ProvideWorkspace(int64_t bytes) {
    if (bytes <= scratch_->workspace.bytes()) return true;
    scratch_->workspace = DeviceArray();
    try {
      scratch_->workspace = DeviceArray(device_, bytes, Scratch::kPurpose);
    } catch (const OutOfMemory&) {
      return false;
    }
    return true;
  }

  void Run(Pack* pack, const Chosen& chosen) {
    const Scratch& s = *scratch_;
    const bool bias = d_.epilogue.bias != Epilogue::Bias::kNone;
    pack->Execute(session_, chosen,
                  {s.x.get(), s.w.get(), s.y.get(), bias ? s.per_channel.get() : DevicePtr{},
                   s.residual.get(), s.workspace.get()});
    if (epilogue_ && !chosen.fused) {
      pass_of_epilogue_->Run(s.y.get(), bias ? s.per_channel.get() : DevicePtr{},
                             {s.residual.get(), s.per_channel.get()});
    }
  }

  std::shared_ptr<const Chosen> Fastest() {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const auto& a, const auto& b) { return a.milliseconds < b.milliseconds; });
    for (Candidate& candidate : candidates_) {
      if (candidate.chosen.fused && !FollowsStages(candidate.chosen)) continue;
      const TunedRow row{exhaustive_, candidate.milliseconds, candidate.chosen.configuration};
      StoreTuned(operation_, row, static_cast<int>(candidates_.size()));
      return std::make_shared<const Chosen>(std::move(candidate.chosen));
    }
    return nullptr;
  }

  // Whether a fused engine computes the stages as our pass does, for sums of every size:
  // activations of some engines lose NaN, an upper bound beside a slope, or TanH of large sums.
  bool FollowsStages(const Chosen& chosen) {
    if (d_.epilogue.activation().kind == ElementFunction::Kind::kNone) return true;
    const auto of_nan = Sample(chosen, 0xff);  // NaN in every float kind
    // Windows may lie in the padding altogether.
    if (!of_nan ||
        std::none_of(of_nan->begin(), of_nan->end(), [](double v) { return std::isnan(v); })) {
      return false;
    }
    const Chosen* const reference = Unfused();
    if (!reference) return true;
    // Small sums, large ones, and large negative ones.
    for (const uint8_t byte : {0x3c, 0x47, 0xc7}) {
      const auto expected = Sample(*reference, byte), actual = Sample(chosen, byte);
      if (!expected) return true;
      if (!actual) return false;
      for (size_t i = 0; i < expected->size(); ++i) {
        const double e = (*expected)[i], v = (*actual)[i];
        if (!std::isfinite(e)) continue;  // beyond the range of the type
        const double allowed = (Narrow(d_.in) ? 5e-2 : 1e-3) * std::max(1.0, std::abs(e));
        if (!(std::abs(v - e) <= allowed)) return false;
      }
    }
    return true;
  }

  // A plan without the epilogue; null if there is none.
  const Chosen* Unfused() {
    if (unfused_) return unfused_->plan ? &*unfused_ : nullptr;
    unfused_.emplace(Chosen{false, Graph(false), nullptr, ""});
    if (!unfused_->graph) return nullptr;
    Engines engines = EnginesOf(*unfused_->graph);
    engines.first.insert(engines.first.end(), engines.last.begin(), engines.last.end());
    for (const EngineChoice& engine : engines.first) {
      unfused_->plan = unfused_->graph->Make(engine);
      if (unfused_->plan && unfused_->plan->workspace <= limit_) break;
      unfused_->plan = nullptr;
    }
    return unfused_->plan ? &*unfused_ : nullptr;
  }

  // Elements from the middle of y if all bytes of x are `byte`. None if the plan cannot run.
  std::optional<std::vector<double>> Sample(const Chosen& chosen, uint8_t byte) {
    if (!ProvideWorkspace(chosen.plan->workspace)) return std::nullopt;
    const Scratch& s = *scratch_;
    device_->Fill(s.x.get(), byte, s.x.bytes());
    try {
      Pack pack;
      Run(&pack, chosen);
    } catch (const LibraryRefusal&) {
      return std::nullopt;
    }
    const int64_t total = Scratch::YCount(d_);
    const int64_t count = std::min(total, std::max<int64_t>(1024, 2 * d_.y_row()));
    std::vector<char> bytes(Bytes(d_.out, count));
    std::vector<double> values(count);
    device_->Download(bytes.data(), s.y.get() + Bytes(d_.out, (total - count) / 2), bytes.size());
    ConvertElements(d_.out, bytes.data(), kDouble, values.data(), count);
    return values;
  }

  // If nothing could be measured or every workspace is too large: the plan with the smallest one,
  // without the epilogue.
  std::shared_ptr<const Chosen> Unmeasured() const {
    for (const bool fused : {false, true}) {
      if (fused && pass_ != ConvPass::kWeights) break;
      auto graph = Graph(fused);
      if (!graph) continue;
      Chosen best;
      best.fused = fused;
      Engines engines = EnginesOf(*graph);
      engines.first.insert(engines.first.end(), engines.last.begin(), engines.last.end());
      for (const EngineChoice& engine : engines.first) {
        auto plan = graph->Make(engine);
        if (!plan || (best.plan && plan->workspace >= best.plan->workspace)) continue;
        best.configuration = Configuration(fused, engine);
        best.plan = std::move(plan);
        if (best.plan->workspace <= limit_) break;
      }
      if (!best.plan) continue;
      best.graph = std::move(graph);
      return std::make_shared<const Chosen>(std::move(best));
    }
    return nullptr;
  }

  Device* device_;
  Session* session_;
  const ConvDescriptor& d_;
  const ConvPass pass_;
  const TunedOperation operation_;
  const bool epilogue_, exhaustive_;
  int64_t limit_;
  double spent_ = 0;  // seconds of measurements
  std::optional<Scratch> scratch_;
  std::optional<Chosen> unfused_;  // what fused engines are compared with
  std::optional<StagesPass> pass_of_epilogue_;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Candidate> candidates_;
};

class Choices {
 public:
  static Choices& Get() {
    static auto* const choices = new Choices;
    return *choices;
  }

  std::shared_ptr<const Chosen> Find(Device* device, Session* session, const ConvDescriptor& d,
                                     ConvPass pass) {
    const ProgramCache::TuningKey key = OperationOf(device, d, pass).key();
    // One measurement at a time: two would disturb each other.
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[{device, key}];
    if (entry.chosen && (entry.exhaustive || !TuningIsExhaustive())) return entry.chosen;
    auto chosen = Chooser(device, session, d, pass).Choose();
    entry = {chosen, TuningIsExhaustive()};
    return chosen;
  }

  bool Exists(Device* device, const ConvDescriptor& d, ConvPass pass) {
    const ProgramCache::TuningKey key = OperationOf(device, d, pass).key();
    const std::lock_guard lock(mutex_);
    const auto known = existing_.find({device, key});
    if (known != existing_.end()) return known->second;
    return existing_[{device, key}] = Search(device, d, pass);
  }

 private:
  using Key = std::pair<Device*, ProgramCache::TuningKey>;
  struct Entry {
    std::shared_ptr<const Chosen> chosen;
    bool exhaustive = false;
  };

  static bool Search(Device* device, const ConvDescriptor& d, ConvPass pass) {
    const bool fused = pass == ConvPass::kWeights;
    return SearchGraph(device, d, pass, false) ||
           (fused && KindsOf(d, pass).back() && SearchGraph(device, d, pass, true));
  }

  static bool SearchGraph(Device* device, const ConvDescriptor& d, ConvPass pass, bool fused) {
    try {
      const ConvGraph graph({Session::Of(device)->Current()}, d, pass, fused);
      const int64_t engines = graph.engines();
      for (int64_t i = 0; i < engines; ++i) {
        const auto facts = graph.Check({i, {}});
        // To make a plan that compiles its kernel takes long; its configuration is valid.
        if (facts && (facts->compiled_at_run_time || graph.Make({i, {}}))) return true;
      }
    } catch (const LibraryRefusal& refusal) {
      log::Debug(
          Concat(device->info().id, ": cudnn does not support ", d.name(), ": ", refusal.what()));
    }
    return false;
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::map<Key, bool> existing_;
};

}  // namespace

void Pack::Execute(Session* session, const Chosen& chosen, const Operands& o) {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  const auto add = [&](int64_t id, DevicePtr pointer) {
    if (!pointer) return;
    void* const address = pointer.address();
    if (reinterpret_cast<uintptr_t>(address) % kAlignment != 0) {
      throw LibraryRefusal("an array does not begin at a multiple of 16 bytes");
    }
    ids.push_back(id);
    pointers.push_back(address);
  };
  add(kX, o.x);
  add(kW, o.w);
  add(kY, o.y);
  if (chosen.fused) {
    add(kBias, o.bias);
    add(kResidual, o.residual);
  }
  void* const workspace = chosen.plan->workspace > 0 ? o.workspace.address() : nullptr;
  if (!pack_.get() || pointers != pointers_ || workspace != workspace_) {
    Descriptor pack(descriptor::kVariantPack);
    const auto count = static_cast<int64_t>(ids.size());
    pack.Set(attribute::kPackIds, type::kInt64, count, ids.data());
    pack.Set(attribute::kPackPointers, type::kPointer, count, pointers.data());
    pack.Set(attribute::kPackWorkspace, type::kPointer, 1, &workspace);
    pack.Finalize();
    pack_ = std::move(pack);
    pointers_ = std::move(pointers);
    workspace_ = workspace;
  }
  session->Execute(chosen.plan->plan, pack_);
}

StagesPass::StagesPass(Device* device, const ConvDescriptor& d)
    : channels_(d.out_channels),
      y_row_(d.y_row()),
      positions_(d.geometry.output_count()),
      rows_(d.batch * positions_),
      batch_(d.batch),
      last_(d.y_layout == Layout::kNHWC) {
  Epilogue epilogue = d.epilogue;
  const auto axis = last_ ? Epilogue::Bias::kPerColumn : Epilogue::Bias::kPerRow;
  if (epilogue.bias != Epilogue::Bias::kNone) epilogue.bias = axis;
  if (epilogue.slopes != Epilogue::Bias::kNone) epilogue.slopes = axis;
  pass_ = std::make_unique<EpiloguePass>(device, d.out, d.out, epilogue);
}

void StagesPass::Run(DevicePtr y, DevicePtr bias, const EpilogueOperands& operands) const {
  const int64_t image = channels_ * positions_;
  if (last_) {
    pass_->Run({rows_, channels_, rows_, 0, y_row_, 0, y_row_}, y, y, bias, operands);
  } else {
    pass_->Run({batch_ * channels_, positions_, channels_, image, positions_, image, positions_}, y,
               y, bias, operands);
  }
}

std::shared_ptr<const Chosen> ChoosePlan(Device* device, Session* session, const ConvDescriptor& d,
                                         ConvPass pass) {
  return Choices::Get().Find(device, session, d, pass);
}

bool HasPlan(Device* device, const ConvDescriptor& d, ConvPass pass) {
  return Choices::Get().Exists(device, d, pass);
}

}  // namespace caffe::cudnn
