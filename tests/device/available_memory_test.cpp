// The memory that /proc, control groups and limits leave, from copies of their files.
#include "caffe/device/available_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/null_device.hpp"
#include "io/temporary_folder.hpp"
#include "support/in_child.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

class AvailableMemoryTest : public testing::Test {
 protected:
  ~AvailableMemoryTest() override { SetHostMemoryRoot("/"); }

  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void PutMeminfo(int64_t available, int64_t swap = 0) {
    Put("proc/meminfo", Concat("MemTotal:       24684092 kB\nMemFree:          100 kB\n",
                               "MemAvailable:   ", available, " kB\nSwapTotal:      99999 kB\n",
                               "SwapFree:       ", swap, " kB\n"));
  }
  AvailableMemory Read() { return AvailableHostMemory(folder_ / ""); }
  void Expect(int64_t bytes, const std::string& limit) {
    const AvailableMemory memory = Read();
    EXPECT_EQ(memory.bytes, bytes);
    EXPECT_EQ(memory.limit, limit);
  }

  TemporaryFolder folder_;
};

TEST_F(AvailableMemoryTest, OfTheMachine) {
  PutMeminfo(1000);
  Expect(1000 << 10, "MemAvailable of /proc/meminfo");
  PutMeminfo(1000, 24);
  Expect(1024 << 10, "MemAvailable of /proc/meminfo, with SwapFree");
}

TEST_F(AvailableMemoryTest, WithoutFilesThereIsNoLimit) {
  EXPECT_GT(Read().bytes, int64_t{1} << 60);
  EXPECT_EQ(Read().limit, "");
}

TEST_F(AvailableMemoryTest, OfAGroupOfVersion2AndItsAncestors) {
  PutMeminfo(1 << 20);
  Put("proc/self/cgroup", "0::/user.slice/job\n");
  Put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  Put("sys/fs/cgroup/user.slice/job/memory.current", "5000\n");
  Expect(int64_t{1} << 30, "MemAvailable of /proc/meminfo");
  Put("sys/fs/cgroup/user.slice/job/memory.max", "1000000\n");
  Expect(995000, "memory.max of control group /user.slice/job");
  // The page cache is given back.
  Put("sys/fs/cgroup/user.slice/job/memory.stat", "anon 10\ninactive_file 3000\nactive_file 500\n");
  Expect(998500, "memory.max of control group /user.slice/job");
  Put("sys/fs/cgroup/user.slice/memory.max", "70000\n");
  Put("sys/fs/cgroup/user.slice/memory.current", "60000\n");
  Expect(10000, "memory.max of control group /user.slice");
  // More than the limit is in use.
  Put("sys/fs/cgroup/user.slice/memory.current", "80000\n");
  Expect(0, "memory.max of control group /user.slice");
}

TEST_F(AvailableMemoryTest, OfAContainerThatIsItsOwnRoot) {
  PutMeminfo(1 << 20);
  Put("proc/self/cgroup", "0::/\n");
  Put("sys/fs/cgroup/memory.max", "9000\n");
  Put("sys/fs/cgroup/memory.current", "1000\n");
  Expect(8000, "memory.max of control group /");
}

TEST_F(AvailableMemoryTest, OfAGroupOfVersion1) {
  PutMeminfo(1 << 20);
  Put("proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/docker/12\n0::/\n");
  // In the container the group is the root of what is mounted.
  Put("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
  Put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  Put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n");
  Expect(402000, "memory.limit_in_bytes of control group /");
  Put("sys/fs/cgroup/memory/docker/12/memory.limit_in_bytes", "9223372036854771712\n");
  Put("sys/fs/cgroup/memory/docker/12/memory.usage_in_bytes", "100\n");
  Expect(402000, "memory.limit_in_bytes of control group /");
}

TEST_F(AvailableMemoryTest, UnlimitedGroupsOfVersion1AreNoLimit) {
  PutMeminfo(1000, 10);
  Put("proc/self/cgroup", "4:memory:/a\n");
  Put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  Put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100\n");
  Expect(1010 << 10, "MemAvailable of /proc/meminfo, with SwapFree");
}

TEST_F(AvailableMemoryTest, OfTheAddressSpace) {
  PutMeminfo(1 << 30);
  EXPECT_EQ(InChild([&] {
              constexpr int64_t kMost = int64_t{1} << 36;
              const rlimit space{kMost, kMost};
              setrlimit(RLIMIT_AS, &space);
              const AvailableMemory memory = Read();
              return memory.limit == "ulimit -v" && memory.bytes < kMost ? 3 : 1;
            }),
            3);
}

TEST_F(AvailableMemoryTest, ReservedMemoryIsNotAvailable) {
  PutMeminfo(1000);
  SetHostMemoryRoot(folder_ / "");
  CpuDevice device, other;
  {
    const MemoryReservation reserved(&device, 24 << 10, "the solver's history");
    EXPECT_EQ(AvailableMemoryOf(device).bytes, 976 << 10);
    EXPECT_EQ(AvailableMemoryOf(device).limit,
              "MemAvailable of /proc/meminfo, less 24576 bytes for the solver's history");
    EXPECT_EQ(AvailableMemoryOf(other).bytes, 1000 << 10);
  }
  // Memory that the device keeps for later requests is available.
  device.Free(device.Allocate(4096, "a test"));
  EXPECT_EQ(AvailableMemoryOf(device).bytes, 1004 << 10);
}

TEST_F(AvailableMemoryTest, OfThisMachine) {
  const AvailableMemory memory = AvailableHostMemory("/");
  EXPECT_GT(memory.bytes, 1 << 20);
  EXPECT_NE(memory.limit, "");
}

TEST(MemoryCheckTest, CanBeSwitchedOff) {
  EXPECT_TRUE(ChecksMemory());
  const ScopedVariable off("CAFFE_MEMORY_CHECK", "off");
  EXPECT_FALSE(ChecksMemory());
}

}  // namespace
}  // namespace caffe
