#include <clblast.h>

#include <array>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

cl_mem Memory(DevicePtr pointer) { return static_cast<cl_mem>(pointer.handle); }

// CLBlast writes C in its last launch: what fails before has not changed it.
void CheckCall(clblast::StatusCode code, const char* call) {
  if (code == clblast::StatusCode::kSuccess) return;
  throw LibraryRefusal(Concat("CLBlast's ", call, " failed with code ", static_cast<int>(code)));
}

// CLBlast, float and double. Its buffer for copies is allocated here once; for batches CLBlast may
// allocate one by itself.
template <class T> class ClBlastGemmOp final : public GemmOp {
 public:
  ClBlastGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), epilogue_(device, d) {
    if (d.batch == 1) MakeRoom(0, 0, 0);
  }
  const char* library() const override { return "clblast"; }
  int64_t workspace_bytes() const override { return workspace_.bytes(); }

  void Run(DevicePtr a, DevicePtr b, DevicePtr c, DevicePtr bias, double alpha,
           double beta) override {
    const GemmDescriptor& d = descriptor_;
    auto queue = static_cast<cl_command_queue>(device_->native_stream());
    const size_t a0 = a.offset / sizeof(T), b0 = b.offset / sizeof(T), c0 = c.offset / sizeof(T);
    if (d.batch == 1) {
      // A matrix that does not begin where its buffer does is copied, even if its shape would do.
      if (a0 + b0 + c0 > 0) MakeRoom(a0, b0, c0);
      CheckCall(clblast::Gemm<T>(clblast::Layout::kRowMajor, Op(d.trans_a), Op(d.trans_b), d.m, d.n,
                                 d.k, static_cast<T>(alpha), Memory(a), a0, d.row_a(), Memory(b),
                                 b0, d.row_b(), static_cast<T>(beta), Memory(c), c0, d.row_c(),
                                 &queue, nullptr, Memory(workspace_.get())),
                "Gemm");
    } else {
      CheckCall(clblast::GemmStridedBatched<T>(
                    clblast::Layout::kRowMajor, Op(d.trans_a), Op(d.trans_b), d.m, d.n, d.k,
                    static_cast<T>(alpha), Memory(a), a0, d.row_a(), d.step_a(), Memory(b), b0,
                    d.row_b(), d.step_b(), static_cast<T>(beta), Memory(c), c0, d.row_c(),
                    d.step_c(), d.batch, &queue, nullptr),
                "GemmStridedBatched");
    }
    device_->CountLibraryCall();
    epilogue_.Run(c, bias);
  }

 private:
  // Allocates at the first call for matrices at other offsets, if at all.
  void MakeRoom(size_t a0, size_t b0, size_t c0) {
    const Offsets offsets{a0 > 0, b0 > 0, c0 > 0};
    if (offsets == offsets_) return;
    const GemmDescriptor& d = descriptor_;
    auto queue = static_cast<cl_command_queue>(device_->native_stream());
    size_t bytes = 0;
    CheckCall(clblast::GemmTempBufferSize<T>(clblast::Layout::kRowMajor, Op(d.trans_a),
                                             Op(d.trans_b), d.m, d.n, d.k, a0, d.row_a(), b0,
                                             d.row_b(), c0, d.row_c(), &queue, bytes),
              "GemmTempBufferSize");
    if (static_cast<int64_t>(bytes) > workspace_.bytes()) {
      workspace_ = DeviceArray(device_, static_cast<int64_t>(bytes), "CLBlast's copies");
    }
    offsets_ = offsets;
  }

  static clblast::Transpose Op(bool transposed) {
    return transposed ? clblast::Transpose::kYes : clblast::Transpose::kNo;
  }

  Device* device_;
  GemmEpilogue epilogue_;
  using Offsets = std::array<bool, 3>;  // which of A, B and C begin behind the start of a buffer
  std::optional<Offsets> offsets_;      // what there is room for
  DeviceArray workspace_;
};

}  // namespace

GemmLibrary ClBlastLibrary() {
  return {"clblast",
          [](Device* device, const GemmDescriptor& d) {
            // Its double kernels keep a processor's compiler busy for half a minute.
            const bool doubles = device->info().fp64 && !device->info().is_cpu_type;
            return device->backend() == Backend::kOpenCl && d.in == d.out && d.k > 0 &&
                   (d.in == kFloat || (d.in == kDouble && doubles));
          },
          [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
            if (d.in == kDouble) return std::make_unique<ClBlastGemmOp<double>>(device, d);
            return std::make_unique<ClBlastGemmOp<float>>(device, d);
          }};
}

}  // namespace caffe
