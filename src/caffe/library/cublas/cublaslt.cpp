#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/process_mark.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_pass.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/gemm_epilogue.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/tuning_table.hpp"
#include "cublas_constants.hpp"

namespace caffe {
namespace {

using namespace cublas;

// Partial products are added in the type of the sums.
constexpr uint32_t kReductions = kReduceInPlace | kReduceInComputeType;

constexpr int64_t kWorkspaceBytes = 32 << 20;
constexpr uint32_t kAlignment = 16;
constexpr int kQuickAlgorithms = 8, kAllAlgorithms = 200;
constexpr double kQuickSeconds = 0.03;

using Handle = void*;

struct Algorithm {
  std::array<uint64_t, 8> data{};  // may be stored, for the same version of the library
};

struct Found {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

// cuBLASLt, opened at run time.
struct CublasLt {
  size_t (*Version)();
  int (*Create)(Handle*);
  int (*ProductCreate)(void** product, int compute, int scale);
  int (*ProductDestroy)(void*);
  int (*ProductSet)(void* product, int attribute, const void* value, size_t bytes);
  int (*LayoutCreate)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
  int (*LayoutDestroy)(void*);
  int (*LayoutSet)(void* layout, int attribute, const void* value, size_t bytes);
  int (*PreferenceCreate)(void**);
  int (*PreferenceDestroy)(void*);
  int (*PreferenceSet)(void* preference, int attribute, const void* value, size_t bytes);
  int (*Heuristic)(Handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                   int requested, Found* found, int* count);
  int (*Matmul)(Handle, void* product, const void* alpha, const void* a, void* layout_a,
                const void* b, void* layout_b, const void* beta, const void* c, void* layout_c,
                void* d, void* layout_d, const Algorithm* algorithm, void* workspace, size_t bytes,
                void* stream);

  // For calls that launch nothing.
  static void Check(int status, const char* call) {
    if (status != 0) throw LibraryRefusal(Concat(call, " failed with status ", status));
  }
};

std::optional<CublasLt> Load() {
  std::string why;
  const auto library =
      DynamicLibrary::Open(CudaLibraryPaths({"libcublasLt.so.13", "libcublasLt.so.12"}), &why);
  if (!library) {
    log::Info("no cuBLASLt (" + why + ")");
    return std::nullopt;
  }
  CublasLt c;
  const bool whole = library->Bind("cublasLtGetVersion", &c.Version) &&
                     library->Bind("cublasLtCreate", &c.Create) &&
                     library->Bind("cublasLtMatmulDescCreate", &c.ProductCreate) &&
                     library->Bind("cublasLtMatmulDescDestroy", &c.ProductDestroy) &&
                     library->Bind("cublasLtMatmulDescSetAttribute", &c.ProductSet) &&
                     library->Bind("cublasLtMatrixLayoutCreate", &c.LayoutCreate) &&
                     library->Bind("cublasLtMatrixLayoutDestroy", &c.LayoutDestroy) &&
                     library->Bind("cublasLtMatrixLayoutSetAttribute", &c.LayoutSet) &&
                     library->Bind("cublasLtMatmulPreferenceCreate", &c.PreferenceCreate) &&
                     library->Bind("cublasLtMatmulPreferenceDestroy", &c.PreferenceDestroy) &&
                     library->Bind("cublasLtMatmulPreferenceSetAttribute", &c.PreferenceSet) &&
                     library->Bind("cublasLtMatmulAlgoGetHeuristic", &c.Heuristic) &&
                     library->Bind("cublasLtMatmul", &c.Matmul);
  if (!whole) {
    log::Warning(library->path() + " lacks functions of cuBLASLt 12 and is not used");
    return std::nullopt;
  }
  return c;
}

// Null if cuBLASLt is not available.
const CublasLt* Find() {
  static const std::optional<CublasLt> library = Load();
  return library ? &*library : nullptr;
}

// The handle of a device, which all threads use at once. It lives as long as the process.
Handle HandleOf(Device* device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<Device*, Handle>;
  const std::lock_guard lock(mutex);
  Handle& handle = (*handles)[device];
  if (!handle) {
    device->native_stream();  // makes the context current
    CublasLt::Check(Find()->Create(&handle), "cublasLtCreate");
  }
  return handle;
}

// A descriptor of cuBLASLt, and the function that frees it.
class Object {
 public:
  Object() = default;
  explicit Object(int (*destroy)(void*)) : destroy_(destroy) {}
  ~Object() {
    if (object_) destroy_(object_);
  }
  Object(Object&& other) noexcept { *this = std::move(other); }
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  void** address() { return &object_; }
  void* get() const { return object_; }

