#include "caffe/library/fallback.hpp"

#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/out_of_memory.hpp"

namespace caffe {
namespace {

// Every field, unlike name().
std::string Key(Device* device, const GemmDescriptor& d) {
  return Concat(device->info().id, " gemm ", d.name(), " ", d.row_a(), " ", d.row_b(), " ",
                d.row_c(), " ", d.step_a(), " ", d.step_b(), " ", d.step_c());
}

std::string Key(Device* device, const ConvDescriptor& d) {
  std::string key = Concat(device->info().id, " conv ", d.name(), " ", d.forward, d.backward_data,
                           d.backward_weights, " ", d.workspace_limit, d.epilogue.name());
  for (const Shape* shape : {&d.geometry.stride, &d.geometry.pad, &d.geometry.dilation}) {
    for (const int64_t value : *shape) key += Concat(" ", value);
  }
  return key;
}

const char* What(const GemmDescriptor&) { return "matrix product"; }
const char* What(const ConvDescriptor&) { return "convolution"; }

struct Refusals {
  std::mutex mutex;
  std::map<std::string, std::set<std::string>> keys;  // by library
  std::set<std::string> warned;                       // device and library
};

Refusals& All() {
  static auto* const all = new Refusals;
  return *all;
}

bool Refused(const std::string& library, const std::string& key) {
  const std::lock_guard lock(All().mutex);
  const auto found = All().keys.find(library);
  return found != All().keys.end() && found->second.contains(key);
}

void Remember(const std::string& library, const std::string& key) {
  const std::lock_guard lock(All().mutex);
  All().keys[library].insert(key);
}

bool FirstOf(const std::string& device_and_library) {
  const std::lock_guard lock(All().mutex);
  return All().warned.insert(device_and_library).second;
}

// The rows of one descriptor, and the operator of the row in use.
template <class Op, class Descriptor, class Row> class Rows {
 public:
  Rows(Device* device, const Descriptor& descriptor, std::vector<Row> rows)
      : device_(device), descriptor_(descriptor), rows_(std::move(rows)) {
    const std::string key = Key(device, descriptor);
    while (rows_.size() > 1 && Refused(rows_[0].name, key)) rows_.erase(rows_.begin());
    Make();
  }
  Op& op() const { return *op_; }
  bool last() const { return rows_.size() == 1; }
  std::unique_ptr<Op> Release() { return std::move(op_); }

  // The row in use failed.
  void Next(const std::string& why, bool remember = true) {
    const std::string library = rows_[0].name;
    if (remember) Remember(library, Key(device_, descriptor_));
    op_.reset();
    rows_.erase(rows_.begin());
    Make();
    const std::string text =
        Concat(device_->info().id, ": ", library, " does not compute the ", What(descriptor_), " ",
               descriptor_.name(), " (", why, "); ", op_->library(), " computes it instead");
    // One warning; what else the library refuses is worth a line for those who look.
    if (FirstOf(device_->info().id + " " + library)) {
      log::Warning(text);
    } else {
      log::Info(text);
    }
  }

 private:
  void Make() {
    if (last()) {
      op_ = rows_[0].make(device_, descriptor_);
    } else {
      try {
        op_ = rows_[0].make(device_, descriptor_);
      } catch (const OutOfMemory& error) {
        return Next(error.what(), false);
      } catch (const Error& error) {
        return Next(error.what());
      }
    }
    if (log::Topic("library")) {
      log::Info(Concat(device_->info().id, ": ", op_->library(), " computes the ",
                       What(descriptor_), " ", descriptor_.name()));
    }
  }

  Device* device_;
  const Descriptor descriptor_;
  std::vector<Row> rows_;  // the one in use, and those behind it
  std::unique_ptr<Op> op_;
};

using GemmRows = Rows<GemmOp, GemmDescriptor, GemmLibrary>;
using ConvRows = Rows<ConvOp, ConvDescriptor, ConvLibrary>;

// Calls `run` with the operator in use until one computes. Nothing but a virtual call is added to a
// call that works: an exception costs nothing before it is thrown.
template <class AnyRows, class Run> void Try(AnyRows& rows, bool adds, const Run& run) {
  for (;;) {
    try {
      return run(rows.op());
    } catch (const LibraryRefusal& refusal) {
      if (rows.last() || (adds && refusal.output_changed())) throw;
      rows.Next(refusal.what());
    }
  }
}

class FallbackGemmOp final : public GemmOp {
 public:
  FallbackGemmOp(const GemmDescriptor& d, GemmRows rows) : GemmOp(d), rows_(std::move(rows)) {}
  const char* library() const override { return rows_.op().library(); }
  int64_t workspace_bytes() const override { return rows_.op().workspace_bytes(); }

