#include <clblast.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <type_traits>

#include "caffe/core/error.hpp"
#include "caffe/core/numeric.hpp"
#include "caffe/device/device.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

cl_mem Memory(DevicePtr pointer) { return static_cast<cl_mem>(pointer.handle); }

struct ReleaseMemory {
  void operator()(cl_mem memory) const { clReleaseMemObject(memory); }
};
using OwnMemory = std::unique_ptr<std::remove_pointer_t<cl_mem>, ReleaseMemory>;

// A buffer for the bytes from `pointer` on; null if buffers of this device cannot begin there. What
// is enqueued keeps it alive.
OwnMemory BufferFrom(DevicePtr pointer, int64_t bytes) {
  const cl_buffer_region region{static_cast<size_t>(pointer.offset), static_cast<size_t>(bytes)};
  cl_int status = CL_SUCCESS;
  const cl_mem memory = clCreateSubBuffer(Memory(pointer), CL_MEM_READ_WRITE,
                                          CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  return OwnMemory(status == CL_SUCCESS ? memory : nullptr);
}

// CLBlast writes C in its last launch: an earlier failure has not changed it.
void CheckCall(clblast::StatusCode code, const char* call) {
  if (code == clblast::StatusCode::kSuccess) return;
  throw LibraryRefusal(Concat("CLBlast's ", call, " failed with code ", static_cast<int>(code)));
}

template <class T> T Scalar(double value) { return static_cast<T>(value); }
template <> cl_half Scalar(double value) { return FloatToHalfBits(static_cast<float>(value)); }

// CLBlast, float, double and half. Its buffer for copies is the workspace, which it takes as a
// buffer of its own. It needs more for matrices that do not begin at the start of their buffer;
// only the call has these offsets, so the operator holds that buffer. For batches CLBlast may
// allocate one itself.
template <class T> class ClBlastGemmOp final : public GemmOp {
 public:
  ClBlastGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), epilogue_(device, d) {
    if (d.batch == 1) bytes_ = Room(0, 0, 0);
  }
  const char* library() const override {
    return descriptor_.in == kHalf ? "clblast_half" : "clblast";
  }
  int64_t workspace_bytes() const override { return bytes_; }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    const DevicePtr a = g.a, b = g.b, c = g.c;
    const double alpha = g.alpha, beta = g.beta;
    auto queue = static_cast<cl_command_queue>(device_->native_stream());
    device_->NoteUse({a.ReadOnly(), b.ReadOnly(), c});
    const size_t a0 = a.offset / sizeof(T), b0 = b.offset / sizeof(T), c0 = c.offset / sizeof(T);
    if (d.batch == 1) {
      // A matrix that does not begin at the start of its buffer is copied even if its shape needs
      // no copy.
      DevicePtr copies = a0 + b0 + c0 > 0 ? MakeRoom(a0, b0, c0, g.workspace) : g.workspace;
      const OwnMemory part = copies.offset > 0 ? BufferFrom(copies, bytes_) : nullptr;
      if (copies.offset > 0 && !part) copies = OwnRoom(bytes_);
      device_->NoteUse({copies});
      CheckCall(clblast::Gemm<T>(clblast::Layout::kRowMajor, Op(d.trans_a), Op(d.trans_b), d.m, d.n,
                                 d.k, Scalar<T>(alpha), Memory(a), a0, d.row_a(), Memory(b), b0,
                                 d.row_b(), Scalar<T>(beta), Memory(c), c0, d.row_c(), &queue,
                                 nullptr, part ? part.get() : Memory(copies)),
                "Gemm");
    } else {
      CheckCall(clblast::GemmStridedBatched<T>(
                    clblast::Layout::kRowMajor, Op(d.trans_a), Op(d.trans_b), d.m, d.n, d.k,
                    Scalar<T>(alpha), Memory(a), a0, d.row_a(), d.batch_stride_a(), Memory(b), b0,
                    d.row_b(), d.batch_stride_b(), Scalar<T>(beta), Memory(c), c0, d.row_c(),
                    d.batch_stride_c(), d.batch, &queue, nullptr),
                "GemmStridedBatched");
    }
    device_->CountLibraryCall();
    epilogue_.Run(g);
  }

 private:
  // Bytes needed for copies.
  int64_t Room(size_t a0, size_t b0, size_t c0) const {
    const GemmDescriptor& d = descriptor_;
    auto queue = static_cast<cl_command_queue>(device_->native_stream());
    size_t bytes = 0;
    CheckCall(clblast::GemmTempBufferSize<T>(clblast::Layout::kRowMajor, Op(d.trans_a),
                                             Op(d.trans_b), d.m, d.n, d.k, a0, d.row_a(), b0,
                                             d.row_b(), c0, d.row_c(), &queue, bytes),
              "GemmTempBufferSize");
    return static_cast<int64_t>(bytes);
  }

  // A buffer for copies of matrices at these offsets. Allocates, if at all, at the first call.
  DevicePtr MakeRoom(size_t a0, size_t b0, size_t c0, DevicePtr workspace) {
    const Offsets offsets{a0 > 0, b0 > 0, c0 > 0};
    if (offsets_ != offsets) {
      needed_ = Room(a0, b0, c0);
      offsets_ = offsets;
    }
    return needed_ > bytes_ ? OwnRoom(needed_) : workspace;
  }

  // At least `bytes` bytes.
  DevicePtr OwnRoom(int64_t bytes) {
    if (bytes > own_.bytes()) own_ = DeviceArray(device_, bytes, "CLBlast's copies");
    return own_.get();
  }

  static clblast::Transpose Op(bool transposed) {
    return transposed ? clblast::Transpose::kYes : clblast::Transpose::kNo;
  }

  Device* device_;
  GemmEpilogue epilogue_;
  int64_t bytes_ = 0;                   // of workspace
  using Offsets = std::array<bool, 3>;  // which of A, B and C do not begin at the start of a buffer
  std::optional<Offsets> offsets_;      // the offsets for which needed_ was computed
  int64_t needed_ = 0;
  DeviceArray own_;
};

}  // namespace

namespace {

// Its smallest groups have 8 x 8 items.
bool HasItems(Device* device) { return device->info().max_group_size >= 64; }

}  // namespace

GemmLibrary ClBlastLibrary() {
  GemmLibrary row{
      "clblast", &OnOpenCl,
      [](Device* device, const GemmDescriptor& d) {
        // CLBlast's double kernels take half a minute to compile for a processor.
        const bool doubles = device->info().fp64 && !device->info().is_cpu_type;
        return HasItems(device) && d.in == d.out && d.k > 0 &&
               (d.in == kFloat || (d.in == kDouble && doubles));
      },
      [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
        if (d.in == kDouble) return std::make_unique<ClBlastGemmOp<double>>(device, d);
        return std::make_unique<ClBlastGemmOp<float>>(device, d);
      },
      // On processors CLBlast is no faster and takes 10 s and more to compile. For batches it
      // copies matrices to memory that it allocates each time (10 to 50 % slower on an H200).
      [](Device* device, const GemmDescriptor& d) {
        return !device->info().is_cpu_type && d.batch == 1;
      }};
  row.compared_opencl = true;
  return row;
}

GemmLibrary ClBlastHalfLibrary() {
  return {"clblast_half", &OnOpenCl,
          [](Device* device, const GemmDescriptor& d) {
            return HasItems(device) && device->info().native_half && d.in == kHalf &&
                   d.out == kHalf && d.k > 0;
          },
          [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
            return std::make_unique<ClBlastGemmOp<cl_half>>(device, d);
          },
          [](Device*, const GemmDescriptor&) { return false; }};
}

}  // namespace caffe
