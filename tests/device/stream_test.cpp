// Streams: the current stream of a thread, the waits between streams, and the reuse of freed
// memory.
#include "caffe/device/stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The null device orders streams as other devices do, so that waits can be counted without
// hardware.
class StreamOrderTest : public testing::Test {
 protected:
  // Runs `action` on a stream and returns how many other streams it waited for.
  int64_t WaitsOf(Stream* stream, const std::function<void()>& action) {
    const StreamScope scope(&device_, stream);
    const int64_t before = device_.counters().stream_waits;
    action();
    return device_.counters().stream_waits - before;
  }
  int64_t Fill(Stream* stream, DevicePtr target) {
    return WaitsOf(stream, [&] { device_.Fill(target, 0, 64); });
  }
  int64_t Read(Stream* stream, DevicePtr source) {
    char bytes[64];
    return WaitsOf(stream, [&] { device_.Download(bytes, source, 64); });
  }

  NullDevice device_;
};

TEST_F(StreamOrderTest, ScopesNestAndBelongToTheirThread) {
  const auto a = device_.CreateStream(), b = device_.CreateStream();
  Stream* const first = device_.default_stream();
  EXPECT_EQ(device_.current_stream(), first);
  {
    const StreamScope outer(&device_, a.get());
    EXPECT_EQ(device_.current_stream(), a.get());
    Stream* elsewhere = nullptr;
    std::thread([&] { elsewhere = device_.current_stream(); }).join();
    EXPECT_EQ(elsewhere, first);
    {
      NullDevice other;
      const auto stream = other.CreateStream();
      const StreamScope inner(&other, stream.get());
      EXPECT_EQ(device_.current_stream(), a.get());
      EXPECT_EQ(other.current_stream(), stream.get());
      EXPECT_TRUE(Holds(MessageOf([&] { StreamScope(&device_, stream.get()); }),
                        "null: the stream belongs to another device"));
      EXPECT_EQ(device_.current_stream(), a.get());
    }
    {
      const StreamScope inner(&device_, b.get());
      EXPECT_EQ(device_.current_stream(), b.get());
      const StreamScope innermost(&device_, nullptr);
      EXPECT_EQ(device_.current_stream(), first);
    }
    EXPECT_EQ(device_.current_stream(), a.get());
  }
  EXPECT_EQ(device_.current_stream(), first);
}

TEST_F(StreamOrderTest, EventsOfAnotherDeviceAreRefused) {
  NullDevice other;
  const auto event = other.RecordEvent();
  EXPECT_TRUE(Holds(MessageOf([&] { device_.current_stream()->WaitFor(*event); }),
                    "null cannot wait for an event of another device"));
}

TEST_F(StreamOrderTest, UsersOfABufferWaitForItsWriter) {
  const DevicePtr buffer = device_.Allocate(64, "a test");
  const auto a = device_.CreateStream(), b = device_.CreateStream();
  EXPECT_EQ(Fill(nullptr, buffer), 0);
  EXPECT_EQ(Read(a.get(), buffer), 1) << "the default stream has written to it";
  EXPECT_EQ(Read(a.get(), buffer), 0) << "a has already waited";
  EXPECT_EQ(Read(b.get(), buffer), 1) << "readers do not wait for readers";
  EXPECT_EQ(Fill(a.get(), buffer), 2) << "the default stream has written to it, b has read it";
  EXPECT_EQ(Fill(a.get(), buffer), 0);
  EXPECT_EQ(Read(b.get(), buffer), 1) << "a has written to it again";
  EXPECT_EQ(Read(nullptr, buffer), 1);
  device_.Free(buffer);
}

