#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/tuning_table.hpp"

namespace caffe {
namespace {

enum class Pass { kForward, kData, kWeights };
constexpr std::array kPasses{Pass::kForward, Pass::kData, Pass::kWeights};
// Changes when the choice or what is measured changes.
constexpr char kVersion[] = "3";

const char* PassName(Pass pass) {
  return pass == Pass::kForward ? "forward" : pass == Pass::kData ? "data" : "weights";
}

bool Requests(const ConvDescriptor& d, Pass pass) {
  return pass == Pass::kForward ? d.forward
         : pass == Pass::kData  ? d.backward_data
                                : d.backward_weights;
}

ConvDescriptor Only(ConvDescriptor d, const std::vector<Pass>& passes) {
  const auto has = [&](Pass pass) {
    return std::find(passes.begin(), passes.end(), pass) != passes.end();
  };
  d.forward = has(Pass::kForward);
  d.backward_data = has(Pass::kData);
  d.backward_weights = has(Pass::kWeights);
  return d;
}

int64_t Bytes(DataType type, int64_t count) { return count * static_cast<int64_t>(type.bytes()); }

// Memory for measurements.
struct Scratch {
  static constexpr char kPurpose[] = "measuring convolutions";
  Scratch(Device* device, const ConvDescriptor& d)
      : x(device, Bytes(d.in, d.batch * d.in_channels * d.geometry.input_count()), kPurpose),
        y(device, Bytes(d.out, d.batch * d.y_row() * d.geometry.output_count()), kPurpose),
        w(device, Bytes(d.in, d.weight_count()), kPurpose),
        w_diff(device, Bytes(d.master(), d.weight_count()), kPurpose),
        per_channel(device, Bytes(d.master(), d.out_channels), kPurpose) {
    if (d.epilogue.sum()) residual = DeviceArray(device, y.bytes(), kPurpose);
    // About 1 in half; small in the other types.
    for (const DeviceArray* array : {&x, &y, &w, &w_diff, &per_channel, &residual}) {
      if (array->get()) device->Fill(array->get(), 0x3c, array->bytes());
    }
  }
  DeviceArray x, y, w, w_diff, per_channel, residual;
};

double Measure(Device* device, ConvOp* op, Pass pass, const Scratch& s, double best) {
  const DeviceArray workspace(device, op->workspace_bytes(), Scratch::kPurpose);
  const DeviceArray prepared(device, op->prepared_bytes(), Scratch::kPurpose);
  const ConvDescriptor& d = op->descriptor();
  const DevicePtr x = s.x.Of(d.in), w = s.w.Of(d.in), y = s.y.Of(d.out);
  op->Prepare(w, prepared.Of(d.in));
  if (pass == Pass::kForward) {
    const Epilogue& epilogue = op->descriptor().epilogue;
    ConvArguments a{x, w, prepared.Of(d.in), {}, y};
    if (epilogue.bias != Epilogue::Bias::kNone) a.bias = s.per_channel.get();
    a.epilogue = {s.residual.Of(d.out), s.per_channel.get()};
    a.workspace = workspace.get();
    return MeasureMilliseconds(
        device, [&] { op->Forward(a); }, best);
  }
  ConvGradients g{s.x.get(), s.w.get(), prepared.get(), s.y.get()};
  g.x_diff = s.x.get();
  g.w_diff = s.w_diff.get();
  g.workspace = workspace.get();
  const bool data = pass == Pass::kData;
  return MeasureMilliseconds(
      device, [&] { data ? op->BackwardData(g) : op->BackwardWeights(g); }, best);
}

// The name of the fastest row for a pass.
std::string Fastest(Device* device, const ConvDescriptor& d, Pass pass,
                    const std::vector<ConvLibrary>& rows, bool measures = true) {
  std::string names;
  for (const ConvLibrary& row : rows) names += (names.empty() ? "" : ", ") + row.name;
  const ConvDescriptor only = Only(d, {pass});
  const TunedOperation operation{
      device,     "convolution", kVersion, PassName(pass), Concat(only.key(), " by ", names),
      d.in.name()};
  std::optional<Scratch> scratch;
  std::vector<TunedCandidate> candidates;
  for (const ConvLibrary& row : rows) {
    candidates.push_back({row.name, [&](double best) {
                            if (!scratch) scratch.emplace(device, d);
                            const auto op = row.make(device, only);
                            return Measure(device, op.get(), pass, *scratch, best);
                          }});
  }
  if (!measures) return KnownFastest(operation, candidates).value_or(rows[0].name);
  return FastestOf(operation, candidates);
}

// Computes each pass by the operator of the library that is fastest for it.
class MeasuredConvOp final : public ConvOp {
 public:
  MeasuredConvOp(Device* device, const ConvDescriptor& d, const std::vector<ConvLibrary>& rows,
                 const std::vector<ConvLibrary>& all)
      : ConvOp(d) {
    std::vector<std::pair<std::string, std::vector<Pass>>> chosen;
    for (const Pass pass : kPasses) {
      if (!Requests(d, pass)) continue;
      const std::string name = Fastest(device, d, pass, rows);
      auto found = std::find_if(chosen.begin(), chosen.end(),
                                [&](const auto& entry) { return entry.first == name; });
      if (found == chosen.end()) found = chosen.insert(chosen.end(), {name, {}});
      found->second.push_back(pass);
    }
    for (const auto& [name, passes] : chosen) {
      std::vector<ConvLibrary> ordered = all;
      std::stable_partition(
          ordered.begin(), ordered.end(),
          [&wanted = name](const ConvLibrary& row) { return row.name == wanted; });
      ops_.push_back(MakeWithFallback(device, Only(d, passes), std::move(ordered)));
      for (const Pass pass : passes) of_pass_[static_cast<size_t>(pass)] = ops_.back().get();
    }
    for (const auto& op : ops_) {
      workspace_bytes_ = std::max(workspace_bytes_, op->workspace_bytes());
    }
  }
  const char* library() const override { return ops_[0]->library(); }
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  // An operator that falls back to another library needs other bytes from the next Prepare on.
  int64_t prepared_bytes() const override {
    int64_t bytes = 0;
    for (const auto& op : ops_) bytes += Rounded(op->prepared_bytes());
    return bytes;
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    offsets_.clear();
    int64_t offset = 0;
    for (const auto& op : ops_) {
      const int64_t bytes = op->prepared_bytes();
      offsets_.push_back(bytes > 0 ? offset : -1);
      if (bytes > 0) op->Prepare(weights, prepared + offset);
      offset += Rounded(bytes);
    }
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    Of(Pass::kForward)->Forward(Given(Pass::kForward, given));
  }
  void DoBackwardData(const ConvGradients& given) override {
    Of(Pass::kData)->BackwardData(Given(Pass::kData, given));
  }
  void DoBackwardWeights(const ConvGradients& given) override {
    Of(Pass::kWeights)->BackwardWeights(Given(Pass::kWeights, given));
  }
  void DoBackwardBias(const ConvGradients& given) override {
    Of(Pass::kWeights)->BackwardBias(Given(Pass::kWeights, given));
  }

