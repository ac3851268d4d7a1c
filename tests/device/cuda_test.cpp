#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cuda/cuda_device.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

const char* const kBodies =
    "KERNEL(scale, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), FOLD(i32, window),\n"
    "       ARG(Scaletype, factor), ARG(Requant, r), ARG(u32, plus), ARG(u64, wide)) {\n"
    "  FOR_EACH(i, n) {\n"
    "    STORE(MOtype, y, i, factor * (LOAD(MItype, x, i) - x_zero) + (float)(r.multiplier +\n"
    "          r.shift + window + (i32)plus + (i32)(wide >> 40)));\n"
    "  }\n"
    "}\n"
    "KERNEL(place, ARG(i32, rows), ARG(i32, columns), OUT(i32, y)) {\n"
    "  FOR_EACH_ROW(r, rows, c, columns) STORE(i32, y, r * columns + c, r * 1000 + c);\n"
    "}\n"
    "KERNEL(reverse_groups, OUT(i32, y)) {\n"
    "  LOCAL i32 shared[64];\n"
    "  const i32 t = LOCAL_ID(1) * 8 + LOCAL_ID(0);\n"
    "  shared[t] = (i32)(GROUP_ID(0) * 100 + GROUP_ID(1)) * 1000 + t;\n"
    "  BARRIER;\n"
    "  STORE(i32, y, (GROUP_ID(0) * 2 + GROUP_ID(1)) * 32 + t, shared[31 - t]);\n"
    "}\n"
    "KERNEL(spin, ARG(i32, rounds), OUT(i32, y)) {\n"
    "  FOR_EACH(i, 1) {\n"
    "    u32 v = 1;\n"
    "    for (i32 k = 0; k < rounds; ++k) v = v * 1664525u + 1013904223u;\n"
    "    STORE(i32, y, 0, (i32)v);\n"
    "  }\n"
    "}\n";

class CudaTest : public testing::Test {
 protected:
  // The first device of this machine, apart from the runtime's, so that counters are the test's.
  void SetUp() override {
    BackendDevices found = FindCudaDevices();
    if (found.devices.empty()) GTEST_SKIP() << found.note;
    device_ = std::move(found.devices[0]);
  }

  ProgramText Text(const std::string& name, int64_t window = 3) {
    ProgramText text = ProgramBuilder(device_.get(), name).Fold("window", window).Text();
    text.kernels = ParseKernelHeads(name, kBodies);
    text.source += "// " + name + "\n#line 1 \"kernels/test/cuda.h\"\n" +
                   RewriteKernelHeads(kBodies, {"window"});
    return text;
  }

  // Text that no earlier run has left in the cache.
  ProgramText FreshText(const std::string& name) {
    return Text(Concat(name, " ", std::chrono::system_clock::now().time_since_epoch().count()));
  }

  std::unique_ptr<Kernel> MakeKernel(const std::string& name) {
    return device_->Build(Text("cuda test"))->CreateKernel(name);
  }

  template <class T> DevicePtr Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    const DevicePtr pointer = device_->Allocate(bytes, "a test");
    device_->Upload(pointer, values.data(), bytes);
    return pointer;
  }

  template <class T> std::vector<T> Get(DevicePtr pointer, size_t count) {
    std::vector<T> values(count);
    device_->Download(values.data(), pointer, static_cast<int64_t>(count * sizeof(T)));
    return values;
  }

  static std::string MessageOf(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaTest, DescribesItself) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.backend, "cuda");
  EXPECT_EQ(info.id, "cuda:0");
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.architecture.rfind("sm_", 0), 0u);
  EXPECT_EQ(info.unique_id.size(), 40u);
  EXPECT_NE(info.driver.find("CUDA "), std::string::npos);
  EXPECT_NE(info.compiler.find("NVRTC "), std::string::npos);
  EXPECT_GT(info.memory_bytes, 1 << 28);
  EXPECT_GE(info.local_memory_bytes, 48 << 10);
  EXPECT_GE(info.max_group_size, 512);
  EXPECT_GT(info.compute_units, 0);
  EXPECT_TRUE(info.fp64 && info.subgroups);
  RecordProperty("device", info.name + ", " + info.architecture + ", " + info.driver);
}

TEST_F(CudaTest, UploadsMayReuseTheirSourceAtOnce) {
  // Sizes below, at and beyond a piece and the whole ring of the staging memory, and an odd one.
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, cuda::CudaStaging::kPieceBytes,
                              cuda::CudaStaging::kRingBytes * 2 + 12345}) {
    std::vector<uint8_t> source(bytes), expected(bytes);
    for (int64_t i = 0; i < bytes; ++i) expected[i] = source[i] = static_cast<uint8_t>(i * 31 >> 3);
    const DevicePtr pointer = device_->Allocate(bytes, "a test");
    device_->Upload(pointer, source.data(), bytes);
    std::fill(source.begin(), source.end(), 0xee);
    EXPECT_EQ(Get<uint8_t>(pointer, bytes), expected) << bytes;
    device_->Free(pointer);
  }
}

