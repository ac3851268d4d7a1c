#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

// The text is plain OpenCL C: these tests need neither the dialect nor the builder.
ProgramText ScaleText(const std::string& name) {
  ProgramText text;
  text.name = name;
  text.options = "-cl-std=CL1.2";
  text.types = TypeTriple::Equal(kFloat);
  text.source =
      "#define Index i32\n"
      "// " +
      name +
      "\n"
      "#line 1 \"kernels/test/scale.h\"\n"
      "typedef struct { int multiplier; int shift; } Requant;\n"
      "__kernel void scale(const long n, __global const float* x, const long x_offset,\n"
      "                    const int x_zero, __global float* y, const long y_offset,\n"
      "                    const int y_zero, const float factor, const Requant r) {\n"
      "  const long i = get_global_id(0);\n"
      "  if (i < n) y[y_offset + i] = factor * (x[x_offset + i] - x_zero) + r.multiplier + "
      "r.shift;\n"
      "}\n"
      "__kernel void groups(__global int* y, const long y_offset, const int y_zero) {\n"
      "  if (get_local_id(0) == 0 && get_local_id(1) == 0)\n"
      "    y[y_offset + get_group_id(0) * get_num_groups(1) + get_group_id(1)] =\n"
      "        get_local_size(0) * 100 + get_local_size(1);\n"
      "}\n";
  using Kind = KernelParameter::Kind;
  text.kernels = {{.name = "scale",
                   .parameters = {{Kind::kScalar, "i64", "n"},
                                  {Kind::kIn, "MItype", "x"},
                                  {Kind::kOut, "MOtype", "y"},
                                  {Kind::kFold, "i32", "window"},
                                  {Kind::kScalar, "Scaletype", "factor"},
                                  {Kind::kScalar, "Requant", "r"}}},
                  {.name = "groups", .parameters = {{Kind::kOut, "i32", "y"}}}};
  text.folds = {{"window", 3}};
  return text;
}

// So that no earlier run has left the program in the cache.
std::string UniqueName(const std::string& name) {
  return Concat(name, " ", std::chrono::system_clock::now().time_since_epoch().count());
}

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class OpenClTest : public testing::Test {
 protected:
  void SetUp() override {
    for (Device* device : Runtime::Get().devices()) {
      if (device->backend() == "opencl" && device_ == nullptr) device_ = device;
    }
    if (device_ == nullptr) {
      std::string notes;
      for (const std::string& note : Runtime::Get().notes()) notes += note + "\n";
      GTEST_SKIP() << "no OpenCL device: " << notes;
    }
  }

  // A buffer that lives as long as the test.
  DevicePtr Make(int64_t bytes) {
    buffers_.push_back(device_->Allocate(bytes, "test"));
    return buffers_.back();
  }

  template <class T> DevicePtr Make(const std::vector<T>& values) {
    const DevicePtr buffer = Make(values.size() * sizeof(T));
    device_->Upload(buffer, values.data(), values.size() * sizeof(T));
    return buffer;
  }

  template <class T> std::vector<T> Read(DevicePtr source, size_t count) {
    std::vector<T> values(count);
    device_->Download(values.data(), source, count * sizeof(T));
    return values;
  }

  void TearDown() override {
    for (const DevicePtr buffer : buffers_) device_->Free(buffer);
  }

  Device* device_ = nullptr;
  std::vector<DevicePtr> buffers_;
};

TEST_F(OpenClTest, DevicesSayWhatTheyAre) {
  const BackendDevices found = FindOpenClDevices();
  ASSERT_FALSE(found.devices.empty());
  for (size_t i = 0; i < found.devices.size(); ++i) {
    const DeviceInfo& info = found.devices[i]->info();
    EXPECT_EQ(info.id, Concat("opencl:", i));
    EXPECT_EQ(info.backend, "opencl");
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.vendor.empty());
    EXPECT_FALSE(info.platform.empty());
    EXPECT_NE(info.driver.find("OpenCL"), std::string::npos) << info.driver;
    EXPECT_NE(info.compiler.find("OpenCL C"), std::string::npos) << info.compiler;
    EXPECT_GT(info.memory_bytes, 1 << 20);
    EXPECT_GT(info.local_memory_bytes, 0);
    EXPECT_GE(info.max_group_size, 1);
    EXPECT_GE(info.compute_units, 1);
    if (info.platform == "Portable Computing Language") {
      EXPECT_TRUE(info.is_cpu_type);
      EXPECT_FALSE(info.matrix);
    }
    if (info.platform == "NVIDIA CUDA") {
      EXPECT_TRUE(info.architecture.starts_with("sm_")) << info.architecture;
      EXPECT_FALSE(info.is_cpu_type);
      EXPECT_FALSE(info.unique_id.empty());
    }
  }
}

