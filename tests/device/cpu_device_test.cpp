#include "caffe/device/cpu/cpu_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/element_function.hpp"
#include "support/kernel_texts.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

class LevelGuard {
 public:
  ~LevelGuard() { SetHostLevel(level_); }

 private:
  std::string level_ = HostLevel();
};

// Every integer argument is kExtent, so that arrays of kExtent^3 elements are large enough for any
// kernel that indexes by three of them; it is not a multiple of any vector length.
constexpr int64_t kExtent = 37;
constexpr int64_t kElements = kExtent * kExtent * kExtent;

std::string Word(const std::string& declared, const TypeTriple& types) {
  if (declared == "Dtype") return types.compute.word();
  if (declared == "MItype") return types.in.word();
  if (declared == "MOtype") return types.out.word();
  if (declared == "Mastertype") return types.compute == kDouble ? "f64" : "f32";
  return declared;
}

size_t BytesOf(const std::string& word) {
  if (word == "i32") return 4;
  if (word == "i64") return 8;
  for (DataType type : BuiltInTypes()) {
    if (type.word() == word) return type.bytes();
  }
  CAFFE_THROW("no test knows arrays of ", word);
}

// Numbers of all sizes for float kinds, subnormal halves among them; any bits otherwise.
void FillArray(const std::string& word, int seed, char* target) {
  uint64_t state = 977 * static_cast<uint64_t>(seed) + 1;
  const auto bytes = static_cast<int64_t>(BytesOf(word));
  const auto type = std::find_if(FloatTypes().begin(), FloatTypes().end(),
                                 [&](DataType each) { return each.word() == word; });
  for (int64_t i = 0; i < kElements; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = state >> 24;
    char* at = target + i * bytes;
    if (type == FloatTypes().end()) {
      std::memcpy(at, &bits, bytes);
      continue;
    }
    const double sign = bits & 1 ? -1 : 1;
    double value = sign * std::ldexp(1 + static_cast<double>((bits >> 1) % 4096) / 4096,
                                     static_cast<int>((bits >> 20) % 12) - 8);
    if (i % 101 == 7) value = sign * std::ldexp(1.0, -24);
    if (i % 211 == 9) value = 0;
    ConvertElements(kDouble, &value, *type, at, 1);
  }
}

struct Output {
  std::string name, word;
  std::vector<char> bytes;
};

// Runs one kernel on arrays that depend on its declaration only.
std::vector<Output> RunKernel(const std::string& level, const std::string& body,
                              const TypeTriple& types, const KernelSignature& signature,
                              int function) {
  SetHostLevel(level);
  CpuDevice device;
  auto kernel =
      ProgramBuilder(&device, body).Types(types).Body(body).Build()->CreateKernel(signature.name);
  KernelArguments arguments;
  std::vector<std::pair<size_t, DevicePtr>> outputs;
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const KernelParameter& parameter = signature.parameters[i];
    const std::string word = Word(parameter.type, types);
    if (parameter.kind == KernelParameter::Kind::kIn ||
        parameter.kind == KernelParameter::Kind::kOut) {
      const DevicePtr array =
          device.Allocate(kElements * static_cast<int64_t>(BytesOf(word)), "a test");
      FillArray(word, static_cast<int>(i), array.address());
      const bool codes = word == "q8" || word == "q16";
      arguments.push_back(KernelArgument(array, codes ? 100 : 0));
      if (parameter.kind == KernelParameter::Kind::kOut) outputs.emplace_back(i, array);
    } else if (const ScalarKind scalar = ScalarKindOf(parameter, types);
               scalar == ScalarKind::kRequant) {
      arguments.push_back(Requant::FromReal(0.71));
    } else if (scalar == ScalarKind::kFloat || scalar == ScalarKind::kDouble) {
      arguments.push_back(0.71);
    } else if (parameter.name == "function") {
      arguments.push_back(function);
    } else {
      arguments.push_back(kExtent);
    }
  }
  kernel->Launch({kExtent, kExtent}, arguments);
  std::vector<Output> results;
  for (const auto& [index, array] : outputs) {
    const std::string word = Word(signature.parameters[index].type, types);
    const char* begin = array.address();
    results.push_back({signature.parameters[index].name,
                       word,
                       {begin, begin + kElements * static_cast<int64_t>(BytesOf(word))}});
  }
  return results;
}

std::vector<double> Doubles(const Output& output) {
  std::vector<double> values(kElements);
  for (DataType type : FloatTypes()) {
    if (type.word() == output.word) {
      ConvertElements(type, output.bytes.data(), kDouble, values.data(), kElements);
    }
  }
  return values;
}