 private:
  ConvOp* Of(Pass pass) const { return of_pass_[static_cast<size_t>(pass)]; }
  // Each operator's weights begin at a multiple of 256 bytes.
  static int64_t Rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  // The arguments with the weights that the last Prepare made for the operator of the pass.
  template <class Arguments> Arguments Given(Pass pass, Arguments arguments) const {
    const DevicePtr all = std::exchange(arguments.prepared, DevicePtr{});
    for (size_t i = 0; all && i < offsets_.size(); ++i) {
      if (ops_[i].get() == Of(pass) && offsets_[i] >= 0) arguments.prepared = all + offsets_[i];
    }
    return arguments;
  }

  std::vector<std::unique_ptr<ConvOp>> ops_;
  std::array<ConvOp*, kPasses.size()> of_pass_{};
  std::vector<int64_t> offsets_;  // of the operators' prepared weights; -1: they have none
  int64_t workspace_bytes_ = 0;
};

}  // namespace

std::string FastestForward(Device* device, const ConvDescriptor& d,
                           const std::vector<ConvLibrary>& rows, bool measures) {
  return Fastest(device, d, Pass::kForward, rows, measures);
}

std::unique_ptr<ConvOp> MakeMeasured(Device* device, const ConvDescriptor& d,
                                     const std::vector<ConvLibrary>& rows,
                                     const std::vector<ConvLibrary>& all) {
  return std::make_unique<MeasuredConvOp>(device, d, rows, all);
}

}  // namespace caffe
