#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/out_of_memory.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/cudnn/channels_last.hpp"
#include "caffe/library/cudnn/conv_graph.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/tuning_table.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

using cudnn::ConvGraph;
using cudnn::ConvPass;
using cudnn::ConvPlan;
using cudnn::EngineChoice;

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
          Concat(cudnn::Find()->Version()),
          cudnn::ConvPassName(pass),
          shape,
          d.in == d.out ? d.in.name() : d.in.name() + "/" + d.out.name()};
}

// The kinds of graphs that compute a pass: `fused`, see ConvGraph, and not.
std::vector<bool> KindsOf(const ConvDescriptor& d, ConvPass pass) {
  if (pass == ConvPass::kForward && !d.epilogue.empty() && cudnn::CanFuse(d.epilogue)) {
    return {true, false};
  }
  if (pass == ConvPass::kWeights && Narrow(d.in)) return {false, true};
  return {false};
}

// The arrays of a call.
struct Operands {
  DevicePtr x, w, y, bias, residual, workspace;
};

// What computes one pass.
struct Chosen {
  bool fused = false;                // see ConvGraph
  std::unique_ptr<ConvGraph> graph;  // whose descriptors the plan uses
  std::unique_ptr<ConvPlan> plan;
  std::string configuration;
};

std::string Configuration(bool fused, const EngineChoice& engine) {
  return (fused ? "fused " : "") + engine.text();
}

// A call's arrays in the form in which cuDNN takes them. It is made again if an address changes.
class Pack {
 public:
  void Execute(cudnn::Session* session, const Chosen& chosen, const Operands& o) {
    std::vector<int64_t> ids;
    std::vector<void*> pointers;
    const auto add = [&](int64_t id, DevicePtr pointer) {
      if (!pointer) return;
      void* const address = Address(pointer);
      if (reinterpret_cast<uintptr_t>(address) % kAlignment != 0) {
        throw LibraryRefusal("an array does not begin at a multiple of 16 bytes");
      }
      ids.push_back(id);
      pointers.push_back(address);
    };
    add(cudnn::kX, o.x);
    add(cudnn::kW, o.w);
    add(cudnn::kY, o.y);
    if (chosen.fused) {
      add(cudnn::kBias, o.bias);
      add(cudnn::kResidual, o.residual);
    }
    void* const workspace = chosen.plan->workspace > 0 ? Address(o.workspace) : nullptr;
    if (!pack_.get() || pointers != pointers_ || workspace != workspace_) {
      cudnn::Descriptor pack(cudnn::descriptor::kVariantPack);
      const auto count = static_cast<int64_t>(ids.size());
      pack.Set(cudnn::attribute::kPackIds, cudnn::type::kInt64, count, ids.data());
      pack.Set(cudnn::attribute::kPackPointers, cudnn::type::kPointer, count, pointers.data());
      pack.Set(cudnn::attribute::kPackWorkspace, cudnn::type::kPointer, 1, &workspace);
      pack.Finalize();
      pack_ = std::move(pack);
      pointers_ = std::move(pointers);
      workspace_ = workspace;
    }
    session->Execute(chosen.plan->plan, pack_);
  }

 private:
  static void* Address(DevicePtr pointer) { return pointer.address(); }

  cudnn::Descriptor pack_;
  std::vector<void*> pointers_;
  void* workspace_ = nullptr;
};

// The epilogue as a pass over y.
class Pass {
 public:
  Pass(Device* device, const ConvDescriptor& d)
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
  void Run(DevicePtr y, DevicePtr bias, const EpilogueOperands& operands) const {
    const int64_t image = channels_ * positions_;
    if (last_) {
      pass_->Run({rows_, channels_, rows_, 0, y_row_, 0, y_row_}, y, y, bias, operands);
    } else {
      pass_->Run({batch_ * channels_, positions_, channels_, image, positions_, image, positions_},
                 y, y, bias, operands);
    }
  }