void CompareLevels(const std::string& body, const TypeTriple& types, const KernelSignature& head,
                   int function) {
  const std::vector<std::string> levels = HostLevels();
  // A sum over lanes has another order at every level: only those may differ, and only a little.
  const bool sums = KernelText(body).find("SIMD_SUM") != std::string::npos;
  const auto expected = RunKernel(levels.front(), body, types, head, function);
  for (size_t l = 1; l < levels.size(); ++l) {
    const auto actual = RunKernel(levels[l], body, types, head, function);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string what = Concat(head.name, " ", function, " ", types.name(), ": ",
                                      actual[i].name, " at level ", levels[l]);
      if (!sums) {
        ASSERT_TRUE(actual[i].bytes == expected[i].bytes) << what;
        continue;
      }
      const auto a = Doubles(actual[i]), e = Doubles(expected[i]);
      const double tolerance = actual[i].word == "f16"    ? 1e-3
                               : actual[i].word == "bf16" ? 8e-3
                                                          : 1e-4;
      for (int64_t k = 0; k < kElements; ++k) {
        if (std::isnan(a[k]) && std::isnan(e[k])) continue;  // roots of negative numbers
        ASSERT_LE(std::abs(a[k] - e[k]), tolerance * std::max(1.0, std::abs(e[k])))
            << what << ", element " << k;
      }
    }
  }
}

class LevelTest : public testing::TestWithParam<std::string> {};

TEST_P(LevelTest, AllLevelsGiveTheSameBits) {
  const LevelGuard guard;
  const std::string& body = GetParam();
  for (const TypeTriple& types : BodyTriples(body)) {
    const std::vector<KernelSignature> heads = ParseKernelHeads(body, KernelText(body));
    for (const KernelSignature& head : heads) {
      if (types.compute.is_quantized() && head.name.find("backward") != std::string::npos) {
        continue;  // FLOAT_KIND leaves them out
      }
      // These address by how the launch was divided, or by codes, which extents that are all equal
      // do not fit.
      const auto addresses = [](const KernelParameter& parameter) {
        return parameter.name == "slices" || parameter.name == "by_code";
      };
      if (std::any_of(head.parameters.begin(), head.parameters.end(), addresses)) continue;
      // Those of neuron/functions have a kernel's body for each function.
      const bool many = std::any_of(
          head.parameters.begin(), head.parameters.end(),
          [](const KernelParameter& parameter) { return parameter.name == "function"; });
      const int functions = many ? static_cast<int>(ElementFunction::Kinds().size()) : 1;
      for (int function = 1; function <= functions; ++function) {
        CompareLevels(body, types, head, function);
      }
    }
  }
}

std::vector<std::string> ElementWiseBodies() {
  std::vector<std::string> bodies;
  for (const std::string& path : KernelBodies()) {
    if (KernelText(path).starts_with("//! types: device")) continue;
    if (path.rfind("neuron/", 0) == 0 || path.rfind("norm/", 0) == 0) bodies.push_back(path);
  }
  return bodies;
}

INSTANTIATE_TEST_SUITE_P(Bodies, LevelTest, testing::ValuesIn(ElementWiseBodies()),
                         [](const auto& info) { return BodyName(info.param); });

TEST(HostLevelTest, RefusesLevelsThatAreNotThere) {
  const LevelGuard guard;
  ASSERT_FALSE(HostLevels().empty());
  EXPECT_THROW(SetHostLevel("v9"), Error);
  SetHostLevel(HostLevels().front());
  EXPECT_EQ(HostLevel(), HostLevels().front());
}