TEST_F(StreamOrderTest, ALaunchWaitsForEveryStreamOnce) {
  Blob<float> x(&device_, {16}), z(&device_, {16}), y(&device_, {16});
  const auto add = ProgramBuilder(&device_, "relu").Body("neuron/relu").Build();
  const auto kernel = add->CreateKernel("relu_forward");
  const auto a = device_.CreateStream(), b = device_.CreateStream();
  const auto on = [&](Stream* stream, Blob<float>& from, Blob<float>& to) {
    return WaitsOf(stream, [&] { kernel->Launch(16, {16, from.Data(), to.MutableData(), 1.0}); });
  };
  on(nullptr, x, z);
  EXPECT_EQ(on(a.get(), x, y), 1) << "the default stream has written to x; y is new";
  EXPECT_EQ(on(a.get(), x, y), 0);
  EXPECT_EQ(on(b.get(), y, z), 2) << "a has written to y, the default stream to z";
  EXPECT_EQ(on(a.get(), x, x), 1) << "the default stream has written to x, and only a has read it";
}

TEST_F(StreamOrderTest, FreedMemoryIsTakenInStreamOrder) {
  const auto a = device_.CreateStream(), b = device_.CreateStream();
  const auto allocate = [&](Stream* stream) {
    DevicePtr pointer;
    const int64_t waits = WaitsOf(stream, [&] { pointer = device_.Allocate(1000, "a test"); });
    return std::pair(pointer, waits);
  };
  const DevicePtr first = allocate(a.get()).first;
  Fill(a.get(), first);
  device_.Free(first);
  EXPECT_EQ(allocate(a.get()), std::pair(first, int64_t{0})) << "the same stream does not wait";
  Read(nullptr, first);
  // Freed by a thread without a scope: the wait depends on the streams that used the buffer.
  device_.Free(first);
  EXPECT_EQ(allocate(b.get()), std::pair(first, int64_t{2}));
  EXPECT_EQ(Fill(b.get(), first), 0) << "b has waited when it took the buffer";
  // A stream prefers memory that only it has used.
  const DevicePtr second = allocate(a.get()).first;
  EXPECT_FALSE(second == first);
  device_.Free(first);
  device_.Free(second);
  EXPECT_EQ(allocate(a.get()), std::pair(second, int64_t{0}));
  EXPECT_EQ(allocate(a.get()), std::pair(first, int64_t{1}));
}

TEST_F(StreamOrderTest, ABufferOutlivesTheStreamThatUsedIt) {
  const DevicePtr used = device_.Allocate(64, "a test"), freed = device_.Allocate(5000, "a test");
  auto a = device_.CreateStream();
  Fill(a.get(), used);
  Fill(a.get(), freed);
  device_.Free(freed);
  a.reset();  // waits for its work
  EXPECT_EQ(Read(nullptr, used), 0);
  EXPECT_EQ(WaitsOf(nullptr, [&] { EXPECT_EQ(device_.Allocate(5000, "a test"), freed); }), 0);
  // The next stream has the same index, but is a different stream.
  const auto b = device_.CreateStream();
  Fill(nullptr, used);
  EXPECT_EQ(Read(b.get(), used), 1);
}

TEST_F(StreamOrderTest, StreamsAreCounted) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < Device::kMostStreams; ++i) streams.push_back(device_.CreateStream());
  EXPECT_TRUE(Holds(MessageOf([&] { device_.CreateStream(); }), "there are 63 streams already"));
  streams.pop_back();
  EXPECT_NO_THROW(device_.CreateStream());
}

TEST_F(StreamOrderTest, WithoutStreamsNothingIsNoted) {
  const DevicePtr buffer = device_.Allocate(64, "a test");
  std::thread([&] { Fill(nullptr, buffer); }).join();
  EXPECT_EQ(Read(nullptr, buffer), 0);
  EXPECT_FALSE(device_.has_streams());
}

TEST(StreamsOfADeviceThatIsGoneTest, MayStillGo) {
  auto device = std::make_unique<NullDevice>();
  auto stream = device->CreateStream();
  const auto event = device->RecordEvent();
  device.reset();
  stream.reset();
}