 private:
  const int64_t channels_, y_row_, positions_, rows_, batch_;
  const bool last_;
  std::unique_ptr<EpiloguePass> pass_;
};

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
  Chooser(Device* device, cudnn::Session* session, const ConvDescriptor& d, ConvPass pass)
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
      return std::make_unique<ConvGraph>(cudnn::Target{session_->Current()}, d_, pass_, fused);
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
    for (const int mode : {cudnn::kHeuristicsA, cudnn::kHeuristicsB}) {
      if (mode == cudnn::kHeuristicsB && !exhaustive_) break;
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
      if (candidate.chosen.fused && !KeepsNan(candidate.chosen)) continue;
      const TunedRow row{exhaustive_, candidate.milliseconds, candidate.chosen.configuration};
      StoreTuned(operation_, row, static_cast<int>(candidates_.size()));
      return std::make_shared<const Chosen>(std::move(candidate.chosen));
    }
    return nullptr;
  }

  // Whether NaN in x is NaN in y: the activations of some engines lose it.
  bool KeepsNan(const Chosen& chosen) {
    if (d_.epilogue.activation().kind == Activation::Kind::kNone) return true;
    if (!ProvideWorkspace(chosen.plan->workspace)) return false;
    const Scratch& s = *scratch_;
    device_->Fill(s.x.get(), 0xff, s.x.bytes());  // NaN in every float kind
    try {
      Pack pack;
      Run(&pack, chosen);
    } catch (const LibraryRefusal&) {
      return false;
    }
    const int64_t total = Scratch::YCount(d_);
    const int64_t count = std::min(total, std::max<int64_t>(1024, 2 * d_.y_row()));
    std::vector<char> bytes(Bytes(d_.out, count));
    std::vector<double> values(count);
    device_->Download(bytes.data(), s.y.get() + Bytes(d_.out, (total - count) / 2), bytes.size());
    ConvertElements(d_.out, bytes.data(), kDouble, values.data(), count);
    // Windows may lie in the padding altogether.
    return std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
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
  cudnn::Session* session_;
  const ConvDescriptor& d_;
  const ConvPass pass_;
  const TunedOperation operation_;
  const bool epilogue_, exhaustive_;
  int64_t limit_;
  double spent_ = 0;  // seconds of measurements
  std::optional<Scratch> scratch_;
  std::optional<Pass> pass_of_epilogue_;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Candidate> candidates_;
};

// The choices of the process, which all operators share. Plans are kept, because making one may
// compile a kernel.
class Choices {
 public:
  static Choices& Get() {
    static auto* const choices = new Choices;
    return *choices;
  }

  std::shared_ptr<const Chosen> Find(Device* device, cudnn::Session* session,
                                     const ConvDescriptor& d, ConvPass pass) {
    const ProgramCache::TuningKey key = OperationOf(device, d, pass).key();
    // One measurement at a time: two would disturb each other.
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[{device, key}];
    if (entry.chosen && (entry.exhaustive || !TuningIsExhaustive())) return entry.chosen;
    auto chosen = Chooser(device, session, d, pass).Choose();
    entry = {chosen, TuningIsExhaustive()};
    return chosen;
  }

  // Whether cuDNN has an engine for the pass, without measuring.
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
      const ConvGraph graph({cudnn::Session::Of(device)->Current()}, d, pass, fused);
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

class CudnnConvOp final : public ConvOp {
 public:
  CudnnConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        session_(cudnn::Session::Of(device)),
        last_(device, d),
        bias_(device, d.out, kFloat, Outer(d), d.out_channels, Inner(d), std::nullopt,
              d.backward_weights) {
    const ConvDescriptor& form = last_.form();
    const auto choose = [&](ConvPass pass) {
      return Choices::Get().Find(device, session_, form, pass);
    };
    if (d.forward) forward_ = choose(ConvPass::kForward);
    if (d.backward_data) data_ = choose(ConvPass::kData);
    if (d.backward_weights) weights_ = choose(ConvPass::kWeights);
    int64_t plans = 0;
    for (const auto* chosen : {&forward_, &data_, &weights_}) {
      if (*chosen) plans = std::max(plans, (*chosen)->plan->workspace);
    }
    layout_.Add(plans);
    if (last_.changes_images()) images_at_ = layout_.Add(last_.image_bytes());
    if (d.backward_weights) {
      gradient_at_ = layout_.Add(Bytes(kFloat, form.weight_count()));
      last_.MakeAddition(device, cudnn::GradientType(form, weights_->fused));
    }
    if (forward_ && !forward_->fused && !d.epilogue.empty()) {
      epilogue_ = std::make_unique<Pass>(device, descriptor_);
    }
  }
  const char* library() const override { return "cudnn"; }
  int64_t workspace_bytes() const override {
    return std::max(layout_.bytes(), bias_.workspace_bytes());
  }
  int64_t prepared_bytes() const override {
    const ConvDescriptor& form = last_.form();
    const bool reads = form.forward || form.backward_data;
    return last_.changes_weights() && reads ? Bytes(form.in, form.weight_count()) : 0;
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    if (prepared_bytes() > 0) last_.FoldWeights(weights, prepared);
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    Operands o{Images(a.x, a.workspace), last_.changes_weights() ? a.prepared : a.weights, a.y};
    // Some engines fail with an array that their graph does not name.
    const Epilogue& epilogue = last_.form().epilogue;
    if (epilogue.bias != Epilogue::Bias::kNone) o.bias = a.bias;
    if (epilogue.sum()) o.residual = a.epilogue.residual;
    o.workspace = a.workspace;
    device_->NoteUse({o.x.ReadOnly(), o.w.ReadOnly(), o.y, o.workspace, o.bias.ReadOnly(),
                      o.residual.ReadOnly()});
    forward_pack_.Execute(session_, *forward_, o);
    device_->CountLibraryCall();
    if (epilogue_) epilogue_->Run(a.y, a.bias, a.epilogue);
  }