TEST(CpuDeviceTest, MemoryIsAlignedAndUsedAgain) {
  CpuDevice device;
  const DevicePtr first = device.Allocate(1000, "a test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.address()) % 256, 0u);
  EXPECT_EQ(device.bytes_in_use(), 1024);  // rounded up
  device.Free(first);
  EXPECT_EQ(device.bytes_in_use(), 0);
  EXPECT_EQ(device.bytes_peak(), 1024);
  const DevicePtr second = device.Allocate(900, "a test");
  EXPECT_EQ(second.handle, first.handle);
  EXPECT_EQ(device.counters().allocations, 1);
  // A much smaller request does not waste a large buffer.
  device.Free(second);
  const DevicePtr small = device.Allocate(256, "a test");
  EXPECT_NE(small.handle, first.handle);
  EXPECT_EQ(device.counters().allocations, 2);
  device.Free(small);
  device.ReleaseCache();
  device.Free(device.Allocate(900, "a test"));
  EXPECT_EQ(device.counters().allocations, 3);
  constexpr int64_t kMebibyte = 1 << 20;
  const DevicePtr large = device.Allocate(40 * kMebibyte, "a test");
  device.Free(large);
  const DevicePtr nearly = device.Allocate(40 * kMebibyte - kMebibyte / 2, "a test");
  EXPECT_EQ(nearly.handle, large.handle);
  device.Free(nearly);
  EXPECT_EQ(device.bytes_in_use(), 0);
}

TEST(CpuDeviceTest, ADebugSwitchLogsWhatMemoryIsFor) {
  const auto device = std::make_unique<CpuDevice>();
  setenv("CAFFE_DEBUG", "memory", 1);
  testing::internal::CaptureStderr();
  const DevicePtr memory = device->Allocate(1000, "a test");
  const std::string log = testing::internal::GetCapturedStderr();
  unsetenv("CAFFE_DEBUG");
  device->Free(memory);
  EXPECT_NE(std::string::npos, log.find("] cpu: 1024 bytes for a test; 1024 in use")) << log;
}

TEST(CpuDeviceTest, RefusesMoreThanTheMachineHas) {
  CpuDevice device;
  const int64_t all = device.info().memory_bytes;
  EXPECT_GT(all, int64_t{1} << 28);
  EXPECT_THROW(device.Allocate(all + 1, "a test"), Error);
}

TEST(CpuDeviceTest, OutOfMemoryNamesThePurposeAndTheSizes) {
  CpuDevice device;
  const DevicePtr some = device.Allocate(1 << 20, "a test");
  try {
    device.Allocate(int64_t{1} << 60, "blob conv1");
    FAIL() << "there was an exabyte";
  } catch (const Error& error) {
    for (const char* part :
         {"cpu", "out of memory", "blob conv1", "1152921504606846976", "1048576"}) {
      EXPECT_TRUE(Holds(error.what(), part));
    }
  }
  EXPECT_THROW(device.Allocate(-1, "blob conv1"), Error);
  device.Free(some);
}

TEST(CpuDeviceTest, CountsWhatItDoes) {
  CpuDevice device;
  const DevicePtr x = device.Allocate(4096, "a test"), y = device.Allocate(4096, "a test");
  std::vector<float> values(1024, 2.5f);
  device.ResetCounters();
  device.Upload(x, values.data(), 4096);
  device.Copy(y, x, 4096);
  device.Copy(y, y, 4096);  // nothing to do
  device.Upload(y, values.data(), 0);
  auto kernel =
      ProgramBuilder(&device, "relu").Body("neuron/relu").Build()->CreateKernel("relu_forward");
  kernel->Launch(1024, {1024, x, y, 1.0});
  kernel->Launch(0, {0, x, y, 1.0});  // nothing to do
  device.Download(values.data(), y, 4096);
  const DeviceCounters counters = device.counters();
  EXPECT_EQ(counters.uploads, 1);
  EXPECT_EQ(counters.upload_bytes, 4096);
  EXPECT_EQ(counters.copies, 1);
  EXPECT_EQ(counters.launches, 1);
  EXPECT_EQ(counters.downloads, 1);
  EXPECT_EQ(counters.download_bytes, 4096);
  EXPECT_EQ(counters.syncs, 1);
  EXPECT_EQ(counters.builds, 0);  // kernels were compiled with the library
  EXPECT_EQ(counters.allocations, 0);
  device.ResetCounters();
  EXPECT_EQ(device.counters().launches, 0);
  EXPECT_EQ(values, std::vector<float>(1024, 2.5f));
}

TEST(CpuDeviceTest, LaunchesAreChecked) {
  CpuDevice device;
  const DevicePtr x = device.Allocate(64, "a test");
  auto program = ProgramBuilder(&device, "relu").Body("neuron/relu").Build();
  auto kernel = program->CreateKernel("relu_forward");
  const auto message = [&](const KernelArguments& arguments) {
    try {
      kernel->Launch(16, arguments);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({16, x, x, 1.0}), "");
  EXPECT_TRUE(
      Holds(message({16, x, x}), "relu_forward declares 4 arguments, but its launch passes 3"));
  EXPECT_TRUE(Holds(message({16, 1.0, x, 1.0}), "argument 1 (x)"));
  EXPECT_TRUE(Holds(message({x, x, x, 1.0}), "argument 0 (n)"));
  EXPECT_TRUE(Holds(message({16, x, x, Requant::FromReal(1)}), "a Requant"));
  EXPECT_TRUE(Holds(message({0.5, x, x, 1.0}), "0.5"));
  EXPECT_THROW(program->CreateKernel("relu_sideways"), Error);
  EXPECT_THROW(kernel->LaunchInGroups({}, {16, x, x, 1.0}), Error);
}

// Kernels are looked up: a type that a body was not compiled for is named.
TEST(CpuDeviceTest, ATypeThatIsNotThereIsNamed) {
  CpuDevice device;
  try {
    ProgramBuilder(&device, "softmax")
        .Types(kQuant8)
        .Body("norm/softmax")
        .Build()
        ->CreateKernel("softmax_forward");
    FAIL() << "there is a softmax of codes";
  } catch (const Error& error) {
    EXPECT_TRUE(Holds(error.what(), "softmax_forward for the types quant8"));
  }
}

// Enough elements for all threads, and an end that is not a multiple of a cache line.
TEST(CpuDeviceTest, ThreadsCoverTheWholeRange) {
  CpuDevice device;
  const int64_t count = 100003;
  const DevicePtr x = device.Allocate(count * 4, "a test"),
                  y = device.Allocate(count * 4, "a test");
  auto* values = reinterpret_cast<float*>(x.address());
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  device.Fill(y, 0, count * 4);
  ProgramBuilder(&device, "relu")
      .Body("neuron/relu")
      .Build()
      ->CreateKernel("relu_forward")
      ->Launch(count, {count, x, y, 1.0});
  EXPECT_EQ(std::memcmp(x.address(), y.address(), count * 4), 0);
}

}  // namespace
}  // namespace caffe