std::string NameOf(const testing::TestParamInfo<Device*>& info) {
  std::string name = info.param->info().id;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
}

// These tests run on every device of this machine.
class StreamTest : public testing::TestWithParam<Device*> {
 protected:
  static constexpr int64_t kCount = 1 << 12;
  static constexpr int64_t kBytes = kCount * 4;

  DevicePtr Make() { return device_->Allocate(kBytes, "a test"); }
  std::vector<float> Read(DevicePtr source) {
    std::vector<float> values(kCount);
    device_->Download(values.data(), source, kBytes);
    return values;
  }
  void Put(DevicePtr target, float value) {
    const std::vector<float> values(kCount, value);
    device_->Upload(target, values.data(), kBytes);
  }

  Device* const device_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Devices, StreamTest, testing::ValuesIn(TestDevices()), NameOf);

// Keeps a stream busy with long copies between two private buffers.
class Busy {
 public:
  Busy(Device* device, Stream* stream, double seconds = 0.01) : device_(device) {
    const StreamScope scope(device, stream);
    a_ = device->Allocate(bytes_, "a test");
    b_ = device->Allocate(bytes_, "a test");
    device->Fill(a_, 0, bytes_);
    device->Fill(b_, 0, bytes_);
    CopyToAndFro(1);
    const auto start = device->RecordEvent();
    CopyToAndFro(2);
    const double taken = device->RecordEvent()->SecondsSince(*start);
    CopyToAndFro(2 + static_cast<int>(2 * seconds / std::max(taken, 1e-6)));
  }
  ~Busy() {
    device_->Free(a_);
    device_->Free(b_);
  }

 private:
  void CopyToAndFro(int times) {
    for (int i = 0; i < times; ++i) {
      device_->Copy(b_, a_, bytes_);
      device_->Copy(a_, b_, bytes_);
    }
  }

  Device* const device_;
  // A queue holds a limited number of copies, so those of a fast device are longer.
  const int64_t bytes_ = (device_->info().is_cpu_type ? 24 : 256) << 20;
  DevicePtr a_, b_;
};

TEST_P(StreamTest, WaitsForAnEventOfAnotherStream) {
  const auto a = device_->CreateStream(), b = device_->CreateStream();
  std::unique_ptr<Event> done;
  {
    const Busy busy(device_, a.get());
    const StreamScope scope(device_, a.get());
    done = device_->RecordEvent();
  }
  b->WaitFor(*done);
  const auto behind = b->Record(true);
  behind->Wait();
  EXPECT_GE(behind->SecondsSince(*done), 0);
  const auto untimed = b->Record(false);
  untimed->Wait();
  if (device_->backend() != "cpu") {
    EXPECT_TRUE(Holds(MessageOf([&] { untimed->SecondsSince(*done); }), "without timing"));
  }
}

TEST_P(StreamTest, OneStreamDoesNotWaitForAnother) {
  if (device_->backend() == "cpu") GTEST_SKIP() << "calls return when their work is done";
  const DevicePtr mine = Make();
  Put(mine, 1);
  device_->Synchronize();
  const auto a = device_->CreateStream(), b = device_->CreateStream();
  {
    // A stream's first copies make its staging memory, for which a driver may wait for all streams.
    const StreamScope scope(device_, b.get());
    Put(mine, 1);
    Read(mine);
  }
  const Busy busy(device_, a.get(), 0.1);
  const int64_t waits = device_->counters().stream_waits;
  std::unique_ptr<Event> last_of_a = a->Record(true);
  std::unique_ptr<Event> of_b;
  {
    const StreamScope scope(device_, b.get());
    Put(mine, 2);
    of_b = device_->RecordEvent();
    EXPECT_EQ(Read(mine), std::vector<float>(kCount, 2));
  }
  EXPECT_EQ(device_->counters().stream_waits, waits);
  // OpenCL drivers may run queues one after another.
  if (device_->backend() == "cuda") {
    EXPECT_GT(last_of_a->SecondsSince(*of_b), 0) << "b finished while a was busy";
  }
  device_->Free(mine);
}

