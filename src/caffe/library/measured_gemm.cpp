#include "caffe/library/measured_gemm.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/tuning_table.hpp"

namespace caffe {
namespace {

constexpr char kPurpose[] = "measuring products";

// The bytes of `batch` matrices, `stride` elements apart.
int64_t Bytes(DataType type, int64_t rows, int64_t pitch, int64_t batch, int64_t stride) {
  return ((batch - 1) * stride + rows * pitch) * static_cast<int64_t>(type.bytes());
}

}  // namespace

GemmScratch::GemmScratch(Device* device, const GemmDescriptor& d)
    : device_(device),
      a_(device, Bytes(d.in, d.trans_a ? d.k : d.m, d.row_a(), d.batch, d.batch_stride_a()),
         kPurpose),
      b_(device, Bytes(d.in, d.trans_b ? d.n : d.k, d.row_b(), d.batch, d.batch_stride_b()),
         kPurpose),
      c_(device, Bytes(d.out, d.m, d.row_c(), d.batch, d.batch_stride_c()), kPurpose),
      along_(device, std::max(d.m, d.n) * static_cast<int64_t>(kDouble.bytes()), kPurpose) {
  if (d.epilogue.sum()) residual_ = DeviceArray(device, c_.bytes(), kPurpose);
  // About 1 in half; small in the other types.
  for (const DeviceArray* array : {&a_, &b_, &c_, &along_, &residual_}) {
    if (array->get()) device->Fill(array->get(), 0x3c, array->bytes());
  }
}

double GemmScratch::Measure(GemmOp* op, double best) const {
  const GemmDescriptor& d = op->descriptor();
  const DeviceArray workspace(device_, op->workspace_bytes(), kPurpose);
  const DeviceArray prepared(device_, op->prepared_bytes(), kPurpose);
  GemmArguments g;
  g.a = a_.Of(d.in);
  g.b = b_.Of(d.in);
  g.c = c_.Of(d.out);
  if (d.weights() != GemmDescriptor::Weights::kNone && op->prepared_bytes() > 0) {
    g.prepared = prepared.Of(d.in);
    op->Prepare(d.weights() == GemmDescriptor::Weights::kA ? g.a : g.b, g.prepared);
  }
  if (d.epilogue.bias != Epilogue::Bias::kNone) g.bias = along_.get();
  g.epilogue = {residual_.Of(d.out), along_.get()};
  g.workspace = workspace.get();
  return MeasureMilliseconds(
      device_, [&] { op->Run(g); }, best);
}

std::string FastestProduct(Device* device, const GemmDescriptor& d,
                           const std::vector<GemmLibrary>& rows) {
  std::string names;
  for (const GemmLibrary& row : rows) names += (names.empty() ? "" : ", ") + row.name;
  const TunedOperation operation{
      device, "product", "1", "product", Concat(d.key(), " by ", names), d.in.name()};
  std::optional<GemmScratch> scratch;
  std::vector<TunedCandidate> candidates;
  for (const GemmLibrary& row : rows) {
    candidates.push_back({row.name, [&](double best) {
                            const auto op = row.make(device, d);
                            if (!scratch) scratch.emplace(device, d);
                            return scratch->Measure(op.get(), best);
                          }});
  }
  if (device->info().is_cpu_type && !TuningIsExhaustive()) {
    return KnownFastest(operation, candidates).value_or(rows[0].name);
  }
  return FastestOf(operation, candidates);
}

}  // namespace caffe
