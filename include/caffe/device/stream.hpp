#pragma once

#include <memory>

namespace caffe {

class Device;

// A point in a stream. It is reached when all work that was enqueued before it is done.
class Event {
 public:
  virtual ~Event() = default;
  // Waits on the host until the event is reached.
  virtual void Wait() = 0;
  // Seconds from `start` to this event; waits for both. Throws unless both were recorded on the
  // same device with timing.
  virtual double SecondsSince(Event& start) = 0;

 protected:
  explicit Event(const class Stream& stream);
  // Whether both events belong to the same device.
  bool SameDevice(const Event& other) const { return owner_ == other.owner_; }

 private:
  friend class Stream;
  std::shared_ptr<Device*> owner_;
};

// A queue of a device: the work that a thread enqueues on it runs in order. Work on different
// streams is ordered in two cases only: by WaitFor, and if both use the same buffer of
// Device::Allocate. A stream that reads a buffer waits for the last write of another stream; a
// stream that writes to a buffer waits for every stream that uses it. In both cases it waits for
// all work that the other stream has at that time, not only for the use of the buffer. The device
// waits, the host does not. On the CPU every call finishes its work before it returns, so streams
// have no effect.
//
// The destructor waits for the stream's work. No StreamScope of the stream may still exist then.
class Stream {
 public:
  virtual ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Records an event after the work that is enqueued now. An event without timing costs less.
  virtual std::unique_ptr<Event> Record(bool timed) = 0;
  // Work that is enqueued from now on starts after `event`, which may belong to another stream of
  // the device.
  void WaitFor(Event& event);
  // Waits on the host until all work on this stream is done.
  virtual void Synchronize() = 0;
  // The native handle: cudaStream_t, cl_command_queue; null on other devices.
  virtual void* native() const = 0;
  // 0 for the default stream and for all streams of the CPU. Others have an index from 1 to
  // Device::kMostStreams, which is unique among the device's existing streams.
  int index() const { return index_; }

 protected:
  explicit Stream(Device* device);
  virtual void DoWaitFor(Event& event) = 0;
  // Starts the enqueued work, even if it is never waited for.
  virtual void Flush() noexcept {}
  // The device, or null after its destruction.
  Device* device() const { return *owner_; }
  // The destructor of a derived class calls this after the stream's work is done, while the stream
  // can still record events. Afterwards no buffer refers to the stream.
  void Retire() noexcept;

 private:
  friend class Event;
  friend class BufferPool;
  friend class StreamScope;
  std::shared_ptr<Device*> owner_;
  int index_ = 0;
};

// During the scope's lifetime the calling thread enqueues its work for `device` on `stream`; null
// is the device's default stream, which threads without a scope use. Scopes of one thread nest.
// Other threads are not affected.
class StreamScope {
 public:
  StreamScope(Device* device, Stream* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
  // The calling thread's innermost scope; null if there is none.
  static const StreamScope* Innermost();
  const StreamScope* outer() const { return outer_; }
  const Device* device() const { return device_; }
  Stream* stream() const { return stream_; }

 private:
  const Device* const device_;
  Stream* const stream_;
  const StreamScope* const outer_;
};

}  // namespace caffe
