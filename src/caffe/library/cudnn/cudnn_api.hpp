#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/device.hpp"

namespace caffe::cudnn {

using Handle = void*;

// The enumerators of cudnn_graph.h that are used here: no header of cuDNN is needed to build.
// tests/library/vendor_constants_test.cpp compares them.
namespace descriptor {
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kHeuristics = 4;
constexpr int kPlan = 5, kKnobChoice = 7, kConvolutionForward = 10, kConvolutionBackwardFilter = 11;
constexpr int kConvolutionBackwardData = 12, kPointwiseOperation = 13, kOperationGraph = 15;
constexpr int kVariantPack = 16, kTensor = 17, kDeviceProperties = 38;
}  // namespace descriptor

namespace type {
constexpr int kHandle = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kDouble = 5;
constexpr int kPointer = 6, kConvolutionMode = 7, kHeuristicMode = 8, kKnobType = 9;
constexpr int kNanPropagation = 10, kNumericalNote = 11, kPointwiseMode = 14, kDescriptor = 15;
constexpr int kBehaviorNote = 19, kChar = 24;
}  // namespace type

namespace attribute {
constexpr int kPointwiseMode = 0, kPointwisePrecision = 1, kPointwiseNan = 2, kReluLower = 3;
constexpr int kReluUpper = 4, kReluSlope = 5, kEluAlpha = 6, kSwishBeta = 8;
constexpr int kConvType = 100, kConvMode = 101, kConvDilations = 102, kConvStrides = 103;
constexpr int kConvPostPads = 104, kConvPrePads = 105, kConvAxes = 106;
constexpr int kHeuristicMode = 200, kHeuristicGraph = 201, kHeuristicResults = 202;
constexpr int kHeuristicDevice = 204;
constexpr int kConfigEngine = 300, kConfigKnobs = 302;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402, kPlanDevice = 407;
constexpr int kKnobType = 600, kKnobValue = 601;
constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConv = 702, kForwardW = 703;
constexpr int kForwardX = 704, kForwardY = 705;
constexpr int kDataAlpha = 706, kDataBeta = 707, kDataConv = 708, kDataW = 709, kDataDx = 710;
constexpr int kDataDy = 711;
constexpr int kFilterAlpha = 712, kFilterBeta = 713, kFilterConv = 714, kFilterDw = 715;
constexpr int kFilterX = 716, kFilterDy = 717;
constexpr int kPointwise = 750, kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753;
constexpr int kPointwiseAlpha2 = 755;
constexpr int kGraphHandle = 800, kGraphOperations = 801, kGraphEngines = 802;
constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorShape = 902, kTensorStrides = 903;
constexpr int kTensorId = 906, kTensorVirtual = 907;
constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
constexpr int kEngineGraph = 1300, kEngineIndex = 1301, kEngineNotes = 1303;
constexpr int kEngineBehavior = 1305, kEngineDevice = 1307;
constexpr int kDeviceJson = 2702;
}  // namespace attribute

constexpr int kCrossCorrelation = 1, kPropagateNan = 1, kKnobTypes = 44;
constexpr int kHeuristicsA = 3, kHeuristicsB = 1, kHeuristicsFallback = 2;

enum class PointwiseMode {
  kAdd = 0,
  kIdentity = 21,
  kRelu = 100,
  kTanh = 101,
  kSigmoid = 102,
  kElu = 103,
  kSwish = 106
};

enum class Note {
  kTensorCore,
  kDownConvertInputs,
  kReducedPrecisionReduction,
  kFft,
  kNonDeterministic,
  kWinograd,
  kWinograd4x4,
  kWinograd6x6,
  kWinograd13x13,
  kStrictNan,
  kCount
};
constexpr int kCompiledAtRunTime = 0, kBehaviorNotes = 5;

// cuDNN 9, opened at run time.
struct Api {
  size_t (*Version)();
  const char* (*ErrorString)(int status);
  void (*LastError)(char* message, size_t size);
  int (*Create)(Handle*);
  int (*Destroy)(Handle);
  int (*SetStream)(Handle, void* stream);
  int (*CreateDescriptor)(int type, void** descriptor);
  int (*DestroyDescriptor)(void* descriptor);
  int (*Finalize)(void* descriptor);
  int (*SetAttribute)(void* descriptor, int name, int type, int64_t count, const void* values);
  int (*GetAttribute)(void* descriptor, int name, int type, int64_t capacity, int64_t* count,
                      void* values);
  int (*Execute)(Handle, void* plan, void* variant_pack);

  // Throws LibraryRefusal, which names the call.
  void Check(int status, const char* call) const;
};

// Null if cuDNN is not available.
const Api* Find();

// A descriptor of cuDNN. All calls throw LibraryRefusal.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(made_in_, other.made_in_);
    return *this;
  }

  void* get() const { return descriptor_; }
  void Set(int name, int type, int64_t count, const void* values);
  void SetEnum(int name, int type, int value) { Set(name, type, 1, &value); }
  void SetIntegers(int name, const std::vector<int64_t>& values);
  void SetInteger(int name, int64_t value) { Set(name, type::kInt64, 1, &value); }
  void SetFlag(int name, bool value) { Set(name, type::kBoolean, 1, &value); }
  void SetFloat(int name, float value) { Set(name, type::kFloat, 1, &value); }
  void SetDouble(int name, double value) { Set(name, type::kDouble, 1, &value); }
  void SetDescriptor(int name, const Descriptor& value);
  void SetDescriptors(int name, const std::vector<void*>& values);
  // Makes it usable. False if cuDNN does not support what it describes.
  bool TryFinalize();
  void Finalize();

  int64_t Integer(int name) const;
  std::vector<int> Enums(int name, int type, int capacity) const;
  // Fills descriptors that exist already; returns their number.
  int64_t Fill(int name, std::vector<Descriptor>* descriptors) const;
  // The number of descriptors in the attribute.
  int64_t Count(int name) const;

 private:
  void* descriptor_ = nullptr;
  ProcessMark made_in_;
};

// One handle per stream of a device, created when it is first needed. A handle takes long to
// create, so that it lives as long as the process.
class Session {
 public:
  static Session* Of(Device* device);

  // Enqueues the plan on the stream of the calling thread.
  void Execute(const Descriptor& plan, const Descriptor& pack);
  // The handle of the stream of the calling thread.
  Handle Current();

 private:
  struct PerStream {
    Handle handle = nullptr;
    void* stream = nullptr;
    bool bound = false;
    std::mutex mutex;
  };
  explicit Session(Device* device) : device_(device) {}
  PerStream& OfCurrentStream();

  Device* device_;
  std::mutex mutex_;
  std::array<std::unique_ptr<PerStream>, Device::kMostStreams + 1> streams_;  // by index
};

}  // namespace caffe::cudnn