TEST_F(OpenClTest, CopiesThereAndBack) {
  std::vector<uint8_t> bytes(1000);
  std::iota(bytes.begin(), bytes.end(), 0);
  const DevicePtr a = Make(1000), b = Make(1000);
  device_->ResetCounters();
  device_->Upload(a, bytes.data(), 1000);
  device_->Copy(b + 10, a + 20, 500);
  EXPECT_EQ(Read<uint8_t>(b + 10, 500),
            std::vector<uint8_t>(bytes.begin() + 20, bytes.begin() + 520));
  const DeviceCounters counters = device_->counters();
  EXPECT_EQ(counters.uploads, 1);
  EXPECT_EQ(counters.copies, 1);
  EXPECT_EQ(counters.downloads, 1);
  EXPECT_EQ(counters.syncs, 1);
  EXPECT_EQ(counters.upload_bytes, 1000);
}

TEST_F(OpenClTest, NothingIsDoneForNoBytes) {
  const DevicePtr a = Make(0);
  EXPECT_TRUE(a);
  device_->Upload(a, nullptr, 0);
  device_->Download(nullptr, a, 0);
  device_->Copy(a, a + 1, 0);
  device_->Fill(a, 1, 0);
}

// More and larger pieces than the staging ring holds, with the source overwritten after each call.
TEST_F(OpenClTest, TheSourceOfAnUploadMayBeReusedAtOnce) {
  constexpr size_t kCount = 3000, kBytes = 10007;
  const DevicePtr many = Make(kCount * kBytes);
  std::vector<uint8_t> source(kBytes);
  for (size_t i = 0; i < kCount; ++i) {
    std::fill(source.begin(), source.end(), static_cast<uint8_t>(i * 7));
    device_->Upload(many + i * kBytes, source.data(), kBytes);
  }
  std::fill(source.begin(), source.end(), 0);
  const std::vector<uint8_t> result = Read<uint8_t>(many, kCount * kBytes);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(result[i * kBytes], static_cast<uint8_t>(i * 7)) << i;
    ASSERT_EQ(result[(i + 1) * kBytes - 1], static_cast<uint8_t>(i * 7)) << i;
  }

  std::vector<uint32_t> large(11'000'003);
  std::iota(large.begin(), large.end(), 12345u);
  const std::vector<uint32_t> expected = large;
  const DevicePtr buffer = Make(large.size() * 4);
  device_->Upload(buffer, large.data(), large.size() * 4);
  std::fill(large.begin(), large.end(), 0u);
  EXPECT_TRUE(Read<uint32_t>(buffer, large.size()) == expected);
}

TEST_F(OpenClTest, FillsOddRanges) {
  for (const auto& [begin, count] : std::vector<std::pair<int, int>>{
           {0, 256}, {1, 3}, {5, 11}, {3, 29}, {16, 16}, {15, 2}, {31, 200}, {7, 9}}) {
    const DevicePtr buffer = Make(std::vector<uint8_t>(256, 1));
    device_->Fill(buffer + begin, 0xab, count);
    std::vector<uint8_t> expected(256, 1);
    std::fill_n(expected.begin() + begin, count, 0xab);
    EXPECT_EQ(Read<uint8_t>(buffer, 256), expected) << begin << " + " << count;
  }
}

TEST_F(OpenClTest, LaunchesWithOffsetsFoldsAndScalars) {
  const auto program = device_->Build(ScaleText("scale launch"));
  const auto kernel = program->CreateKernel("scale");
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 0.f);
  const DevicePtr from = Make(x), to = Make(std::vector<float>(1000, -1.f));
  device_->ResetCounters();
  kernel->Launch(300, {300, {from + 40, 2}, to + 80, 3, 0.5, Requant{1000, 7}});
  EXPECT_EQ(device_->counters().launches, 1);
  EXPECT_EQ(device_->counters().syncs, 0);
  const std::vector<float> y = Read<float>(to, 1000);
  for (int i = 0; i < 1000; ++i) {
    const bool inside = i >= 20 && i < 320;
    ASSERT_EQ(y[i], inside ? 0.5f * (x[i - 10] - 2) + 1007 : -1.f) << i;
  }
  kernel->Launch(0, {0, from, to, 3, 0.5, Requant{}});
  EXPECT_EQ(device_->counters().launches, 1);
}

