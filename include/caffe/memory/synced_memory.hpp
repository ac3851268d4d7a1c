#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// One array with a copy on the host and one on a device. It knows which copy is current and copies
// when the other one is asked for. Fresh memory reads as zeros. Used by one thread at a time.
//
// On the device it is a slice of a DeviceBuffer: of one of its own, which is allocated at first use,
// or of an arena that it shares with other memories. Version, host copy and the knowledge of what is
// current belong to the slice alone.
//
// On the CPU device both copies are usually one: the host copy is the slice of the buffer. A memory
// with a view in an arena has two copies there, too, because a view never holds an arena.
class SyncedMemory {
 public:
  // Makes a content that is not stored: recomputes it, or converts it from another layout.
  class Source {
   public:
    virtual ~Source() = default;
    // Writes all of `memory`, by mutable_host_data or mutable_device_data.
    virtual void Make(SyncedMemory* memory) = 0;
  };

  // `purpose` names it in messages, for example "blob conv1". Nothing is allocated before first use.
  SyncedMemory(int64_t bytes, Device* device, std::string purpose);
  SyncedMemory(const SyncedMemory&) = delete;
  SyncedMemory& operator=(const SyncedMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  Device* device() const { return device_; }
  const std::string& purpose() const { return purpose_; }

  const void* host_data();
  void* mutable_host_data();
  DevicePtr device_data();
  DevicePtr mutable_device_data();

  // Raised by every mutable access, from one counter of all memories: DataStamp compares it.
  uint64_t version() const { return version_; }
  // Moves to a buffer of its own on another device; the content travels through the host.
  void SetDevice(Device* device);

  // A share in the host copy for a view (a NumPy array) that may outlive this object. Counts as
  // written: the view may be gone before anybody can ask what was written through it. A view holds
  // the bytes of this memory only, never an arena: a borrowed slice gets a buffer of its own first.
  std::shared_ptr<void> View();
  // True while a view is alive. Before a forward its memory counts as written on the host.
  bool has_view() const { return host_.use_count() > 1; }
  // Counts the host copy as just written, whatever was written through a view.
  void MarkHostWritten();
  // Counts the device's copy as just written as a whole, by a launch or a fill over the arena.
  void MarkDeviceWritten();
  // All of the content is about to be overwritten by launches: what was written on the host is not
  // uploaded, and a content that is not stored is not made.
  void ForgetHostWrites();

  // The device's copy is `buffer` from byte `offset` on. Null before first use.
  const std::shared_ptr<DeviceBuffer>& buffer() const { return buffer_; }
  int64_t offset() const { return offset_; }
  // From now on the device's copy is the slice of `buffer` that begins at byte `offset`, which no
  // other memory uses. The content moves along; views stay live.
  void MoveInto(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  // The same with a slice that other memories use at other times: the content is lost and undefined
  // until it is written. Does nothing and returns false while there is a view.
  bool Borrow(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  bool borrowed() const { return room_ == Room::kBorrowed; }
  // The content is not stored any more: the next access has `source` make it, in a buffer of this
  // memory's own. A borrowed slice is given back. The access throws if the source is gone.
  void SetSource(std::weak_ptr<Source> source);
  // False after SetSource, until something is written or made.
  bool stored() const { return head_ != Head::kElsewhere; }

 private:
  // kUndefined: about to be written as a whole; reads as zeros until then. kElsewhere: not stored.
  enum class Head { kEmpty, kUndefined, kHost, kDevice, kSynced, kElsewhere };
  enum class Room { kOwn, kSlice, kBorrowed };
  bool filled() const {
    return head_ == Head::kHost || head_ == Head::kDevice || head_ == Head::kSynced;
  }
  bool one_copy() const;
  DevicePtr pointer() const;
  void NeedHost();
  void NeedDevice();
  void ToHost();
  void ToDevice();
  void Make();
  void CheckFits(const DeviceBuffer& buffer, int64_t offset) const;
  void TakeOwnBuffer();
  void SeparateHostCopy();

  int64_t bytes_;
  Device* device_;
  std::string purpose_;
  Head head_ = Head::kEmpty;
  Room room_ = Room::kOwn;
  std::shared_ptr<char> host_;
  std::shared_ptr<DeviceBuffer> buffer_;
  int64_t offset_ = 0;
  uint64_t version_ = 0;
  std::weak_ptr<Source> source_;
};

}  // namespace caffe