  void DoBackwardData(const ConvGradients& g) override {
    CheckMemory(g.prepared, g.workspace);
    g.x_diff.CheckWritable();
    const bool changes = last_.changes_images();
    Operands o{changes ? g.workspace + images_at_ : g.x_diff,
               last_.changes_weights() ? g.prepared : g.weights, g.y_diff};
    o.workspace = g.workspace;
    device_->NoteUse({o.x, o.w.ReadOnly(), o.y.ReadOnly(), o.workspace});
    data_pack_.Execute(session_, *data_, o);
    device_->CountLibraryCall();
    if (changes) last_.UnfoldImages(o.x, g.x_diff);
  }

  void DoBackwardWeights(const ConvGradients& g) override {
    CheckWorkspace(g.workspace);
    Operands o{Images(g.x, g.workspace), g.workspace + gradient_at_, g.y_diff};
    o.workspace = g.workspace;
    device_->NoteUse({o.x.ReadOnly(), o.w, o.y.ReadOnly(), o.workspace});
    weights_pack_.Execute(session_, *weights_, o);
    device_->CountLibraryCall();
    last_.AddGradient(o.w, g.w_diff);
  }

  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  // y as [outer, channels, inner].
  static int64_t Outer(const ConvDescriptor& d) {
    return d.y_layout == Layout::kNHWC ? d.batch * d.geometry.output_count() : d.batch;
  }
  static int64_t Inner(const ConvDescriptor& d) {
    return d.y_layout == Layout::kNHWC ? 1 : d.geometry.output_count();
  }

  // x in the form in which cuDNN reads it.
  DevicePtr Images(DevicePtr x, DevicePtr workspace) {
    if (!last_.changes_images()) return x;
    last_.FoldImages(x, workspace + images_at_);
    return workspace + images_at_;
  }

  Device* device_;
  cudnn::Session* const session_;
  cudnn::ChannelsLast last_;
  BiasOp bias_;
  std::shared_ptr<const Chosen> forward_, data_, weights_;
  Pack forward_pack_, data_pack_, weights_pack_;
  WorkspaceLayout layout_;
  int64_t images_at_ = 0, gradient_at_ = 0;
  std::unique_ptr<Pass> epilogue_;
};

// Whether cuDNN can describe the convolution.
bool Describes(Device* device, const ConvDescriptor& d) {
  if (device->backend() != Backend::kCuda || d.quantized()) return false;
  // Images with few channels are copied anyway.
  if (d.x_layout != d.y_layout && !cudnn::ChannelsLast::ReadsCOrder(d)) return false;
  if (d.in != kFloat && !Narrow(d.in)) return false;
  const ConvGeometry& g = d.geometry;
  if (g.axes() > 3) return false;
  // Our own kernels compute these better in NCHW.
  if (d.x_layout == Layout::kNCHW && d.group > 1 && d.group == d.in_channels) return false;
  const Shape padded = g.padded();
  for (int i = 0; i < g.axes(); ++i) {
    if (padded[i] != g.input[i] + 2 * g.pad[i]) return false;  // windows reach beyond the padding
  }
  return true;
}

bool Supports(Device* device, const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.geometry.Normalize();
  if (!Describes(device, d) || !cudnn::Find()) return false;
  d = cudnn::ChannelsLast::FormOf(d);
  Choices& choices = Choices::Get();
  return (!d.forward || choices.Exists(device, d, ConvPass::kForward)) &&
         (!d.backward_data || choices.Exists(device, d, ConvPass::kData)) &&
         (!d.backward_weights || choices.Exists(device, d, ConvPass::kWeights));
}

// Matrix units read channels last. Engines for float without them read NCHW.
bool PrefersNhwc(Device* device, const ConvDescriptor& descriptor) {
  if (!Narrow(descriptor.in)) return false;
  ConvDescriptor d = descriptor;
  d.x_layout = d.y_layout = Layout::kNHWC;
  return Supports(device, d);
}

}  // namespace

ConvLibrary CudnnLibrary() {
  return {"cudnn",
          &Supports,
          [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
            return std::make_unique<CudnnConvOp>(device, d);
          },
          nullptr,
          &PrefersNhwc,
          true /* knows_pitch */};
}

}  // namespace caffe