TEST_F(CudaTest, ManySmallUploadsDoNotOvertakeEachOther) {
  const int count = 3000, ints = 3000;  // more than twice around the ring
  const DevicePtr pointer = device_->Allocate(int64_t{count} * ints * 4, "a test");
  std::vector<int32_t> values(ints);
  for (int i = 0; i < count; ++i) {
    std::fill(values.begin(), values.end(), i);
    device_->Upload(pointer + int64_t{i} * ints * 4, values.data(), ints * 4);
  }
  const auto result = Get<int32_t>(pointer, size_t{count} * ints);
  int64_t wrong = 0;
  for (int i = 0; i < count * ints; ++i) wrong += result[i] != i / ints;
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device_->counters().uploads, count);
  EXPECT_EQ(device_->counters().syncs, 1);
}

TEST_F(CudaTest, CopiesAndFillsWithOffsets) {
  std::vector<uint8_t> values(1000);
  std::iota(values.begin(), values.end(), 0);
  const DevicePtr a = Put(values), b = device_->Allocate(1000, "a test");
  device_->Fill(b, 7, 1000);
  device_->Copy(b + 10, a + 500, 100);
  device_->Fill(b + 999, 9, 1);
  std::vector<uint8_t> expected(1000, 7);
  std::copy(values.begin() + 500, values.begin() + 600, expected.begin() + 10);
  expected[999] = 9;
  EXPECT_EQ(Get<uint8_t>(b, 1000), expected);
}

TEST_F(CudaTest, LaunchesWithEveryKindOfArgument) {
  const int n = 1000;
  std::vector<float> x(n + 8);
  std::iota(x.begin(), x.end(), 0.f);
  const DevicePtr in = Put(x), out = device_->Allocate((n + 8) * 4, "a test");
  device_->Fill(out, 0, (n + 8) * 4);
  auto kernel = MakeKernel("scale");
  device_->ResetCounters();
  kernel->Launch(n, {n, DevicePtr(in + 8 * 4), DevicePtr(out + 4 * 4), 3, 0.5, Requant{40, 2}, 100u,
                     uint64_t{5} << 40});
  kernel->Launch(0, {n, in, out, 3, 0.5, Requant{}, 0, 0});
  EXPECT_EQ(device_->counters().launches, 1);
  EXPECT_EQ(device_->counters().syncs, 0);
  std::vector<float> expected(n + 8, 0.f);
  for (int i = 0; i < n; ++i) expected[i + 4] = 0.5f * x[i + 8] + 150;
  EXPECT_EQ(Get<float>(out, n + 8), expected);
  // The zero point travels with the pointer.
  kernel->Launch(1, {1, KernelArgument(in, 6), out, 3, 2.0, Requant{}, 0, 0});
  EXPECT_EQ(Get<float>(out, 1)[0], -12 + 3);
}

TEST_F(CudaTest, LaunchesRowsAndGroups) {
  const DevicePtr out = device_->Allocate(300 * 70 * 4, "a test");
  MakeKernel("place")->Launch({300, 70}, {300, 70, out});
  const auto placed = Get<int32_t>(out, 300 * 70);
  for (int i = 0; i < 300 * 70; ++i) ASSERT_EQ(placed[i], i / 70 * 1000 + i % 70);

  MakeKernel("reverse_groups")->LaunchInGroups(LaunchGroups{{3, 2, 1}, {8, 4, 1}}, {out});
  const auto reversed = Get<int32_t>(out, 3 * 2 * 32);
  for (int i = 0; i < 3 * 2 * 32; ++i) {
    ASSERT_EQ(reversed[i], (i / 64 * 100 + i / 32 % 2) * 1000 + 31 - i % 32) << i;
  }
}