TEST_F(OpenClTest, LaunchesGroups) {
  const auto program = device_->Build(ScaleText("scale groups"));
  const auto kernel = program->CreateKernel("groups");
  const DevicePtr to = Make(std::vector<int>(16, 0));
  kernel->LaunchInGroups(LaunchGroups{{3, 4, 1}, {8, 2, 1}}, {to + 8});
  std::vector<int> expected(16, 0);
  std::fill_n(expected.begin() + 2, 12, 802);
  EXPECT_EQ(Read<int>(to, 16), expected);
  const std::string message = MessageOf([&] {
    kernel->LaunchInGroups(LaunchGroups{{1, 1, 1}, {1 << 20, 1, 1}}, {to});
  });
  EXPECT_NE(message.find("groups"), std::string::npos) << message;
  EXPECT_NE(message.find("1048576"), std::string::npos) << message;
}

TEST_F(OpenClTest, RefusesWrongArguments) {
  const auto program = device_->Build(ScaleText("scale refuse"));
  const auto kernel = program->CreateKernel("scale");
  const DevicePtr x = Make(64), y = Make(64);
  const std::string fold = MessageOf([&] { kernel->Launch(4, {4, x, y, 5, 1.0, Requant{}}); });
  EXPECT_NE(fold.find("window is 5, but the program was built for 3"), std::string::npos) << fold;
  EXPECT_NE(fold.find(device_->info().id), std::string::npos) << fold;
  const std::string odd = MessageOf([&] { kernel->Launch(4, {4, x + 6, y, 3, 1.0, Requant{}}); });
  EXPECT_NE(odd.find("argument x lies 6 bytes"), std::string::npos) << odd;
  const std::string scalar = MessageOf([&] { kernel->Launch(4, {4, x, y, 3, 1.0, 2}); });
  EXPECT_NE(scalar.find("kernel scale"), std::string::npos) << scalar;
  EXPECT_NE(scalar.find("argument r"), std::string::npos) << scalar;
  const std::string range = MessageOf([&] {
    kernel->Launch(LaunchRange(int64_t{1} << 20, 4096), {4, x, y, 3, 1.0, Requant{}});
  });
  EXPECT_NE(range.find("kernel scale"), std::string::npos) << range;
  EXPECT_NE(range.find("1048576 x 4096"), std::string::npos) << range;
  const std::string name = MessageOf([&] { program->CreateKernel("scales"); });
  EXPECT_NE(name.find("no kernel scales; it has scale, groups"), std::string::npos) << name;
}

TEST_F(OpenClTest, RefusesAHeadThatTheCompiledKernelDoesNotHave) {
  ProgramText text = ScaleText("scale count");
  text.kernels[1].parameters.push_back({KernelParameter::Kind::kScalar, "i32", "more"});
  const auto program = device_->Build(text, false);
  const std::string message = MessageOf([&] { program->CreateKernel("groups"); });
  EXPECT_NE(message.find("takes 3 arguments, but its declaration has 4"), std::string::npos)
      << message;
}

TEST_F(OpenClTest, ABuildFailureShowsDeviceKernelLogAndLines) {
  for (const bool use_cache : {false, true, true}) {  // the last error comes from the cache
    ProgramText text = ScaleText("scale broken");
    text.source.replace(text.source.find("factor * ("), 6, "fcator");
    device_->ResetCounters();
    const std::string message = MessageOf([&] { device_->Build(text, use_cache); });
    EXPECT_NE(message.find(device_->info().id), std::string::npos) << message;
    EXPECT_NE(message.find(device_->info().name), std::string::npos) << message;
    EXPECT_NE(message.find("program \"scale broken\", kernel scale:"), std::string::npos)
        << message;
    EXPECT_NE(message.find("kernels/test/scale.h:6"), std::string::npos) << message;
    EXPECT_NE(message.find("fcator"), std::string::npos) << message;
    EXPECT_NE(message.find(">     6 |   if (i < n)"), std::string::npos) << message;
    EXPECT_NE(message.find("-cl-std=CL1.2"), std::string::npos) << message;
  }
  EXPECT_EQ(device_->counters().builds, 0) << "a refused program is not compiled again";
}

TEST_F(OpenClTest, ABinaryComesFromTheCache) {
  const ProgramCache& cache = Runtime::Get().program_cache();
  if (cache.state().mode != ProgramCache::Mode::kReadWrite) {
    GTEST_SKIP() << "the program cache is off";
  }
  const std::string name = UniqueName("scale cached");
  const auto run = [&](bool wait) {
    const auto program = device_->Build(ScaleText(name));
    const auto kernel = program->CreateKernel("scale");
    const DevicePtr x = Make(std::vector<float>(8, 3.f)), y = Make(32);
    kernel->Launch(8, {8, x, y, 3, 2.0, Requant{}});
    if (wait) {
      EXPECT_EQ(Read<float>(y, 8), std::vector<float>(8, 6.f));
    }
  };
  device_->ResetCounters();
  run(false);  // stored by the program's destructor
  EXPECT_EQ(device_->counters().builds, 1);
  device_->ResetCounters();
  run(true);
  EXPECT_EQ(device_->counters().builds, 0);
}