 private:
  void* object_ = nullptr;
  int (*destroy_)(void*) = nullptr;
};

int RealType(DataType type) {
  return type == kHalf ? kReal16 : type == kBfloat16 ? kRealBfloat16 : kReal32;
}

// An array of row-major matrices [rows, columns]: its transpose in column-major order.
Object Layout(DataType type, int64_t rows, int64_t columns, int64_t row_stride, int64_t batch,
              int64_t batch_stride) {
  Object layout(Find()->LayoutDestroy);
  CublasLt::Check(Find()->LayoutCreate(layout.address(), RealType(type), columns, rows, row_stride),
                  "cublasLtMatrixLayoutCreate");
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    const auto set = [&](int attribute, const auto& value) {
      CublasLt::Check(Find()->LayoutSet(layout.get(), attribute, &value, sizeof(value)),
                      "cublasLtMatrixLayoutSetAttribute");
    };
    set(kLayoutBatch, count);
    set(kLayoutBatchStride, batch_stride);
  }
  return layout;
}

// How much of the epilogue the product includes; a pass computes the rest.
enum class Fusion { kNone, kBias, kAll };

const char* FusionName(Fusion fusion) {
  return fusion == Fusion::kAll ? "fused " : fusion == Fusion::kBias ? "fused bias " : "";
}

// The product computes C^T = op(B)^T op(A)^T in column-major order. A bias per column of C is one
// per row of C^T, which cuBLASLt adds; a bias per row of C is not.
bool CanFuseBias(const Epilogue& e) { return e.bias == Epilogue::Bias::kPerColumn; }

bool CanFuseAll(const Epilogue& e) {
  const bool relu = e.stages.size() == 1 && e.activation() == kPlainReLU;
  return (e.bias == Epilogue::Bias::kNone && relu) ||
         (CanFuseBias(e) && (e.stages.empty() || relu));
}

// The descriptors of a product with one fusion.
class Product {
 public:
  Product(const GemmDescriptor& d, Fusion fusion)
      : fusion_(fusion),
        product_(Find()->ProductDestroy),
        a_(d.trans_a ? Layout(d.in, d.k, d.m, d.row_a(), d.batch, d.batch_stride_a())
                     : Layout(d.in, d.m, d.k, d.row_a(), d.batch, d.batch_stride_a())),
        b_(d.trans_b ? Layout(d.in, d.n, d.k, d.row_b(), d.batch, d.batch_stride_b())
                     : Layout(d.in, d.k, d.n, d.row_b(), d.batch, d.batch_stride_b())),
        c_(Layout(d.out, d.m, d.n, d.row_c(), d.batch, d.batch_stride_c())) {
    CublasLt::Check(Find()->ProductCreate(product_.address(), kCompute32, kReal32),
                    "cublasLtMatmulDescCreate");
    Set(kProductTransA, static_cast<int32_t>(d.trans_b));
    Set(kProductTransB, static_cast<int32_t>(d.trans_a));
    if (fusion == Fusion::kNone) return;
    has_bias_ = d.epilogue.bias != Epilogue::Bias::kNone;
    const bool relu = fusion == Fusion::kAll && !d.epilogue.stages.empty();
    const uint32_t epilogue = (has_bias_ ? kEpilogueBias : 0) | (relu ? kEpilogueRelu : 0);
    Set(kProductEpilogue, epilogue);
    if (!has_bias_) return;
    Set(kProductBiasType, static_cast<int32_t>(kReal32));
    // The heuristics read the alignment of the address, and nothing else.
    bias_ = reinterpret_cast<const void*>(uintptr_t{256});
    Set(kProductBias, bias_);
  }
  Fusion fusion() const { return fusion_; }