// A slow stream reads a buffer that is freed meanwhile; another stream gets it and writes to it.
TEST_P(StreamTest, FreedMemoryIsNotWrittenWhileAnotherStreamReadsIt) {
  const auto a = device_->CreateStream(), b = device_->CreateStream();
  const DevicePtr result = Make();
  for (int round = 0; round < 3; ++round) {
    DevicePtr first;
    {
      const StreamScope scope(device_, a.get());
      first = Make();
      Put(first, 1);
      const Busy busy(device_, a.get());
      device_->Copy(result, first, kBytes);
    }
    device_->Free(first);
    DevicePtr second;
    {
      const StreamScope scope(device_, b.get());
      second = Make();
      EXPECT_EQ(second, first) << "freed memory is reused at once";
      Put(second, 2);
      EXPECT_EQ(Read(second), std::vector<float>(kCount, 2));
    }
    EXPECT_EQ(Read(result), std::vector<float>(kCount, 1));
    device_->Free(second);
  }
  device_->Free(result);
}

// A thread reads a blob that another thread's stream has filled, as with parameters and results.
TEST_P(StreamTest, ABlobCrossesStreams) {
  Blob<float> x(device_, {kCount}), y(device_, {kCount});
  const auto kernel =
      ProgramBuilder(device_, "relu").Body("neuron/relu").Build()->CreateKernel("relu_forward");
  for (int round = 1; round < 4; ++round) {
    std::thread([&] {
      const auto stream = device_->CreateStream();
      const StreamScope scope(device_, stream.get());
      const Busy busy(device_, stream.get());
      x.SetData(std::vector<double>(kCount, round));
      kernel->Launch(kCount, {kCount, x.Data(), y.MutableData(), 1.0});
    }).join();
    EXPECT_EQ(y.DataAsDouble(), std::vector<double>(kCount, round));
  }
}

// Each thread has a stream; all of them allocate and free memory of the same sizes.
TEST_P(StreamTest, ThreadsWithStreamsShareTheMemory) {
  constexpr int kThreads = 4;
  const auto program = ProgramBuilder(device_, "relu").Body("neuron/relu").Build();
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto kernel = program->CreateKernel("relu_forward");
      const auto stream = device_->CreateStream();
      const StreamScope scope(device_, stream.get());
      for (int i = 0; i < 50; ++i) {
        const float value = static_cast<float>(1 + t * 100 + i);
        const DevicePtr x = Make(), y = Make();
        Put(x, value);
        kernel->Launch(kCount, {kCount, x, y, 1.0});
        device_->Free(x);
        const DevicePtr z = Make();
        kernel->Launch(kCount, {kCount, y, z, 1.0});
        device_->Free(y);
        wrong[t] += Read(z) != std::vector<float>(kCount, value);
        device_->Free(z);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST_P(StreamTest, UploadsKeepTheirSourcesContent) {
  const auto a = device_->CreateStream(), b = device_->CreateStream();
  constexpr int64_t kLarge = 40 << 20;  // larger than the staging memory
  std::vector<DevicePtr> targets;
  std::vector<uint8_t> source(kLarge);
  for (int i = 0; i < 4; ++i) {
    const StreamScope scope(device_, i % 2 ? a.get() : b.get());
    targets.push_back(device_->Allocate(kLarge, "a test"));
    std::fill(source.begin(), source.end(), static_cast<uint8_t>(i + 1));
    device_->Upload(targets.back(), source.data(), kLarge);
  }
  for (int i = 0; i < 4; ++i) {
    device_->Download(source.data(), targets[i], kLarge);
    EXPECT_EQ(source, std::vector<uint8_t>(kLarge, static_cast<uint8_t>(i + 1)));
    device_->Free(targets[i]);
  }
}

}  // namespace
}  // namespace caffe