TEST_F(OpenClTest, AProgramIsStoredOnceItsKernelsHaveRun) {
  ProgramCache& cache = Runtime::Get().program_cache();
  if (cache.state().mode != ProgramCache::Mode::kReadWrite) {
    GTEST_SKIP() << "the program cache is off";
  }
  const std::string name = UniqueName("scale waits");
  const auto stored = [&] {
    const auto rows = cache.List();
    return std::any_of(rows.begin(), rows.end(),
                       [&](const ProgramCache::Row& row) { return row.program == name; });
  };
  const auto program = device_->Build(ScaleText(name));
  const auto scale = program->CreateKernel("scale"), groups = program->CreateKernel("groups");
  const DevicePtr x = Make(32), y = Make(32);
  const bool late = device_->info().platform == "Portable Computing Language";
  EXPECT_EQ(stored(), !late);
  scale->Launch(8, {8, x, y, 3, 2.0, Requant{}});
  device_->Synchronize();
  EXPECT_EQ(stored(), !late) << "the other kernel may still come";
  groups->LaunchInGroups(LaunchGroups{{1, 1, 1}, {8, 2, 1}}, {y});
  device_->Synchronize();
  EXPECT_TRUE(stored());
}

// A net that only runs forward.
TEST_F(OpenClTest, AProgramIsStoredThoughSomeKernelsNeverRun) {
  ProgramCache& cache = Runtime::Get().program_cache();
  if (cache.state().mode != ProgramCache::Mode::kReadWrite) {
    GTEST_SKIP() << "the program cache is off";
  }
  const std::string name = UniqueName("scale forward");
  const auto program = device_->Build(ScaleText(name));
  const auto groups = program->CreateKernel("groups");
  const DevicePtr y = Make(32);
  for (int i = 0; i < 10; ++i) {
    groups->LaunchInGroups(LaunchGroups{{1, 1, 1}, {8, 2, 1}}, {y});
    Read<int>(y, 1);
  }
  const auto rows = cache.List();
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                          [&](const ProgramCache::Row& row) { return row.program == name; }));
}

// As relu_backward does for quantized types.
TEST_F(OpenClTest, ABodyMayLeaveKernelsOut) {
  if (Runtime::Get().program_cache().state().mode != ProgramCache::Mode::kReadWrite) {
    GTEST_SKIP() << "the program cache is off";
  }
  ProgramText text = ScaleText(UniqueName("scale part"));
  text.source.insert(text.source.find("__kernel void groups"), "#if 0\n");
  text.source += "#endif\n";
  for (const int builds : {1, 0}) {
    device_->ResetCounters();
    const auto program = device_->Build(text);
    const DevicePtr x = Make(32), y = Make(32);
    program->CreateKernel("scale")->Launch(8, {8, x, y, 3, 2.0, Requant{}});
    const std::string message = MessageOf([&] { program->CreateKernel("groups"); });
    EXPECT_NE(message.find("no kernel groups; it has scale"), std::string::npos) << message;
    EXPECT_EQ(device_->counters().builds, builds);
  }
}

TEST_F(OpenClTest, ABinaryThatDoesNotLoadIsCompiledAnew) {
  ProgramCache& cache = Runtime::Get().program_cache();
  if (cache.state().mode != ProgramCache::Mode::kReadWrite) {
    GTEST_SKIP() << "the program cache is off";
  }
  const std::string name = UniqueName("scale damaged");
  const DevicePtr x = Make(std::vector<float>(8, 3.f)), y = Make(32);
  const auto run = [&] {
    const auto kernel = device_->Build(ScaleText(name))->CreateKernel("scale");
    kernel->Launch(8, {8, x, y, 3, 2.0, Requant{}});
    EXPECT_EQ(Read<float>(y, 8), std::vector<float>(8, 6.f));
  };
  run();
  int damaged = 0;
  for (const ProgramCache::Row& row : cache.List()) {
    if (row.program != name) continue;
    ProgramCache::Entry entry;
    entry.binary = "this is not a program";
    cache.Store(row.key, row.device, row.program, entry);
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  device_->ResetCounters();
  run();
  EXPECT_EQ(device_->counters().builds, 1);
  device_->ResetCounters();
  run();
  EXPECT_EQ(device_->counters().builds, 0) << "the good binary took the bad one's place";
}

TEST_F(OpenClTest, EventsMeasureTime) {
  const DevicePtr a = Make(1 << 24), b = Make(1 << 24);
  device_->RecordEvent()->Wait();
  for (const int copies : {1, 100}) {
    device_->Synchronize();
    const auto wall_start = std::chrono::steady_clock::now();
    const auto start = device_->RecordEvent();
    for (int i = 0; i < copies; ++i) device_->Copy(b, a, 1 << 24);
    const auto end = device_->RecordEvent();
    end->Wait();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_start;
    const double seconds = end->SecondsSince(*start);
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, wall.count() * 1.1 + 1e-3);
    if (copies == 100) {
      EXPECT_GT(seconds, wall.count() * 0.5);
    }
    EXPECT_LE(start->SecondsSince(*end), 0);
  }
}

