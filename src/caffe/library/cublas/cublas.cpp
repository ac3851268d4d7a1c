#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/process_mark.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"
#include "cublas_constants.hpp"

namespace caffe {
namespace {

using namespace cublas;
constexpr int64_t kWorkspaceBytes = 32 << 20;

using Handle = void*;

// cuBLAS, opened at run time.
struct Cublas {
  int (*Create)(Handle*);
  int (*Destroy)(Handle);
  int (*SetStream)(Handle, void* stream);
  int (*SetWorkspace)(Handle, void* workspace, size_t bytes);
  int (*SetMathMode)(Handle, int mode);
  const char* (*StatusName)(int);
  int (*Gemm)(Handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
              int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c,
              int type_c, int ldc, int compute, int algorithm);
  int (*GemmStridedBatched)(Handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                            const void* a, int type_a, int lda, long long batch_stride_a,
                            const void* b, int type_b, int ldb, long long batch_stride_b,
                            const void* beta, void* c, int type_c, int ldc,
                            long long batch_stride_c, int batch, int compute, int algorithm);

  void Check(int code, const char* call, Device* device) const {
    CAFFE_CHECK(code == 0, device->info().id, ": ", call, " failed: ", StatusName(code));
  }
  // Checks a product. All failures except these two are detected before anything is launched.
  void CheckProduct(int code, const char* call) const {
    if (code == 0) return;
    const bool launched = code == kExecutionFailed || code == kInternalError;
    throw LibraryRefusal(Concat(call, " failed: ", StatusName(code), " (", code, ")"), launched);
  }
};

// cuBLAS needs cuBLASLt, which the loader does not find in private folders.
void OpenLt() {
  std::string why;
  DynamicLibrary::Open(CudaLibraryPaths({"libcublasLt.so.13", "libcublasLt.so.12"}), &why);
}

std::optional<Cublas> Load() {
  std::string why;
  const std::vector<std::string> names{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  auto library = DynamicLibrary::Open(CudaLibraryPaths(names), &why);
  if (!library) {
    OpenLt();
    library = DynamicLibrary::Open(CudaLibraryPaths(names), &why);
  }
  if (!library) {
    log::Info("no cuBLAS (" + why + "): CUDA devices multiply with generated kernels");
    return std::nullopt;
  }
  Cublas c;
  const bool whole = library->Bind("cublasCreate_v2", &c.Create) &&
                     library->Bind("cublasDestroy_v2", &c.Destroy) &&
                     library->Bind("cublasSetStream_v2", &c.SetStream) &&
                     library->Bind("cublasSetWorkspace_v2", &c.SetWorkspace) &&
                     library->Bind("cublasSetMathMode", &c.SetMathMode) &&
                     library->Bind("cublasGetStatusName", &c.StatusName) &&
                     library->Bind("cublasGemmEx", &c.Gemm) &&
                     library->Bind("cublasGemmStridedBatchedEx", &c.GemmStridedBatched);
  if (!whole) {
    log::Warning(library->path() + " lacks functions of cuBLAS 11.4 and is not used");
    return std::nullopt;
  }
  return c;
}

// Null if cuBLAS is not available.
const Cublas* Find() {
  static const std::optional<Cublas> cublas = Load();
  return cublas ? &*cublas : nullptr;
}

// One handle per stream of a device, created at the stream's first product: threads with different
// streams neither wait for each other nor bind a handle again. Shared by the device's operators and
// destroyed with the last of them.
class Session {
 public:
  Session(Device* device, const Cublas& cublas) : device_(device), cublas_(cublas) {
    OfCurrentStream();  // creates the handle that is most likely used first
  }
  ~Session() {
    if (made_in_.inherited()) return;  // the driver does not work in a forked child
    device_->native_stream();
    for (const auto& stream : streams_) {
      if (!stream) continue;
      const int code = cublas_.Destroy(stream->handle);
      if (code != 0) log::Error(Concat("cublasDestroy failed: ", cublas_.StatusName(code)));
    }
  }

  // The session of a device.
  static std::shared_ptr<Session> Of(Device* device, const Cublas& cublas) {
    static std::mutex mutex;
    static auto* const sessions = new std::map<Device*, std::weak_ptr<Session>>;
    const std::lock_guard lock(mutex);
    auto session = (*sessions)[device].lock();
    if (!session) (*sessions)[device] = session = std::make_shared<Session>(device, cublas);
    return session;
  }

  // Calls `call` with the handle of the calling thread's stream. `workspace` has kWorkspaceBytes.
  template <class Call> void Use(DevicePtr workspace, const Call& call) {
    PerStream& own = OfCurrentStream();
    // Threads without a StreamScope share the default stream and its handle.
    const std::lock_guard lock(own.mutex);
    void* const stream = device_->native_stream();
    if (!own.bound || own.stream != stream || own.workspace != workspace.address()) {
      cublas_.Check(cublas_.SetStream(own.handle, stream), "cublasSetStream", device_);
      // Setting a stream resets the workspace.
      cublas_.Check(cublas_.SetWorkspace(own.handle, workspace.writable_address(), kWorkspaceBytes),
                    "cublasSetWorkspace", device_);
      own.bound = true;
      own.stream = stream;
      own.workspace = workspace.address();
    }
    call(own.handle);
  }

 private:
  struct PerStream {
    Handle handle = nullptr;
    bool bound = false;
    void *stream = nullptr, *workspace = nullptr;  // the stream and workspace of the handle
    std::mutex mutex;
  };

  PerStream& OfCurrentStream() {
    const int index = device_->current_stream()->index();
    const std::lock_guard lock(mutex_);
    std::unique_ptr<PerStream>& slot = streams_[index];
    if (!slot) {
      auto made = std::make_unique<PerStream>();
      device_->native_stream();
      cublas_.Check(cublas_.Create(&made->handle), "cublasCreate", device_);
      slot = std::move(made);
      cublas_.Check(cublas_.SetMathMode(slot->handle, kDefaultMath | kNoReducedPrecisionReduction),
                    "cublasSetMathMode", device_);
    }
    return *slot;
  }

  Device* device_;
  const ProcessMark made_in_;
  const Cublas& cublas_;
  std::mutex mutex_;
  std::array<std::unique_ptr<PerStream>, Device::kMostStreams + 1> streams_;  // by index
};

int RealType(DataType type) {
  if (type == kDouble) return kReal64;
  if (type == kHalf) return kReal16;
  return type == kBfloat16 ? kRealBfloat16 : kReal32;
}

// cuBLAS is column-major, so it computes the transpose: C^T = op(B)^T op(A)^T.
class CublasGemmOp final : public GemmOp {
 public:
  CublasGemmOp(Device* device, const GemmDescriptor& d, const Cublas& cublas)
      : GemmOp(d),
        device_(device),
        cublas_(cublas),
        session_(Session::Of(device, cublas)),
        epilogue_(device, d) {}
  const char* library() const override { return "cublas"; }
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }

 protected:
  void DoRun(const GemmArguments& g) override {
    const GemmDescriptor& d = descriptor_;
    CheckMemory(g);
    const DevicePtr a = g.a, b = g.b, c = g.c;
    const double alpha = g.alpha, beta = g.beta;
    const float alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
    const bool wide = d.in == kDouble;
    const void* factor = wide ? static_cast<const void*>(&alpha) : &alpha32;
    const void* keep = wide ? static_cast<const void*>(&beta) : &beta32;
    const int op_a = d.trans_a ? kTranspose : kNoTranspose;
    const int op_b = d.trans_b ? kTranspose : kNoTranspose;
    const int in = RealType(d.in), out = RealType(d.out), compute = wide ? kCompute64 : kCompute32;
    const int m = static_cast<int>(d.m), n = static_cast<int>(d.n), k = static_cast<int>(d.k);
    const int lda = static_cast<int>(d.row_a()), ldb = static_cast<int>(d.row_b());
    const int ldc = static_cast<int>(d.row_c());
    device_->NoteUse({a.ReadOnly(), b.ReadOnly(), c, g.workspace});
    session_->Use(g.workspace, [&](Handle handle) {
      if (d.batch == 1) {
        cublas_.CheckProduct(
            cublas_.Gemm(handle, op_b, op_a, n, m, k, factor, b.address(), in, ldb, a.address(), in,
                         lda, keep, c.address(), out, ldc, compute, kDefaultAlgorithm),
            "cublasGemmEx");
      } else {
        cublas_.CheckProduct(
            cublas_.GemmStridedBatched(handle, op_b, op_a, n, m, k, factor, b.address(), in, ldb,
                                       d.batch_stride_b(), a.address(), in, lda, d.batch_stride_a(),
                                       keep, c.address(), out, ldc, d.batch_stride_c(),
                                       static_cast<int>(d.batch), compute, kDefaultAlgorithm),
            "cublasGemmStridedBatchedEx");
      }
    });
    device_->CountLibraryCall();
    epilogue_.Run(g);
  }

 private:
  Device* device_;
  const Cublas& cublas_;
  std::shared_ptr<Session> session_;
  GemmEpilogue epilogue_;
};

}  // namespace

GemmLibrary CublasLibrary() {
  return {"cublas", &OnCuda,
          [](Device*, const GemmDescriptor& d) {
            return !d.quantized() && !d.in.is_custom() && d.k > 0 && d.batch <= INT32_MAX &&
                   Find() != nullptr;
          },
          [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
            return std::make_unique<CublasGemmOp>(device, d, *Find());
          }};
}

}  // namespace caffe