  // Algorithms for operands that begin at multiples of `alignment` bytes, the best one first.
  std::vector<Found> Algorithms(Handle handle, uint32_t alignment, int most) const {
    Object preference(Find()->PreferenceDestroy);
    CublasLt::Check(Find()->PreferenceCreate(preference.address()),
                    "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](int attribute, const auto& value) {
      CublasLt::Check(Find()->PreferenceSet(preference.get(), attribute, &value, sizeof(value)),
                      "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(kPreferWorkspace, static_cast<uint64_t>(kWorkspaceBytes));
    prefer(kPreferReductions, kReductions);
    for (int i = kPreferAlignmentA; i <= kPreferAlignmentD; ++i) prefer(i, alignment);
    std::vector<Found> found(most);
    int count = 0;
    const int status = Find()->Heuristic(handle, product_.get(), b_.get(), a_.get(), c_.get(),
                                         c_.get(), preference.get(), most, found.data(), &count);
    found.resize(status == 0 ? count : 0);
    std::erase_if(found, [](const Found& f) { return f.status != 0; });
    return found;
  }

  void Run(Handle handle, void* stream, const Algorithm& algorithm, size_t workspace_bytes,
           const GemmArguments& g) {
    if (has_bias_ && g.bias.address() != bias_) {
      bias_ = g.bias.address();
      Set(kProductBias, bias_);
    }
    const float alpha = static_cast<float>(g.alpha), beta = static_cast<float>(g.beta);
    const int status = Find()->Matmul(
        handle, product_.get(), &alpha, g.b.address(), b_.get(), g.a.address(), a_.get(), &beta,
        g.c.address(), c_.get(), g.c.writable_address(), c_.get(), &algorithm,
        workspace_bytes ? g.workspace.address() : nullptr, workspace_bytes, stream);
    if (status == 0) return;
    const bool launched = status == kExecutionFailed || status == kInternalError;
    throw LibraryRefusal(Concat("cublasLtMatmul failed with status ", status), launched);
  }

 private:
  template <class Value> void Set(int attribute, const Value& value) {
    CublasLt::Check(Find()->ProductSet(product_.get(), attribute, &value, sizeof(value)),
                    "cublasLtMatmulDescSetAttribute");
  }

  const Fusion fusion_;
  Object product_, a_, b_, c_;
  bool has_bias_ = false;
  const void* bias_ = nullptr;
};

// An algorithm of one product.
struct Choice {
  Fusion fusion = Fusion::kNone;
  Algorithm algorithm;
  size_t workspace = 0;

  // "fused algorithm 9-0-… workspace 1024"
  std::string text() const {
    std::string text = Concat(FusionName(fusion), "algorithm ");
    char digits[20];
    for (size_t i = 0; i < algorithm.data.size(); ++i) {
      const auto end = std::to_chars(digits, digits + sizeof(digits), algorithm.data[i], 16).ptr;
      text += (i ? "-" : "") + std::string(digits, end);
    }
    return Concat(text, " workspace ", workspace);
  }

  static std::optional<Choice> Parse(std::string text) {
    Choice choice;
    for (const Fusion fusion : {Fusion::kBias, Fusion::kAll}) {
      const std::string name = FusionName(fusion);
      if (!text.starts_with(name)) continue;
      choice.fusion = fusion;
      text.erase(0, name.size());
      break;
    }
    const std::string head = "algorithm ", tail = " workspace ";
    if (!text.starts_with(head)) return std::nullopt;
    const char* at = text.data() + head.size();
    const char* const end = text.data() + text.size();
    for (size_t i = 0; i < choice.algorithm.data.size(); ++i) {
      if (i && (at == end || *at++ != '-')) return std::nullopt;
      const auto [rest, error] = std::from_chars(at, end, choice.algorithm.data[i], 16);
      if (error != std::errc()) return std::nullopt;
      at = rest;
    }
    if (!std::string_view(at, end - at).starts_with(tail)) return std::nullopt;
    const auto [rest, error] = std::from_chars(at + tail.size(), end, choice.workspace);
    if (error != std::errc() || rest != end || choice.workspace > kWorkspaceBytes) {
      return std::nullopt;
    }
    return choice;
  }
};

TunedOperation OperationOf(Device* device, const GemmDescriptor& d) {
  return {device,    "cublaslt", Concat(Find()->Version()),
          "product", d.key(),    d.in == d.out ? d.in.name() : d.in.name() + "/" + d.out.name()};
}

class CublasLtGemmOp final : public GemmOp {
 public:
  CublasLtGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), device_(device), handle_(HandleOf(device)), plain_(d, Fusion::kNone) {
    Choose();
    if (!any_ && !aligned_) throw LibraryRefusal("no algorithm of cuBLASLt computes " + d.name());
    const bool all = aligned_ && aligned_->fusion == Fusion::kAll;
    if (!all || any_) rest_[0] = Rest(Fusion::kNone);
    if (aligned_ && aligned_->fusion == Fusion::kBias) rest_[1] = Rest(Fusion::kBias);
  }
  const char* library() const override { return "cublaslt"; }
  int64_t workspace_bytes() const override {
    size_t bytes = 0;
    if (aligned_) bytes = aligned_->workspace;
    if (any_) bytes = std::max(bytes, any_->workspace);
    return static_cast<int64_t>(bytes);
  }

 protected:
  void DoRun(const GemmArguments& g) override {
    CheckMemory(g);
    const bool aligned = aligned_ && Aligned(g);
    if (!aligned && !any_) {
      throw LibraryRefusal("no algorithm of cuBLASLt for operands that are not aligned");
    }
    const Choice& choice = aligned ? *aligned_ : *any_;
    device_->NoteUse({g.a.ReadOnly(), g.b.ReadOnly(), g.c, g.workspace, g.bias.ReadOnly()});
    Compute(choice, g);
    device_->CountLibraryCall();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::string_view kUnaligned = "; unaligned ", kNone = "none";
  struct Candidate {
    Choice choice;
    double milliseconds;
  };

  uint32_t MinimumAlignment() const {
    return static_cast<uint32_t>(std::min(descriptor_.in.bytes(), descriptor_.out.bytes()));
  }

  bool Aligned(const GemmArguments& g) const {
    uintptr_t bits = 0;
    for (const DevicePtr& p : {g.a, g.b, g.c, g.bias}) {
      if (p) bits |= reinterpret_cast<uintptr_t>(p.address());
    }
    return bits % kAlignment == 0;
  }

  std::unique_ptr<GemmEpilogue> Rest(Fusion fusion) const {
    GemmDescriptor d = descriptor_;
    if (fusion == Fusion::kBias) d.epilogue.bias = Epilogue::Bias::kNone;
    return std::make_unique<GemmEpilogue>(device_, d);
  }

  Product& ProductOf(Fusion fusion) {
    if (fusion == Fusion::kNone) return plain_;
    if (!fused_ || fused_->fusion() != fusion) fused_.emplace(descriptor_, fusion);
    return *fused_;
  }

  // The product and what remains of the epilogue.
  void Compute(const Choice& choice, const GemmArguments& g) {
    ProductOf(choice.fusion)
        .Run(handle_, device_->native_stream(), choice.algorithm, choice.workspace, g);
    if (choice.fusion == Fusion::kAll) return;
    rest_[choice.fusion == Fusion::kBias]->Run(g);
  }

  // Sets aligned_ and any_, which have no value if there is no algorithm.
  void Choose() {
    const TunedOperation operation = OperationOf(device_, descriptor_);
    if (const auto row = FindTuned(operation); row && Read(row->configuration)) {
      ReportTuned(operation, *row, 0);
      return;
    }
    aligned_.reset();
    any_ = FindUnaligned();
    // One measurement at a time: two would disturb each other.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    try {
      Measure(operation);
    } catch (const OutOfMemory& error) {
      log::Info(Concat(device_->info().id, ": cublaslt measures nothing for ", operation.name(),
                       ": ", error.what()));
    }
    fused_.reset();
    rest_ = {};
  }

  std::optional<Choice> FindUnaligned() const {
    for (const Found& found : plain_.Algorithms(handle_, MinimumAlignment(), 1)) {
      return Choice{Fusion::kNone, found.algorithm, found.workspace};
    }
    return std::nullopt;
  }

  // "fused algorithm 9-0-… workspace 1024; unaligned algorithm 3-1-… workspace 0", or at the end
  // "unaligned none": a warm start asks no heuristics, which load many kernels.
  std::string Text() const {
    return Concat(aligned_->text(), kUnaligned, any_ ? any_->text() : std::string(kNone));
  }
  // Returns false if the text was written by another version and gives no algorithm.
  bool Read(const std::string& text) {
    const size_t end = text.find(kUnaligned);
    aligned_ = Choice::Parse(text.substr(0, end));
    if (!aligned_ || !Suits(aligned_->fusion)) return false;
    if (end == std::string::npos) {
      any_ = FindUnaligned();
      return true;
    }
    const std::string rest = text.substr(end + kUnaligned.size());
    any_ = Choice::Parse(rest);
    return any_ ? any_->fusion == Fusion::kNone : rest == kNone;
  }

  bool Suits(Fusion fusion) const {
    const Epilogue& e = descriptor_.epilogue;
    return fusion == Fusion::kNone || (fusion == Fusion::kBias ? CanFuseBias(e) : CanFuseAll(e));
  }

  void Measure(const TunedOperation& operation) {
    const GemmDescriptor& d = descriptor_;
    const bool exhaustive = TuningIsExhaustive();
    const auto begin = Clock::now();
    const auto array = [&](DataType type, int64_t rows, int64_t row, int64_t stride) {
      const int64_t elements = (d.batch - 1) * stride + rows * row;
      return DeviceArray(device_, elements * static_cast<int64_t>(type.bytes()),
                         "measuring products of cuBLASLt");
    };
    const DeviceArray a = array(d.in, d.trans_a ? d.k : d.m, d.row_a(), d.batch_stride_a());
    const DeviceArray b = array(d.in, d.trans_b ? d.n : d.k, d.row_b(), d.batch_stride_b());
    const DeviceArray c = array(d.out, d.m, d.row_c(), d.batch_stride_c());
    const DeviceArray vector = array(kFloat, 1, std::max(d.m, d.n), 0);
    const DeviceArray workspace(device_, kWorkspaceBytes, "measuring products of cuBLASLt");
    DeviceArray residual;
    if (d.epilogue.sum()) residual = array(d.out, d.m, d.row_c(), d.batch_stride_c());
    const auto fill = [&](const DeviceArray& filled) {
      if (filled.get()) device_->Fill(filled.get(), 0x3c, filled.bytes());
    };
    fill(a);
    fill(b);
    fill(c);
    fill(vector);
    fill(residual);
    GemmArguments g{a.get(), b.get(), c.get()};
    if (d.epilogue.bias != Epilogue::Bias::kNone) g.bias = vector.get();
    g.epilogue = {residual.get(), vector.get()};
    g.workspace = workspace.get();

    std::vector<Candidate> candidates;
    double best = std::numeric_limits<double>::infinity();
    for (const Fusion fusion : {Fusion::kAll, Fusion::kBias, Fusion::kNone}) {
      if (!Suits(fusion)) continue;
      if (fusion == Fusion::kBias && CanFuseAll(d.epilogue) && !candidates.empty()) continue;
      if (fusion != Fusion::kAll) rest_[fusion == Fusion::kBias] = Rest(fusion);
      const int most = exhaustive ? kAllAlgorithms : kQuickAlgorithms;
      std::vector<Found> algorithms;
      try {
        algorithms = ProductOf(fusion).Algorithms(handle_, kAlignment, most);
      } catch (const LibraryRefusal&) {
        continue;  // this epilogue is not known for these types
      }
      for (const Found& found : algorithms) {
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (!exhaustive && !candidates.empty() && seconds > kQuickSeconds) break;
        const Choice choice{fusion, found.algorithm, found.workspace};
        try {
          const double time = MeasureMilliseconds(
              device_, [&] { Compute(choice, g); }, best);
          best = std::min(best, time);
          candidates.push_back({choice, time});
        } catch (const LibraryRefusal&) {
          // Another algorithm computes it.
        }
      }
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const auto& x, const auto& y) { return x.milliseconds < y.milliseconds; });
    for (const Candidate& candidate : candidates) {
      if (candidate.choice.fusion == Fusion::kAll && !KeepsNan(candidate.choice, a, g)) continue;
      aligned_ = candidate.choice;
      StoreTuned(operation, {exhaustive, candidate.milliseconds, Text()},
                 static_cast<int>(candidates.size()));
      return;
    }
  }

