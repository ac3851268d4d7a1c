#pragma once

#include <cstdint>
#include <string>

#include "caffe/device/device.hpp"

namespace caffe {

// How much more memory can be taken, and what limits it: "MemAvailable of /proc/meminfo".
struct AvailableMemory {
  int64_t bytes = 0;
  std::string limit;
};

// Returns what the host has: the least of MemAvailable, of what the control groups (version 1 or 2)
// of this process and their ancestors leave, and of `ulimit -v`. The page cache of a group counts
// as available, and so does swap. `root` is "/", or a folder with copies of proc/ and sys/.
AvailableMemory AvailableHostMemory(const std::string& root);
// Tests have the functions below read another root.
void SetHostMemoryRoot(const std::string& root);

// Returns what the device has. Freed memory that it keeps counts as available; reservations do not.
AvailableMemory AvailableMemoryOf(const Device& device);

// Throws OutOfMemory if the device does not have these bytes: for large arrays that are filled as
// soon as they are allocated, before a net's forecast. `purpose` names them.
void CheckAvailableMemory(const Device& device, int64_t bytes, const std::string& purpose);

// Memory that this process is going to take, such as a solver's history.
class MemoryReservation {
 public:
  // `purpose` for messages: "the solver's history".
  MemoryReservation(const Device* device, int64_t bytes, std::string purpose);
  ~MemoryReservation();
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
};

// False if CAFFE_MEMORY_CHECK is `off`: nothing is compared with AvailableMemoryOf.
bool ChecksMemory();

}  // namespace caffe
