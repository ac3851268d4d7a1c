#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/device/program.hpp"

namespace caffe {

// Another device with separate memory that can also record work: it keeps the calls and makes them
// in a replay. So what a replay computes can be compared with a normal run, without CUDA. Calls of
// vendors' libraries are not kept: native_stream() refuses while it records.
class KeepingDevice : public Device {
 public:
  explicit KeepingDevice(Device* on) : KeepingDevice(on, on->info()) {}
  // With other properties than those of the device on which it computes.
  KeepingDevice(Device* on, DeviceInfo info)
      : Device(std::move(info)), on_(on), stream_(std::make_unique<OnlyStream>(this)) {}
  ~KeepingDevice() override { FreeEverything(); }

  Stream* default_stream() override { return stream_.get(); }
  void* native_stream() override {
    CAFFE_CHECK(!recording_, "calls of libraries cannot be kept");
    return on_->native_stream();
  }
  bool can_capture() const override { return true; }

  int recorded = 0, abandoned = 0;
  // In the last record: the calls that follow work of two streams.
  int joins = 0;
  // The next record fails at this call; -1: it does not.
  int fails_at = -1;

 protected:
  void* DoAllocate(int64_t bytes) override { return on_->Allocate(bytes, "test").handle; }
  void DoFree(void* handle) noexcept override { on_->Free({handle, 0}); }
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override {
    on_->Upload(target, source, bytes);
  }
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override {
    on_->Download(target, source, bytes);
  }
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override {
    on_->Copy(target, source, bytes);
  }
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override {
    on_->Fill(target, byte, bytes);
  }
  std::unique_ptr<Stream> DoCreateStream() override { return std::make_unique<OnlyStream>(this); }
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override {
    CountBuild();
    return std::make_shared<InnerProgram>(this, on_->Build(text, use_cache), text.types);
  }
  Stream* DoBeginCapture() override {
    recording_ = true;
    calls_.clear();
    after_.clear();
    after_in_stream_.clear();
    ends_.clear();
    return stream_.get();
  }
  std::unique_ptr<Graph> DoEndCapture(bool keep) override {
    recording_ = false;
    ++(keep ? recorded : abandoned);
    if (!keep) return nullptr;
    if (after_.empty()) {  // in the order of each stream
      CheckJoined();
      after_ = std::move(after_in_stream_);
      joins = static_cast<int>(std::count_if(after_.begin(), after_.end(),
                                             [](const auto& before) { return before.size() > 1; }));
    }
    CAFFE_CHECK(after_.size() == calls_.size(), "a call without its buffers");
    return std::make_unique<Calls>(std::move(calls_), std::move(after_));
  }
  bool DoOrderAfter(std::span<const int> pieces) override {
    CAFFE_CHECK(after_.size() == calls_.size(), "two notes of buffers for one call");
    after_.emplace_back(pieces.begin(), pieces.end());
    return true;
  }
  bool DoKeep(const std::function<void()>& call) override {
    if (static_cast<int>(calls_.size()) == fails_at) {
      fails_at = -1;
      CAFFE_THROW("call ", calls_.size(), " fails");
    }
    std::vector<int>& ends = ends_[current_stream()];
    after_in_stream_.push_back(std::exchange(ends, {static_cast<int>(calls_.size())}));
    calls_.push_back(call);
    return true;
  }

 private:
  // As CUDA demands: the stream of the record has waited for all work of other streams.
  void CheckJoined() {
    std::vector<int> next = ends_[stream_.get()];
    std::set<int> known(next.begin(), next.end());
    while (!next.empty()) {
      const int call = next.back();
      next.pop_back();
      for (const int before : after_in_stream_[call]) {
        if (known.insert(before).second) next.push_back(before);
      }
    }
    CAFFE_CHECK(known.size() == calls_.size(), "a stream was not joined");
  }