TEST_F(CudaTest, RefusesWhatCanNotBeLaunched) {
  const DevicePtr out = device_->Allocate(256, "a test");
  auto place = MakeKernel("place");
  const std::string range = MessageOf([&] {
    place->Launch({int64_t{1} << 16, int64_t{1} << 15}, {1, 1, out});
  });
  EXPECT_NE(range.find("place"), std::string::npos) << range;
  EXPECT_NE(range.find("2^31 - 1"), std::string::npos) << range;
  auto scale = MakeKernel("scale");
  const std::string fold = MessageOf([&] {
    scale->Launch(1, {1, out, out, 4, 1.0, Requant{}, 0, 0});
  });
  EXPECT_NE(fold.find("window"), std::string::npos) << fold;
  const std::string scalar = MessageOf([&] { scale->Launch(1, {1, out, out, 3, 1.0, 5, 0, 0}); });
  EXPECT_NE(scalar.find("argument r"), std::string::npos) << scalar;
  auto groups = MakeKernel("reverse_groups");
  const std::string large = MessageOf([&] {
    groups->LaunchInGroups(LaunchGroups{{1, 1, 1}, {64, 64, 1}}, {out});
  });
  EXPECT_NE(large.find("reverse_groups"), std::string::npos) << large;
  const std::string absent = MessageOf([&] { MakeKernel("no_such_kernel"); });
  EXPECT_NE(absent.find("no_such_kernel"), std::string::npos) << absent;
  // The device still works.
  place->Launch({2, 3}, {2, 3, out});
  EXPECT_EQ(Get<int32_t>(out, 6)[5], 1002);
}

TEST_F(CudaTest, RunsReluInEveryFloatType) {
  const std::vector<float> x{-2, -0.5f, 0, 1, 3.5f, -8, 100, 0.25f};
  for (DataType type : FloatTypes()) {
    std::vector<uint8_t> bytes(x.size() * type.bytes());
    ConvertElements(kFloat, x.data(), type, bytes.data(), x.size());
    const DevicePtr in = Put(bytes), out = device_->Allocate(64, "a test");
    auto program = ProgramBuilder(device_.get(), "relu").Types(type).Body("neuron/relu").Build();
    program->CreateKernel("relu_forward_slope")->Launch(8, {8, in, out, 1.0, 0.5});
    const auto result = Get<uint8_t>(out, bytes.size());
    std::vector<float> y(x.size());
    ConvertElements(type, result.data(), kFloat, y.data(), y.size());
    EXPECT_EQ(y, (std::vector<float>{-1, -0.25f, 0, 1, 3.5f, -4, 100, 0.25f})) << type.name();
  }
}

TEST_F(CudaTest, EventsMeasureTime) {
  const DevicePtr out = device_->Allocate(256, "a test");
  auto spin = MakeKernel("spin");
  spin->Launch(1, {1, out});
  auto start = device_->RecordEvent();
  spin->Launch(1, {2000000, out});
  auto end = device_->RecordEvent();
  const double seconds = end->SecondsSince(*start);
  EXPECT_GT(seconds, 1e-4);
  EXPECT_LT(seconds, 10);
}

TEST_F(CudaTest, StreamsAreQueuesOfTheirOwn) {
  const DevicePtr a = device_->Allocate(256, "a test"), first = device_->Allocate(256, "a test");
  auto spin = MakeKernel("spin");
  auto place = MakeKernel("place");
  void* const default_queue = device_->native_stream();
  EXPECT_NE(default_queue, nullptr);
  // The driver loads a kernel at its first launch and may wait for everything then.
  spin->Launch(1, {1, a});
  place->Launch({1, 1}, {1, 1, first});
  device_->Synchronize();
  spin->Launch(1, {20000000, a});
  auto busy = device_->RecordEvent();
  auto stream = device_->CreateStream();
  {
    const StreamScope scope(device_.get(), stream.get());
    EXPECT_NE(device_->native_stream(), default_queue);
    // A buffer that the first queue has never used: otherwise the second would wait for it.
    const DevicePtr b = device_->Allocate(256, "a test");
    place->Launch({2, 3}, {2, 3, b});
    auto done = device_->RecordEvent();
    done->Wait();
    // The second stream did not wait for the first.
    EXPECT_GT(busy->SecondsSince(*done), 0);
    EXPECT_EQ(Get<int32_t>(b, 6)[4], 1001);
  }
  EXPECT_EQ(device_->native_stream(), default_queue);
}

TEST_F(CudaTest, ProgramsComeFromTheCache) {
  ProgramCache& cache = Runtime::Get().program_cache();
  const ProgramText text = FreshText("cache test");
  auto* cuda = static_cast<CudaDevice*>(device_.get());
  const std::string key = cuda->ProgramKey(text);
  EXPECT_NE(key, cuda->ProgramKey(FreshText("another")));
  device_->Build(text);
  EXPECT_EQ(device_->counters().builds, 1);
  ASSERT_TRUE(cache.Find(key));
  // The process no longer has the program, and loads it again without the compiler.
  device_->Build(text);
  EXPECT_EQ(device_->counters().builds, 1);
  device_->Build(text, false);
  EXPECT_EQ(device_->counters().builds, 2);
  // A binary that the driver refuses is compiled again, and replaced.
  ProgramCache::Entry entry;
  entry.binary = "no machine code at all";
  cache.Store(key, "device", text.name, entry);
  const DevicePtr out = device_->Allocate(256, "a test");
  device_->Build(text)->CreateKernel("place")->Launch({2, 3}, {2, 3, out});
  EXPECT_EQ(Get<int32_t>(out, 6)[5], 1002);
  EXPECT_EQ(device_->counters().builds, 3);
  ASSERT_TRUE(cache.Find(key));
  EXPECT_NE(cache.Find(key)->binary, entry.binary);
  cache.Remove(key);
}