TEST_F(OpenClTest, StreamsAreQueuesOfTheirOwn) {
  void* const first = device_->native_stream();
  const DevicePtr buffer = Make(std::vector<uint8_t>(64, 1));
  device_->Synchronize();
  {
    const auto stream = device_->CreateStream();
    {
      const StreamScope scope(device_, stream.get());
      EXPECT_NE(device_->native_stream(), first);
      device_->Fill(buffer, 7, 64);
      const StreamScope inner(device_, nullptr);
      EXPECT_EQ(device_->native_stream(), first);
    }
    EXPECT_EQ(device_->native_stream(), first);
    EXPECT_EQ(Read<uint8_t>(buffer, 64), std::vector<uint8_t>(64, 7));
  }
}

TEST_F(OpenClTest, ThreadsShareADevice) {
  const auto program = device_->Build(ScaleText("scale threads"));
  constexpr int kThreads = 4;
  std::vector<DevicePtr> from, to;
  for (int t = 0; t < kThreads; ++t) {
    from.push_back(Make(std::vector<float>(256, float(t))));
    to.push_back(Make(1024));
  }
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto kernel = program->CreateKernel("scale");
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> values(256, float(t + i));
        device_->Upload(from[t], values.data(), 1024);
        kernel->Launch(256, {256, from[t], to[t], 3, 2.0, Requant{}});
        wrong[t] += Read<float>(to[t], 256) != std::vector<float>(256, 2.f * (t + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST_F(OpenClTest, WarningsOfTheCompilerAreNotPrinted) {
  ProgramText text = ScaleText(UniqueName("scale warnings"));
  text.source = "#warning noise\n" + text.source;
  testing::internal::CaptureStderr();
  device_->Build(text, false)->CreateKernel("scale");
  device_->Synchronize();
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("warning"), std::string::npos);
}

TEST_F(OpenClTest, AForkedChildIsToldWhyNothingWorks) {
  const auto program = device_->Build(ScaleText("scale fork"));
  auto kernel = program->CreateKernel("scale");
  const DevicePtr x = Make(std::vector<float>(256, 1)), y = Make(1024);
  auto event = device_->RecordEvent();
  const auto refused = [&](const std::function<void()>& action) {
    const std::string message = MessageOf(action);
    return message.starts_with(device_->info().id) &&
           message.find("before this process was forked") != std::string::npos;
  };
  EXPECT_EQ(InChild([&] {
              float value = 0;
              const bool all =
                  refused([&] { device_->Upload(x, &value, 4); }) &&
                  refused([&] { device_->Download(&value, x, 4); }) &&
                  refused([&] { device_->Fill(x, 0, 4); }) &&
                  refused([&] { device_->Synchronize(); }) &&
                  refused([&] { device_->RecordEvent(); }) && refused([&] { event->Wait(); }) &&
                  refused([&] { device_->Build(ScaleText("scale child")); }) && refused([&] {
                    kernel->Launch(256, {256, x, y, 3, 2.0, Requant{}});
                  });
              kernel.reset();
              event.reset();
              device_->ReleaseCache();
              return all ? 3 : 1;
            }),
            3);
  kernel->Launch(256, {256, x, y, 3, 2.0, Requant{}});
  EXPECT_EQ(Read<float>(y, 256), std::vector<float>(256, 2));
}

TEST_F(OpenClTest, ARequestThatIsTooLargeSaysSo) {
  const std::string message =
      MessageOf([&] { device_->Free(device_->Allocate(int64_t{1} << 50, "blob conv1")); });
  EXPECT_NE(message.find("blob conv1"), std::string::npos) << message;
  EXPECT_NE(message.find(device_->info().id), std::string::npos) << message;
}

}  // namespace
}  // namespace caffe
