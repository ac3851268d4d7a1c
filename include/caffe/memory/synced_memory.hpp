#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// One array with a copy on the host and one on a device. A copy that is not current is brought up
// to date when it is requested. New memory reads as zeros. Used by one thread at a time.
//
// Its state is three values: which copies are current (Residency), where the device copy lies
// (Placement), and what makes content that is not stored (Origin).
//
// On the CPU device both copies are usually one: the host copy is the slice of the buffer. A memory
// in an arena with a view has two copies there, too, because a view never holds an arena.
class SyncedMemory : public std::enable_shared_from_this<SyncedMemory> {
 public:
  // Makes content that is not stored: recomputes it, converts it from another layout, or fills it.
  class Source {
   public:
    virtual ~Source() = default;
    // Writes all of `memory`, by mutable_host_data or mutable_device_data.
    virtual void Make(SyncedMemory* memory) = 0;
  };

  struct Residency {
    bool host = false, device = false;  // without both, it is not stored, or reads as zeros
    bool discarded = false;             // nothing is brought or made for the next write
    uint64_t version = 0;
    bool filled() const { return host || device; }
  };
  struct Placement {
    enum { kOwn, kSlice, kBorrowed } kind = kOwn;
    std::shared_ptr<DeviceBuffer> buffer;  // kOwn: null before the first use
    int64_t offset = 0;
  };
  struct Origin {
    bool pending = false;  // the content is not stored, `source` makes it
    std::weak_ptr<Source> source;
    std::shared_ptr<Source> own;  // `source`, if it is kept
    bool same_content = false;    // what it makes is what there was
    std::shared_ptr<Source> form;
    uint64_t form_version = 0;
  };
  // Everything but the content and the host copy. The state of a memory can be restored as long as
  // neither copy was written after Save.
  struct State {
    Residency residency;
    Placement placement;
    Origin origin;
  };

  // `purpose` names it in messages, for example "blob conv1". Memory is allocated at the first use.
  SyncedMemory(int64_t bytes, Device* device, std::string purpose);
  SyncedMemory(const SyncedMemory&) = delete;
  SyncedMemory& operator=(const SyncedMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  Device* device() const { return device_; }
  const std::string& purpose() const { return purpose_; }
  // Changed by every write, to a number from one counter of all memories: DataStamp compares it.
  uint64_t version() const { return residency_.version; }
  // False if the next access has a source make the content.
  bool stored() const { return !origin_.pending; }

  const void* host_data();
  DevicePtr device_data();
  // The caller writes a part of the content or all of it; the rest is kept.
  void* mutable_host_data() { return WriteHost(0); }
  DevicePtr mutable_device_data() { return WriteDevice(0); }
  // The caller writes the first `bytes` bytes: content that is not stored is not made. If these are
  // all bytes, the old content is not uploaded, downloaded or cleared either.
  void* overwrite_host_data(int64_t bytes) { return WriteHost(bytes); }
  DevicePtr overwrite_device_data(int64_t bytes) { return WriteDevice(bytes); }
  // Announces that the next write covers what matters: content that is not stored is not made for
  // it, and a stale device copy is not brought up to date. Until then the content is kept; if it
  // was not stored, it reads as zeros.
  void Discard();
  // Does what mutable_device_data does before the caller writes: uploads or makes the content. Does
  // not count as written.
  DevicePtr PrepareToWrite();
  // Marks the whole device copy as just written, by a launch or a fill over the arena.
  void MarkDeviceWritten();
  // Moves to its own buffer on another device; the content is copied through the host.
  void SetDevice(Device* device);

  // Shares the host copy with a view (a NumPy array) that may outlive this object. Counts as
  // written: the view may be destroyed before writes through it can be detected. A view holds only
  // the bytes of this memory, never an arena: a borrowed slice is first replaced by an own buffer.
  std::shared_ptr<void> View();
  // True while a view exists. Before a forward its memory counts as written on the host.
  bool has_view() const { return host_.bytes.use_count() > 1; }
  // Marks the host copy as just written, because a view may have written it.
  void MarkHostWritten();

  // The buffer of the device copy, which begins at byte `offset`. Null before the first use.
  const std::shared_ptr<DeviceBuffer>& buffer() const { return placement_.buffer; }
  int64_t offset() const { return placement_.offset; }
  // Moves the device copy to the slice of `buffer` that begins at byte `offset`, which no other
  // memory uses. The content is kept; views stay valid.
  void MoveInto(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  // The same with a slice that other memories use at other times: the content is lost, as after
  // Discard. Does nothing and returns false while a view exists.
  bool Borrow(std::shared_ptr<DeviceBuffer> buffer, int64_t offset);
  bool borrowed() const { return placement_.kind == Placement::kBorrowed; }
  // Returns a borrowed slice: the content is lost; the next one lies in a buffer of this memory's
  // own. Does nothing for other memories.
  void Return();
  // Whether the device copy begins at byte `offset` of that of `whole`, in the same buffer.
  bool LiesIn(const SyncedMemory& whole, int64_t offset) const {
    return buffer() && buffer() == whole.buffer() && this->offset() == whole.offset() + offset;
  }

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
  const std::shared_ptr<Source>& form() const { return origin_.form; }
  // False if a view may have written the content after SetForm.
  bool form_is_content() const { return version() == origin_.form_version; }
  // Takes bytes that others read, too, as the content, without a copy where the device is the CPU.
  // They are never written: before the first write the content is copied to memory of its own. In
  // an arena and while a view exists, they are copied at once.
  void Adopt(std::shared_ptr<const void> bytes);
  // Whether the host copy is still the adopted bytes.
  bool adopted() const { return host_.adopted; }
  // Frees the memory; the next access calls `source` to make the same content again, so the version
  // stays. Does nothing if there is no content, while a view exists, and in an arena.
  void FreeUntilAccess(std::weak_ptr<Source> source);
  // Frees the device copy if the host has the content, too; the next access on the device uploads
  // it. Does nothing in an arena, and where both copies are one.
  void FreeDeviceCopy();

  State Save() const { return {residency_, placement_, origin_}; }
  void Restore(const State& state);

 private:
  struct HostCopy {
    std::shared_ptr<char> bytes;
    bool adopted = false;  // they must not be written
  };

  bool one_copy() const;
  DevicePtr pointer() const;
  void NoteExtent() const;
  void NeedHost();
  void NeedDevice();
  void ToHost();
  void ToDevice();
  void Make();
  void Change(Residency to);
  bool Keeps(int64_t overwritten) const;
  void* WriteHost(int64_t overwritten);
  DevicePtr WriteDevice(int64_t overwritten);
  void CheckFits(const DeviceBuffer& buffer, int64_t offset) const;
  void MoveTo(Placement to);
  void SeparateHostCopy();
  void CopyAdopted(bool keep = true);

  int64_t bytes_;
  Device* device_;
  std::string purpose_;
  HostCopy host_;
  Residency residency_;
  Placement placement_;
  Origin origin_;
};

}  // namespace caffe