TEST_F(CudaTest, BuildFailuresNameDeviceAndLinesAndAreRemembered) {
  ProgramText text = FreshText("broken");
  text.source += "#line 1 \"kernels/test/more.h\"\nDEVICE_FN i32 more() { return nowhere; }\n";
  for (int time = 0; time < 2; ++time) {
    const std::string message = MessageOf([&] { device_->Build(text); });
    for (const char* part : {"cuda:0", "broken", "nowhere", "kernels/test/more.h"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    EXPECT_EQ(device_->counters().builds, 1);
  }
  Runtime::Get().program_cache().Remove(static_cast<CudaDevice*>(device_.get())->ProgramKey(text));
}

TEST_F(CudaTest, OutOfMemoryNamesThePurpose) {
  const std::string message =
      MessageOf([&] { device_->Allocate(int64_t{1} << 50, "the blob conv1"); });
  EXPECT_NE(message.find("the blob conv1"), std::string::npos) << message;
  EXPECT_NE(message.find("out of memory"), std::string::npos) << message;
  const DevicePtr small = device_->Allocate(1000, "a test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small.handle) % 256, 0u);
}

TEST_F(CudaTest, DriverErrorsNameDeviceAndCall) {
  device_->native_stream();  // makes the context current
  int value = 0;
  const std::string message =
      MessageOf([&] { cuda::Driver::Get().cuDeviceGetAttribute(&value, 99999, 0); });
  EXPECT_NE(message.find("cuda:0"), std::string::npos) << message;
  EXPECT_NE(message.find("cuDeviceGetAttribute"), std::string::npos) << message;
  EXPECT_NE(message.find("CUDA_ERROR"), std::string::npos) << message;
}

TEST_F(CudaTest, ThreadsShareADevice) {
  device_->Build(Text("cuda test"));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      auto kernel = MakeKernel("scale");
      const int n = 5000 + t;
      for (int round = 0; round < 40; ++round) {
        const std::vector<float> x(n, static_cast<float>(t * 100 + round));
        const DevicePtr in = Put(x), out = device_->Allocate(n * 4, "a test");
        kernel->Launch(n, {n, in, out, 3, 1.0, Requant{}, 0, 0});
        for (float y : Get<float>(out, n)) wrong += y != t * 100 + round + 3;
        device_->Free(in);
        device_->Free(out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaTest, AForkedChildIsToldWhyNothingWorks) {
  auto kernel = MakeKernel("scale");
  const DevicePtr x = Put(std::vector<float>(64, 1));
  auto event = device_->RecordEvent();
  const auto refused = [&](const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      const std::string message = error.what();
      return message.starts_with(device_->info().id) &&
             message.find("before this process was forked") != std::string::npos;
    }
    return false;
  };
  EXPECT_EQ(InChild([&] {
              float value = 0;
              const bool all = refused([&] { device_->Upload(x, &value, 4); }) &&
                               refused([&] { device_->Download(&value, x, 4); }) &&
                               refused([&] { device_->Synchronize(); }) &&
                               refused([&] { device_->RecordEvent(); }) &&
                               refused([&] { event->Wait(); }) &&
                               refused([&] { MakeKernel("scale"); });
              kernel.reset();
              event.reset();
              device_.reset();
              return all ? 3 : 1;
            }),
            3);
  device_->Synchronize();
}

TEST_F(CudaTest, ProgramsAndEventsMayOutliveTheDevice) {
  auto program = device_->Build(Text("cuda test"));
  auto event = device_->RecordEvent();
  auto stream = device_->CreateStream();
  device_.reset();
  event->Wait();
  stream.reset();
  program.reset();
  event.reset();
  // A new device in the same process works.
  SetUp();
  const DevicePtr out = device_->Allocate(256, "a test");
  MakeKernel("place")->Launch({2, 3}, {2, 3, out});
  EXPECT_EQ(Get<int32_t>(out, 6)[3], 1000);
}

}  // namespace
}  // namespace caffe
