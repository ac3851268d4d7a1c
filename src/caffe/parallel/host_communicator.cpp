#include "caffe/parallel/host_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "caffe/core/environment_number.hpp"
#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// Elements that are sent at once: bounds the memory for pieces of other ranks.
constexpr int64_t kPiece = int64_t{1} << 22;
// The interval at which a thread without work looks whether other ranks have failed.
constexpr std::chrono::milliseconds kLook{200};

template <class T> void AddPieces(const char* pieces, int ranks, int64_t count, char* sum) {
  const T* const from = reinterpret_cast<const T*>(pieces);
  T* const to = reinterpret_cast<T*>(sum);
  for (int64_t i = 0; i < count; ++i) {
    T value = from[i];
    for (int r = 1; r < ranks; ++r) value += from[r * count + i];
    to[i] = value;
  }
}

}  // namespace

int RankTimeout() {
  constexpr int64_t kDefault = 600, kMost = 7 * 24 * 3600;
  static const int64_t seconds =
      NumberOfEnvironment("CAFFE_RANK_TIMEOUT", 1, kMost, "seconds").value_or(kDefault);
  return static_cast<int>(seconds);
}

HostCommunicator::HostCommunicator(std::unique_ptr<HostGroup> group)
    : group_(std::move(group)),
      size_(group_->size()),
      rank_(group_->rank()),
      thread_([this] { Serve(); }) {}

HostCommunicator::~HostCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HostCommunicator::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool woken = changed_.wait_for(lock, kLook, [this] { return ends_ || !queue_.empty(); });
    if (woken && queue_.empty()) break;
    Work work = [this] { group_->Look(); };
    if (woken) {
      work = std::move(queue_.front());
      queue_.pop_front();
      if (error_) continue;
      busy_ = true;
    } else if (error_) {
      continue;
    }
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (error) {
      error_ = error;
      queue_.clear();
      if (on_failure_) on_failure_();
    }
    changed_.notify_all();
  }
  stream_.reset();
}

void HostCommunicator::Enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void HostCommunicator::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ ? !busy_ : queue_.empty() && !busy_; });
  if (error_) std::rethrow_exception(error_);
}

void HostCommunicator::Do(Work work) {
  Enqueue(std::move(work));
  Finish();
}

void HostCommunicator::OnFailure(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  on_failure_ = std::move(function);
}

void HostCommunicator::SetLastWords(const std::string& text) { group_->SetLastWords(text); }

void HostCommunicator::Abort(const std::string& why) noexcept { group_->Abort(why); }

std::string HostCommunicator::Broadcast(const std::string& text) {
  std::string result = rank_ == 0 ? text : "";
  Do([&] {
    int64_t bytes = static_cast<int64_t>(result.size());
    group_->Broadcast(reinterpret_cast<char*>(&bytes), sizeof(bytes));
    result.resize(static_cast<size_t>(bytes));
    group_->Broadcast(result.data(), bytes);
  });
  return result;
}

std::vector<std::string> HostCommunicator::AllGather(const std::string& text) {
  std::vector<std::string> texts(static_cast<size_t>(size_));
  Do([&] {
    std::vector<int64_t> bytes(texts.size(), 0);
    bytes[rank_] = static_cast<int64_t>(text.size());
    group_->AllGather(reinterpret_cast<char*>(bytes.data()), sizeof(int64_t));
    const int64_t most = *std::max_element(bytes.begin(), bytes.end());
    std::string all(static_cast<size_t>(most * size_), '\0');
    all.replace(static_cast<size_t>(most * rank_), text.size(), text);
    group_->AllGather(all.data(), most);
    for (int r = 0; r < size_; ++r) {
      texts[r] = all.substr(static_cast<size_t>(most * r), static_cast<size_t>(bytes[r]));
    }
  });
  return texts;
}

void HostCommunicator::OnArray(Device* device, DevicePtr array, int64_t bytes,
                               std::function<void(char*)> work) {
  CAFFE_CHECK(!Capture::Of(device), "sums through the host cannot be recorded");
  if (device->host_accessible()) {
    // Work on the CPU is done when its call returns.
    char* const data = array.writable_address();
    return Enqueue([work = std::move(work), data] { work(data); });
  }
  const std::shared_ptr<Event> ready = device->RecordEvent(false);
  Enqueue([this, work = std::move(work), device, array, bytes, ready] {
    if (stream_device_ != device) {
      stream_ = device->CreateStream();
      stream_device_ = device;
    }
    const StreamScope scope(device, stream_.get());
    ready->Wait();
    host_.resize(static_cast<size_t>(bytes));
    device->Download(host_.data(), array, bytes);
    work(host_.data());
    device->Upload(array, host_.data(), bytes);
    device->Synchronize();
  });
}

// The share of this rank becomes the sum.
void HostCommunicator::SumOfShare(char* data, int64_t share, DataType type) {
  const int64_t bytes = share * static_cast<int64_t>(type.bytes());
  received_.resize(static_cast<size_t>(bytes * size_));
  group_->AllToAll(data, received_.data(), bytes);
  char* const own = data + rank_ * bytes;
  if (type == kFloat) return AddPieces<float>(received_.data(), size_, share, own);
  if (type == kDouble) return AddPieces<double>(received_.data(), size_, share, own);
  // Rounded once.
  values_.resize(static_cast<size_t>(share * size_));
  sums_.resize(static_cast<size_t>(share));
  ConvertElements(type, received_.data(), kFloat, values_.data(), values_.size());
  AddPieces<float>(reinterpret_cast<const char*>(values_.data()), size_, share,
                   reinterpret_cast<char*>(sums_.data()));
  ConvertElements(kFloat, sums_.data(), type, own, sums_.size());
}

void HostCommunicator::SumOfAll(char* data, int64_t count, DataType type) {
  const int64_t item = static_cast<int64_t>(type.bytes());
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t part = std::min(kPiece, count - begin), share = (part + size_ - 1) / size_;
    char* const own = data + begin * item;
    char* padded = own;
    if (share * size_ != part) {
      padded_.assign(static_cast<size_t>(share * size_ * item), 0);
      padded = padded_.data();
      std::memcpy(padded, own, static_cast<size_t>(part * item));
    }
    SumOfShare(padded, share, type);
    group_->AllGather(padded, share * item);
    if (padded != own) std::memcpy(own, padded, static_cast<size_t>(part * item));
  }
}

void HostCommunicator::AllReduceSum(Device* device, DevicePtr array, int64_t count, DataType type) {
  if (size_ == 1 || count == 0) return;
  OnArray(device, array, count * static_cast<int64_t>(type.bytes()),
          [this, count, type](char* data) { SumOfAll(data, count, type); });
}

void HostCommunicator::ReduceScatterSum(Device* device, DevicePtr array, int64_t count,
                                        DataType type) {
  CAFFE_CHECK(count % size_ == 0, count, " elements are not shares of ", size_, " ranks");
  if (size_ == 1 || count == 0) return;
  OnArray(device, array, count * static_cast<int64_t>(type.bytes()),
          [this, count, type](char* data) { SumOfShare(data, count / size_, type); });
}

void HostCommunicator::AllGather(Device* device, DevicePtr array, int64_t count, DataType type) {
  CAFFE_CHECK(count % size_ == 0, count, " elements are not shares of ", size_, " ranks");
  if (size_ == 1 || count == 0) return;
  const int64_t bytes = count * static_cast<int64_t>(type.bytes());
  OnArray(device, array, bytes,
          [this, bytes](char* data) { group_->AllGather(data, bytes / size_); });
}

}  // namespace caffe
