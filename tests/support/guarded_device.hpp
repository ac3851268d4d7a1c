#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "caffe/core/error.hpp"
#include "caffe/core/host_memory.hpp"
#include "support/keeping_device.hpp"

namespace caffe {

// Computes on the CPU, with guard zones before and after every buffer: writes beyond a buffer, by
// up to kGuard bytes, are found.
class GuardedDevice final : public KeepingDevice {
 public:
  static constexpr int64_t kGuard = 64 << 10;

  explicit GuardedDevice(Device* cpu) : KeepingDevice(cpu) {}
  ~GuardedDevice() override { FreeEverything(); }
  bool can_capture() const override { return false; }

  // The first byte beyond a buffer that was written since the last call; empty if there is none.
  std::string TakeDamage() {
    std::string damage;
    for (auto& [data, bytes] : buffers_) {
      for (const int64_t begin : {-kGuard, bytes}) {
        char* const zone = data + begin;
        char* const wrong = std::find_if(zone, zone + kGuard, [](char c) { return c != kByte; });
        if (wrong == zone + kGuard) continue;
        if (damage.empty()) {
          damage = Concat("byte ", wrong - data, " of a buffer of ", bytes, " bytes was written");
        }
        std::memset(zone, kByte, kGuard);
      }
    }
    return damage;
  }

 protected:
  void* DoAllocate(int64_t bytes) override {
    char* const memory = static_cast<char*>(AllocateHostMemory(bytes + 2 * kGuard, 256));
    if (!memory) return nullptr;
    std::memset(memory, kByte, kGuard);
    std::memset(memory + kGuard + bytes, kByte, kGuard);
    buffers_[memory + kGuard] = bytes;
    return memory + kGuard;
  }
  void DoFree(void* handle) noexcept override {
    char* const data = static_cast<char*>(handle);
    buffers_.erase(data);
    FreeHostMemory(data - kGuard);
  }

 private:
  static constexpr char kByte = 0x5b;
  std::map<char*, int64_t> buffers_;
};

}  // namespace caffe
