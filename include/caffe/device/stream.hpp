#pragma once

#include <memory>

namespace caffe {

class Device;

// A point in a stream: reached when everything that was enqueued before it is done.
class Event {
 public:
  virtual ~Event() = default;
  // Waits on the host until the event is reached.
  virtual void Wait() = 0;
  // Seconds from `start` to this event; waits for both. Throws unless both were recorded with
  // times, on one device.
  virtual double SecondsSince(Event& start) = 0;

 protected:
  explicit Event(const class Stream& stream);
  // Whether both belong to one device.
  bool SameDevice(const Event& other) const { return owner_ == other.owner_; }

 private:
  friend class Stream;
  std::shared_ptr<Device*> owner_;
};

// A queue of a device: what one thread enqueues on it runs in order. Two streams are not ordered
// with one another, except where WaitFor says so and where both use one buffer of
// Device::Allocate: a stream that uses a buffer waits for what another one has written to it, and a
// stream that writes to a buffer waits for all that use it. It waits for everything that the other
// stream has been given by then, not for the use of the buffer alone. All waits are the device's: the
// host goes on. On the CPU every call has finished its work when it returns, and a stream adds nothing.
//
// Destroying a stream waits for its work. It must not be the stream of a live StreamScope.
class Stream {
 public:
  virtual ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The point that the stream has been filled to. Without times it costs less.
  virtual std::unique_ptr<Event> Record(bool timed) = 0;
  // What is enqueued from now on starts after `event`, which may be of another stream of the device.
  void WaitFor(Event& event);
  // Waits on the host until everything on this stream is done.
  virtual void Synchronize() = 0;
  // cudaStream_t, cl_command_queue; null elsewhere.
  virtual void* native() const = 0;
  // 0 for the default stream, else a number below Device::kMostStreams + 1 that no other live stream
  // of the device has.
  int index() const { return index_; }

 protected:
  explicit Stream(Device* device);
  virtual void DoWaitFor(Event& event) = 0;
  // Starts what is enqueued though nobody waits for it.
  virtual void Flush() noexcept {}
  // The owner, or null once it is gone.
  Device* device() const { return *owner_; }
  // To be called by the destructor of a derived class, after its work is done and while it can
  // still record: from here on no buffer refers to the stream.
  void Retire() noexcept;

 private:
  friend class Event;
  friend class BufferPool;
  friend class StreamScope;
  std::shared_ptr<Device*> owner_;
  int index_ = 0;
};

// While it lives, the calling thread's work on `device` goes to `stream`; null is the device's
// default stream, which is also what a thread without a scope uses. Scopes of one thread nest.
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
