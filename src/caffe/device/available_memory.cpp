#include "caffe/device/available_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/device/cuda/free_memory.hpp"
#include "caffe/device/freed_memory.hpp"

namespace caffe {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kSmall = 64 << 20;  // below it, reading what is available takes too long

struct Reserved {
  const Device* device;
  int64_t bytes;
  std::string purpose;
};
struct Reservations {
  std::mutex mutex;
  std::string root = "/";
  std::map<const MemoryReservation*, Reserved> all;
};
Reservations& AllReservations() {
  static Reservations* const all = new Reservations;
  return *all;
}

// The number in a file of one number; none for "max", and if there is no such file.
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number) || number < 0) return std::nullopt;
  return number;
}

// The number behind a key at the start of a line; 0 if there is none.
int64_t NumberOf(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> word >> number && word == key) return number;
  }
  return 0;
}

struct Names {
  const char *limit, *usage, *inactive, *active;
};
constexpr Names kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file", "total_active_file"};
constexpr Names kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

// Lowers `least` to what the group `path` and its ancestors leave. A process in a container may see
// its own group as the root of the mounted folder, under which `path` does not exist.
void TakeGroups(const std::string& mounted, std::string path, const Names& names, int64_t swap,
                AvailableMemory* least) {
  while (true) {
    const std::string folder = mounted + (path == "/" ? "" : path) + "/";
    const std::optional<int64_t> limit = NumberIn(folder + names.limit);
    const std::optional<int64_t> usage = NumberIn(folder + names.usage);
    if (limit && usage) {
      const std::string stat = folder + "memory.stat";
      const int64_t cache = NumberOf(stat, names.inactive) + NumberOf(stat, names.active);
      const int64_t left = *limit - std::max<int64_t>(*usage - cache, 0);
      const int64_t bytes =
          *limit > kUnlimited - swap ? kUnlimited : std::max<int64_t>(left, 0) + swap;
      if (bytes < least->bytes) *least = {bytes, Concat(names.limit, " of control group ", path)};
    }
    if (path == "/") return;
    const size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
}

}  // namespace

AvailableMemory AvailableHostMemory(const std::string& root) {
  AvailableMemory least{kUnlimited, ""};
  const std::string meminfo = root + "/proc/meminfo";
  const int64_t free_swap = NumberOf(meminfo, "SwapFree:") << 10;
  if (const int64_t kibibytes = NumberOf(meminfo, "MemAvailable:"); kibibytes > 0) {
    least = {(kibibytes << 10) + free_swap, "MemAvailable of /proc/meminfo"};
    if (free_swap > 0) least.limit += ", with SwapFree";
  }
  // Lines such as "0::/user.slice" (version 2) and "4:memory:/docker/1234" (version 1).
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1), mounted = root + "/sys/fs/cgroup";
    if (controllers == ",,") {
      TakeGroups(mounted, path, kVersion2, free_swap, &least);
    } else if (controllers.find(",memory,") != std::string::npos) {
      TakeGroups(mounted + "/memory", path, kVersion1, free_swap, &least);
    }
  }
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const int64_t used = NumberIn("/proc/self/statm").value_or(0) * sysconf(_SC_PAGESIZE);
    const auto all = static_cast<int64_t>(std::min<rlim_t>(space.rlim_cur, kUnlimited));
    const int64_t left = std::max<int64_t>(all - used, 0);
    if (left < least.bytes) least = {left, "ulimit -v"};
  }
  return least;
}

void SetHostMemoryRoot(const std::string& root) {
  const std::lock_guard lock(AllReservations().mutex);
  AllReservations().root = root;
}

AvailableMemory AvailableMemoryOf(const Device& device) {
  const DeviceInfo& info = device.info();
  AvailableMemory memory{kUnlimited, ""};
  if (info.memory_bytes <= 0) return memory;
  if (info.is_cpu_type) {
    std::string root;
    {
      const std::lock_guard lock(AllReservations().mutex);
      root = AllReservations().root;
    }
    memory = AvailableHostMemory(root);
  } else if (const auto bytes = FreeCudaMemory(device)) {
    memory = {*bytes, "free memory of the device"};
  } else {
    const int64_t kept = device.bytes_in_use() + FreedBytes(device);
    memory = {std::max<int64_t>(info.memory_bytes - kept, 0), "memory of the device"};
  }
  if (memory.bytes == kUnlimited) return memory;
  memory.bytes += FreedBytes(device);
  const std::lock_guard lock(AllReservations().mutex);
  for (const auto& [key, reserved] : AllReservations().all) {
    if (reserved.device != &device || reserved.bytes == 0) continue;
    memory.bytes -= reserved.bytes;
    memory.limit += Concat(", less ", reserved.bytes, " bytes for ", reserved.purpose);
  }
  return memory;
}

void CheckAvailableMemory(const Device& device, int64_t bytes, const std::string& purpose) {
  if (bytes < kSmall || !ChecksMemory()) return;
  const AvailableMemory available = AvailableMemoryOf(device);
  if (bytes <= available.bytes) return;
  throw OutOfMemory(Concat(device.info().id, " (", device.info().name,
                           "): out of memory: ", purpose, " needs ", bytes, " bytes, and ",
                           std::max<int64_t>(available.bytes, 0), " are available (",
                           available.limit, "); CAFFE_MEMORY_CHECK=off runs it all the same"));
}

MemoryReservation::MemoryReservation(const Device* device, int64_t bytes, std::string purpose) {
  const std::lock_guard lock(AllReservations().mutex);
  AllReservations().all[this] = {device, bytes, std::move(purpose)};
}

MemoryReservation::~MemoryReservation() {
  const std::lock_guard lock(AllReservations().mutex);
  AllReservations().all.erase(this);
}

bool ChecksMemory() {
  const char* const value = std::getenv("CAFFE_MEMORY_CHECK");
  return !value || std::string_view(value) != "off";
}

}  // namespace caffe
