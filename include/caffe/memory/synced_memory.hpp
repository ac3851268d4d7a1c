#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// One array with a copy on the host and one on a device. It records which copy is current and
// copies when the other one is requested. New memory reads as zeros. Used by one thread at a time.
//
// On the device it is a slice of a DeviceBuffer: of its own buffer, which is allocated at the first
// use, or of an arena shared with other memories. Version, host copy and state belong to the slice.
//
// On the CPU device both copies are usually one: the host copy is the slice of the buffer. A memory
// in an arena with a view has two copies there, too, because a view never holds an arena.
class SyncedMemory : public std::enable_shared_from_this<SyncedMemory> {
  // kUndefined: will be overwritten as a whole; reads as zeros until then. kElsewhere: not stored.
  enum class Head { kEmpty, kUndefined, kHost, kDevice, kSynced, kElsewhere };
  enum class Room { kOwn, kSlice, kBorrowed };

 public:
  // Makes content that is not stored: recomputes it, converts it from another layout, or fills it.
  class Source {
   public:
    virtual ~Source() = default;
    // Writes all of `memory`, by mutable_host_data or mutable_device_data.
    virtual void Make(SyncedMemory* memory) = 0;
  };

  // `purpose` names it in messages, for example "blob conv1". Memory is allocated at the first use.
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
  // Does what mutable_device_data does before the caller writes: uploads or makes the content. Does
  // not count as written.
  DevicePtr PrepareToWrite();

  // Changed by every mutable access, with numbers from one counter of all memories: DataStamp
  // compares it.
  uint64_t version() const { return version_; }
  // Moves to its own buffer on another device; the content is copied through the host.
  void SetDevice(Device* device);

  // Shares the host copy with a view (a NumPy array) that may outlive this object. Counts as
  // written: the view may be destroyed before writes through it can be detected. A view holds only
  // the bytes of this memory, never an arena: a borrowed slice is first replaced by an own buffer.
  std::shared_ptr<void> View();
  // True while a view exists. Before a forward its memory counts as written on the host.
  bool has_view() const { return host_.use_count() > 1; }
  // Marks the host copy as just written, because a view may have written it.
  void MarkHostWritten();
  // Marks the whole device copy as just written, by a launch or a fill over the arena.
  void MarkDeviceWritten();
  // Call this if launches will overwrite the whole content: writes on the host are not uploaded,
  // and content that is not stored is not made.
  void ForgetHostWrites();

  // The buffer of the device copy, which begins at byte `offset`. Null before the first use.
  const std::shared_ptr<DeviceBuffer>& buffer() const { return buffer_; }
  int64_t offset() const { return offset_; }
  // Moves the device copy to the slice of `buffer` that begins at byte `offset`, which no other
  // memory uses. The content is kept; views stay valid.
  void MoveInto(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  // The same with a slice that other memories use at other times: the content is lost and undefined
  // until it is written. Does nothing and returns false while a view exists.
  bool Borrow(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  bool borrowed() const { return room_ == Room::kBorrowed; }
  // Whether the device copy begins at byte `offset` of that of `whole`, in the same buffer.
  bool LiesIn(const SyncedMemory& whole, int64_t offset) const {
    return buffer_ && buffer_ == whole.buffer_ && offset_ == whole.offset_ + offset;
  }
  // Returns a borrowed slice: the content is lost and undefined until it is written, in a buffer of
  // this memory's own. Does nothing for other memories.
  void Return();
  // Drops the content: the next access calls `source` to make it, in this memory's own buffer. A
  // borrowed slice is returned. The access throws if the source does not exist any more.
  void SetSource(std::weak_ptr<Source> source);
  // The same, with a source that this memory keeps until the content is written or made, and whose
  // content counts as written now: making it changes no version.
  void OwnSource(std::shared_ptr<Source> source);
  // Drops the content as OwnSource does. `form` has it as a file stores it, and stays until it is
  // written by other accesses than a view. An operator that reads the form needs no content.
  void SetForm(std::shared_ptr<Source> form);
  // Null without SetForm, and after the content was written.
  const std::shared_ptr<Source>& form() const { return form_; }
  // False if a view may have written the content after SetForm.
  bool form_is_content() const { return version_ == form_version_; }
  // Takes bytes that others read, too, as the content, without a copy where the device is the CPU.
  // They are never written: before the first write the content is copied to memory of its own. In
  // an arena and while a view exists, they are copied at once.
  void Adopt(std::shared_ptr<const void> bytes);
  // Whether the host copy is still the adopted bytes.
  bool adopted() const { return adopted_; }
  // Frees the memory; the next access calls `source` to make the same content again, so the version
  // stays. Does nothing if there is no content, while a view exists, and in an arena.
  void FreeUntilAccess(std::weak_ptr<Source> source);
  // Frees the device copy if the host has the content, too; the next access on the device uploads
  // it. Does nothing in an arena, and where both copies are one.
  void FreeDeviceCopy();
  // Everything but the content and the host copy. The state of a memory can be restored as long as
  // neither copy was written after Save.
  class State {
    friend class SyncedMemory;
    Head head;
    Room room;
    std::shared_ptr<DeviceBuffer> buffer;
    int64_t offset;
    uint64_t version;
    std::weak_ptr<Source> source;
    std::shared_ptr<Source> own_source, form;
    uint64_t form_version;
    bool same_content;
  };
  State Save() const;
  void Restore(const State& state);
  // False after SetSource, until the content is written or made.
  bool stored() const { return head_ != Head::kElsewhere; }

 private:
  bool filled() const {
    return head_ == Head::kHost || head_ == Head::kDevice || head_ == Head::kSynced;
  }
  bool one_copy() const;
  DevicePtr pointer() const;
  void NoteExtent() const;
  void NeedHost();
  void NeedDevice();
  void ToHost();
  void ToDevice();
  void Make();
  void CheckFits(const DeviceBuffer& buffer, int64_t offset) const;
  void TakeOwnBuffer();
  void SeparateHostCopy();
  void CopyAdopted();
  void ForgetAdopted();
  void Written();

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
  std::shared_ptr<Source> own_source_;
  bool same_content_ = false;  // what the source makes is what there was
  std::shared_ptr<Source> form_;
  uint64_t form_version_ = 0;
  bool adopted_ = false;  // host_ must not be written
};

}  // namespace caffe
