#include "caffe/library/fallback.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/device_array.hpp"

namespace caffe {
namespace {

const char* What(const GemmDescriptor&) { return "matrix product"; }
const char* What(const ConvDescriptor&) { return "convolution"; }
const char* What(const PoolDescriptor&) { return "pooling"; }

template <class Descriptor> std::string Key(Device* device, const Descriptor& d) {
  return Concat(device->info().id, " ", What(d), " ", d.key());
}

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

// The rows of the library table that support one descriptor, from the current row on, and the
// operator of the current row.
template <class Descriptor, class Op> class LibraryRows {
 public:
  using Row = Library<Descriptor, Op>;
  LibraryRows(Device* device, const Descriptor& descriptor, std::vector<Row> rows)
      : device_(device), descriptor_(descriptor), rows_(std::move(rows)) {
    const std::string key = Key(device, descriptor);
    while (rows_.size() > 1 && Refused(rows_[0].name, key)) rows_.erase(rows_.begin());
    Make();
  }
  Op& op() const { return *op_; }
  bool last() const { return rows_.size() == 1; }
  std::unique_ptr<Op> Release() { return std::move(op_); }

  // Called when the current row failed.
  void Next(const std::string& why, bool remember = true) {
    const std::string library = rows_[0].name;
    if (remember) Remember(library, Key(device_, descriptor_));
    op_.reset();
    rows_.erase(rows_.begin());
    Make();
    const std::string text =
        Concat(device_->info().id, ": ", library, " does not compute the ", What(descriptor_), " ",
               descriptor_.name(), " (", why, "); ", op_->library(), " computes it instead");
    // One warning per library; further refusals are logged at level info.
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
  std::vector<Row> rows_;  // the current one and the later ones
  std::unique_ptr<Op> op_;
};

// The caller provides workspace and prepared weights for the row that was current before the call.
// After a switch to the next row this class provides them: workspace, if the next row needs more,
// from then on, and prepared weights until Prepare is called again.
class Memory {
 public:
  explicit Memory(Device* device) : device_(device) {}
  // The operator before the first call.
  void Begin(const Operator& op) { given_ = op.workspace_bytes(); }
  int64_t given() const { return given_; }
  void Switch(const Operator& op) {
    if (op.workspace_bytes() > std::max(given_, own_.bytes())) {
      own_ = DeviceArray(device_, op.workspace_bytes(), "workspace of a library that took over");
    }
    weights_ = DeviceArray(device_, op.prepared_bytes(), "weights of a library that took over");
    switched_ = true;
  }
  void Prepared() {
    switched_ = false;
    weights_ = DeviceArray();
  }
  DevicePtr Workspace(DevicePtr given) const { return own_.get() ? own_.get() : given; }
  DevicePtr Weights(Operator* op, DevicePtr weights, DevicePtr prepared) const {
    if (!switched_ || !weights_.get()) return prepared;
    op->Prepare(weights, weights_.get());
    return weights_.get();
  }

 private:
  Device* device_;
  int64_t given_ = 0;
  bool switched_ = false;
  DeviceArray own_, weights_;
};

// The base of the operators that fall back to other libraries; their functions call Try.
template <class Descriptor, class Op> class FallbackBase : public Op {
 public:
  FallbackBase(Device* device, const Descriptor& d, LibraryRows<Descriptor, Op> rows)
      : Op(d), rows_(std::move(rows)), memory_(device) {
    memory_.Begin(rows_.op());
  }
  const char* library() const override { return rows_.op().library(); }
  int64_t workspace_bytes() const override { return memory_.given(); }
  int64_t prepared_bytes() const override { return rows_.op().prepared_bytes(); }
  std::string prepared_form() const override { return rows_.op().prepared_form(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    rows_.op().Prepare(weights, prepared);
    memory_.Prepared();
  }

 protected:
  // Calls `run` with the current operator and its arguments until an operator succeeds. A call that
  // succeeds at once costs only a virtual call and a copy of the arguments more, because exceptions
  // cost nothing unless they are thrown. `adds`: the call adds to its output.
  template <class Arguments, class Run>
  void Try(bool adds, const Arguments& arguments, const Run& run) {
    for (;;) {
      try {
        return run(rows_.op(), Given(&rows_.op(), arguments));
      } catch (const LibraryRefusal& refusal) {
        if (rows_.last() || (adds && refusal.output_changed())) throw;
        rows_.Next(refusal.what());
        memory_.Switch(rows_.op());
        if constexpr (requires { arguments.prepared; }) {
          // The caller freed the weights from which the others were prepared.
          CAFFE_CHECK(!arguments.prepared || WeightsOf(this->descriptor_, arguments),
                      refusal.what(), "; ", rows_.op().library(),
                      " takes over when the weights are prepared again: run forward again");
        }
      }
    }
  }

 private:
  template <class Arguments> Arguments Given(Op* op, const Arguments& arguments) const {
    Arguments given = arguments;
    given.workspace = memory_.Workspace(arguments.workspace);
    if constexpr (requires { given.prepared; }) {
      const DevicePtr weights = WeightsOf(this->descriptor_, arguments);
      if (weights) given.prepared = memory_.Weights(op, weights, arguments.prepared);
    }
    return given;
  }
  static DevicePtr WeightsOf(const GemmDescriptor& d, const GemmArguments& a) {
    using Weights = GemmDescriptor::Weights;
    return d.weights() == Weights::kA ? a.a : d.weights() == Weights::kB ? a.b : DevicePtr{};
  }
  static DevicePtr WeightsOf(const ConvDescriptor&, const auto& arguments) {
    return arguments.weights;
  }

  LibraryRows<Descriptor, Op> rows_;
  Memory memory_;
};

class FallbackGemmOp final : public FallbackBase<GemmDescriptor, GemmOp> {
 public:
  using FallbackBase::FallbackBase;

 protected:
  void DoRun(const GemmArguments& arguments) override {
    Try(arguments.beta != 0, arguments, [](GemmOp& op, const auto& given) { op.Run(given); });
  }
};

class FallbackConvOp final : public FallbackBase<ConvDescriptor, ConvOp> {
 public:
  using FallbackBase::FallbackBase;

 protected:
  void DoForward(const ConvArguments& arguments) override {
    Try(false, arguments, [](ConvOp& op, const auto& given) { op.Forward(given); });
  }
  void DoBackwardData(const ConvGradients& gradients) override {
    Try(false, gradients, [](ConvOp& op, const auto& given) { op.BackwardData(given); });
  }
  void DoBackwardWeights(const ConvGradients& gradients) override {
    Try(true, gradients, [](ConvOp& op, const auto& given) { op.BackwardWeights(given); });
  }
  void DoBackwardBias(const ConvGradients& gradients) override {
    Try(true, gradients, [](ConvOp& op, const auto& given) { op.BackwardBias(given); });
  }
};

class FallbackPoolOp final : public FallbackBase<PoolDescriptor, PoolOp> {
 public:
  using FallbackBase::FallbackBase;

 protected:
  void DoForward(const PoolArguments& arguments) override {
    Try(false, arguments, [](PoolOp& op, const auto& given) { op.Forward(given); });
  }
  void DoBackward(const PoolArguments& arguments) override {
    Try(false, arguments, [](PoolOp& op, const auto& given) { op.Backward(given); });
  }
};

template <class Fallback, class Descriptor, class Op>
std::unique_ptr<Op> MakeFallback(Device* device, const Descriptor& descriptor,
                                 std::vector<Library<Descriptor, Op>> rows) {
  LibraryRows<Descriptor, Op> all(device, descriptor, std::move(rows));
  if (all.last()) return all.Release();
  return std::make_unique<Fallback>(device, descriptor, std::move(all));
}

}  // namespace

std::unique_ptr<GemmOp> MakeWithFallback(Device* device, const GemmDescriptor& descriptor,
                                         std::vector<GemmLibrary> rows) {
  return MakeFallback<FallbackGemmOp>(device, descriptor, std::move(rows));
}

std::unique_ptr<ConvOp> MakeWithFallback(Device* device, const ConvDescriptor& descriptor,
                                         std::vector<ConvLibrary> rows) {
  return MakeFallback<FallbackConvOp>(device, descriptor, std::move(rows));
}

std::unique_ptr<PoolOp> MakeWithFallback(Device* device, const PoolDescriptor& descriptor,
                                         std::vector<PoolLibrary> rows) {
  return MakeFallback<FallbackPoolOp>(device, descriptor, std::move(rows));
}

void ForgetRefusals(const std::string& library) {
  const std::lock_guard lock(All().mutex);
  All().keys.erase(library);
  std::erase_if(All().warned,
                [&](const std::string& text) { return text.ends_with(" " + library); });
}

}  // namespace caffe