  using CallList = std::vector<std::function<void()>>;
  class Calls final : public Graph {
   public:
    Calls(CallList calls, std::vector<std::vector<int>> after)
        : calls_(std::move(calls)), after_(std::move(after)) {}

   private:
    void DoLaunch() override {
      std::vector<int> missing;  // of each call: those before it that were not made
      std::vector<std::vector<int>> then(calls_.size());
      std::vector<int> ready;
      for (int i = 0; i < static_cast<int>(calls_.size()); ++i) {
        missing.push_back(static_cast<int>(after_[i].size()));
        for (const int before : after_[i]) then[before].push_back(i);
        if (missing[i] == 0) ready.push_back(i);
      }
      while (!ready.empty()) {
        const auto next = launches_ == 0 ? std::max_element(ready.begin(), ready.end())
                                         : ready.begin() + random_() % ready.size();
        const int call = *next;
        ready.erase(next);
        calls_[call]();
        for (const int later : then[call]) {
          if (--missing[later] == 0) ready.push_back(later);
        }
      }
      ++launches_;
    }
    CallList calls_;
    std::vector<std::vector<int>> after_;
    int launches_ = 0;
    std::minstd_rand random_;
  };

  class InnerKernel final : public Kernel {
   public:
    InnerKernel(Device* device, std::unique_ptr<Kernel> kernel, const TypeTriple& types)
        : Kernel(device, kernel->signature(), types), kernel_(std::move(kernel)) {}

   private:
    void DoLaunch(const LaunchRange& range, const KernelArguments& arguments) override {
      kernel_->Launch(range, arguments);
    }
    void DoLaunchGroups(const LaunchGroups& groups, const KernelArguments& arguments) override {
      kernel_->LaunchInGroups(groups, arguments);
    }
    std::unique_ptr<Kernel> kernel_;
  };

  class InnerProgram final : public Program {
   public:
    InnerProgram(Device* device, std::shared_ptr<Program> program, const TypeTriple& types)
        : device_(device), program_(std::move(program)), types_(types) {}
    std::unique_ptr<Kernel> CreateKernel(const std::string& name) override {
      return std::make_unique<InnerKernel>(device_, program_->CreateKernel(name), types_);
    }

   private:
    Device* device_;
    std::shared_ptr<Program> program_;
    TypeTriple types_;
  };

  class OnlyEvent final : public Event {
   public:
    OnlyEvent(const Stream& stream, std::vector<int> after)
        : Event(stream), after_(std::move(after)) {}
    const std::vector<int>& after() const { return after_; }
    void Wait() override {}
    // Later times are shorter, so that of two graphs in turns the second one is chosen.
    double SecondsSince(Event&) override {
      static int calls = 0;
      return 1.0 / ++calls;
    }

   private:
    std::vector<int> after_;  // calls of the record
  };

  class OnlyStream final : public Stream {
   public:
    explicit OnlyStream(KeepingDevice* device) : Stream(device), device_(device) {}
    ~OnlyStream() override { Retire(); }
    std::unique_ptr<Event> Record(bool) override {
      return std::make_unique<OnlyEvent>(
          *this, device_->recording_ ? device_->ends_[this] : std::vector<int>());
    }
    void Synchronize() override { device_->on_->Synchronize(); }
    void* native() const override { return nullptr; }

   private:
    void DoWaitFor(Event& event) override {
      if (!device_->recording_) return;
      std::vector<int>& ends = device_->ends_[this];
      for (const int call : static_cast<OnlyEvent&>(event).after()) {
        if (std::find(ends.begin(), ends.end(), call) == ends.end()) ends.push_back(call);
      }
    }
    KeepingDevice* device_;
  };

  Device* const on_;
  bool recording_ = false;
  CallList calls_;
  // For each call: the calls before it, by memory, and by streams.
  std::vector<std::vector<int>> after_, after_in_stream_;
  // For each stream of the record: its last call, or the calls for which it waits.
  std::map<const Stream*, std::vector<int>> ends_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace caffe