  void Run(DevicePtr a, DevicePtr b, DevicePtr c, DevicePtr bias, double alpha,
           double beta) override {
    Try(rows_, beta != 0, [&](GemmOp& op) { op.Run(a, b, c, bias, alpha, beta); });
  }
  void SetWeights(DevicePtr codes) override {
    weights_ = codes;
    rows_.op().SetWeights(codes);
  }
  void RunQuantized(DevicePtr x, DevicePtr y, const QuantArguments& arguments) override {
    const GemmOp* before = &rows_.op();
    Try(rows_, false, [&](GemmOp& op) {
      if (&op != before) op.SetWeights(weights_);
      before = &op;
      op.RunQuantized(x, y, arguments);
    });
  }

 private:
  GemmRows rows_;
  DevicePtr weights_;
};

class FallbackConvOp final : public ConvOp {
 public:
  FallbackConvOp(const ConvDescriptor& d, ConvRows rows) : ConvOp(d), rows_(std::move(rows)) {}
  const char* library() const override { return rows_.op().library(); }
  int64_t workspace_bytes() const override { return rows_.op().workspace_bytes(); }

  void Forward(DevicePtr x, DevicePtr weights, DevicePtr bias, DevicePtr y) override {
    Try(rows_, false, [&](ConvOp& op) { op.Forward(x, weights, bias, y); });
  }
  void BackwardData(DevicePtr y_diff, DevicePtr weights, DevicePtr x_diff) override {
    Try(rows_, false, [&](ConvOp& op) { op.BackwardData(y_diff, weights, x_diff); });
  }
  void BackwardWeights(DevicePtr x, DevicePtr y_diff, DevicePtr w_diff) override {
    Try(rows_, true, [&](ConvOp& op) { op.BackwardWeights(x, y_diff, w_diff); });
  }
  void BackwardBias(DevicePtr y_diff, DevicePtr b_diff) override {
    Try(rows_, true, [&](ConvOp& op) { op.BackwardBias(y_diff, b_diff); });
  }
  void SetWeights(DevicePtr codes) override {
    weights_ = codes;
    rows_.op().SetWeights(codes);
  }
  void ForwardQuantized(DevicePtr x, DevicePtr y, const QuantArguments& arguments) override {
    const ConvOp* before = &rows_.op();
    Try(rows_, false, [&](ConvOp& op) {
      if (&op != before) op.SetWeights(weights_);
      before = &op;
      op.ForwardQuantized(x, y, arguments);
    });
  }

 private:
  ConvRows rows_;
  DevicePtr weights_;
};

}  // namespace

std::unique_ptr<GemmOp> MakeWithFallback(Device* device, const GemmDescriptor& descriptor,
                                         std::vector<GemmLibrary> rows) {
  GemmRows all(device, descriptor, std::move(rows));
  if (all.last()) return all.Release();
  return std::make_unique<FallbackGemmOp>(descriptor, std::move(all));
}

std::unique_ptr<ConvOp> MakeWithFallback(Device* device, const ConvDescriptor& descriptor,
                                         std::vector<ConvLibrary> rows) {
  ConvRows all(device, descriptor, std::move(rows));
  if (all.last()) return all.Release();
  return std::make_unique<FallbackConvOp>(descriptor, std::move(all));
}

void ForgetRefusals(const std::string& library) {
  const std::lock_guard lock(All().mutex);
  All().keys.erase(library);
  std::erase_if(All().warned,
                [&](const std::string& text) { return text.ends_with(" " + library); });
}

}  // namespace caffe