  // Whether NaN in A is NaN in C: ReLU may lose it.
  bool KeepsNan(const Choice& choice, const DeviceArray& a, const GemmArguments& g) {
    if (descriptor_.epilogue.stages.empty()) return true;
    device_->Fill(a.get(), 0xff, a.bytes());
    try {
      Compute(choice, g);
    } catch (const LibraryRefusal&) {
      return false;
    }
    std::array<char, 8> bytes{};
    double value = 0;
    device_->Download(bytes.data(), g.c, descriptor_.out.bytes());
    ConvertElements(descriptor_.out, bytes.data(), kDouble, &value, 1);
    return std::isnan(value);
  }

  Device* device_;
  const Handle handle_;
  Product plain_;
  std::optional<Product> fused_;
  std::optional<Choice> aligned_, any_;  // for aligned operands, and for all
  // The passes for what remains of the epilogue: all of it, and all but the bias.
  std::array<std::unique_ptr<GemmEpilogue>, 2> rest_;
};

}  // namespace

GemmLibrary CublasLtLibrary() {
  GemmLibrary row;
  row.name = "cublaslt";
  row.place = &OnCuda;
  row.supports = [](Device*, const GemmDescriptor& d) {
    return !d.quantized() && d.in != kDouble && !d.in.is_custom() && d.k > 0 &&
           d.batch <= INT32_MAX && Find() != nullptr;
  };
  row.make = [](Device* device, const GemmDescriptor& d) -> std::unique_ptr<GemmOp> {
    return std::make_unique<CublasLtGemmOp>(device, d);
  };
  row.compared = true;
  return row;
}

}  // namespace caffe
