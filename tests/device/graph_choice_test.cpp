// Which of two records of the same work is replayed. Times come from a device with a clock of its
// own.
#include "caffe/device/graph_choice.hpp"

#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

class ClockDevice final : public NullDevice {
 public:
  Stream* default_stream() override { return &stream_; }
  bool can_capture() const override { return true; }

  double now = 0;
  // The times of the graphs with and without branches.
  double branched_seconds = 1, linear_seconds = 1;
  int recorded = 0, branched_launches = 0, linear_launches = 0;

 protected:
  Stream* DoBeginCapture() override {
    branches_ = false;
    return &stream_;
  }
  std::unique_ptr<Graph> DoEndCapture(bool keep) override {
    if (!keep) return nullptr;
    ++recorded;
    return std::make_unique<Clocked>(this, branches_);
  }
  bool DoOrderAfter(std::span<const int>) override { return branches_ = true; }

 private:
  class Clocked final : public Graph {
   public:
    Clocked(ClockDevice* device, bool branches) : device_(device), branches_(branches) {}

   private:
    void DoLaunch() override {
      ++(branches_ ? device_->branched_launches : device_->linear_launches);
      device_->now += branches_ ? device_->branched_seconds : device_->linear_seconds;
    }
    ClockDevice* device_;
    bool branches_;
  };
  class Tick final : public Event {
   public:
    Tick(const Stream& stream, double time) : Event(stream), time_(time) {}
    void Wait() override {}
    double SecondsSince(Event& start) override { return time_ - static_cast<Tick&>(start).time_; }

   private:
    double time_;
  };
  class ClockStream final : public Stream {
   public:
    explicit ClockStream(ClockDevice* device) : Stream(device), device_(device) {}
    ~ClockStream() override { Retire(); }
    std::unique_ptr<Event> Record(bool) override {
      return std::make_unique<Tick>(*this, device_->now);
    }
    void Synchronize() override {}
    void* native() const override { return nullptr; }

   private:
    void DoWaitFor(Event&) override {}
    ClockDevice* device_;
  };
  ClockStream stream_{this};
  bool branches_ = false;
};

class GraphChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (DevicePtr& one : buffers_) one = device_.Allocate(64, "test");
  }
  void TearDown() override {
    for (const DevicePtr& one : buffers_) device_.Free(one);
  }
  // Fills of these buffers; equal numbers must come one after the other.
  std::unique_ptr<GraphChoice> Record(const std::vector<int>& buffers) {
    return RecordChoice(
        &device_,
        [&](Capture*) {
          ++runs_;
          for (const int one : buffers) device_.Fill(buffers_[one], 1, 64);
        },
        [&] { ++again_; });
  }
  void Launch(GraphChoice* choice, int times) {
    for (int i = 0; i < times; ++i) choice->Launch();
  }

  const ScopedVariable mode_{"CAFFE_GRAPHS", "branches"};
  ClockDevice device_;
  DevicePtr buffers_[2];
  int runs_ = 0, again_ = 0;
};

constexpr int kAllTrials = 2 * GraphChoice::kTrials;

TEST_F(GraphChoiceTest, ShorterBranchesStay) {
  device_.linear_seconds = 1.5;
  const auto choice = Record({0, 1});
  EXPECT_EQ(device_.recorded, 2);
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(again_, 1);
  Launch(choice.get(), kAllTrials);
  EXPECT_EQ(device_.linear_launches, GraphChoice::kTrials);
  EXPECT_EQ(device_.branched_launches, GraphChoice::kTrials);
  EXPECT_EQ(choice->chosen(), nullptr);
  Launch(choice.get(), 3);
  EXPECT_EQ(device_.branched_launches, GraphChoice::kTrials + 3);
  EXPECT_NE(choice->chosen(), nullptr);
}

TEST_F(GraphChoiceTest, OtherwiseTheOrderOfTheRecordStays) {
  for (const double seconds : {1.0, 0.5}) {
    device_.linear_seconds = seconds;
    const auto choice = Record({0, 1});
    Launch(choice.get(), kAllTrials);
    const int before = device_.linear_launches;
    Launch(choice.get(), 3);
    EXPECT_EQ(device_.linear_launches, before + 3) << seconds;
  }
}

TEST_F(GraphChoiceTest, WorkThatCannotRunAtTheSameTimeIsRecordedOnce) {
  const auto choice = Record({0, 0, 0});
  EXPECT_EQ(device_.recorded, 1);
  EXPECT_EQ(again_, 0);
  EXPECT_NE(choice->chosen(), nullptr);
  Launch(choice.get(), 1);
  const DeviceCounters counters = device_.counters();
  EXPECT_EQ(counters.graph_launches, 1);
}

TEST_F(GraphChoiceTest, TheEnvironmentAsksForBranches) {
  const ScopedVariable linear("CAFFE_GRAPHS", "");
  const auto choice = Record({0, 1});
  EXPECT_EQ(device_.recorded, 1);
  Launch(choice.get(), 1);
  EXPECT_EQ(device_.linear_launches, 1);
}

TEST_F(GraphChoiceTest, EndsWithItsBuffers) {
  const auto choice = Record({0, 1});
  EXPECT_TRUE(choice->valid());
  device_.Free(buffers_[1]);
  EXPECT_FALSE(choice->valid());
  EXPECT_THROW(choice->Launch(), Error);
  buffers_[1] = device_.Allocate(64, "test");
}

// Bytes of one buffer that are noted apart are used apart; a pointer without a note is the buffer.
TEST_F(GraphChoiceTest, NotesOfBytesAllowBranches) {
  const auto branches = [&](bool notes) {
    Capture capture(&device_, GraphMode::kBranches);
    for (const int64_t at : {0, 32}) {
      const DevicePtr pointer = buffers_[0] + at;
      if (notes) Capture::NoteExtent(&device_, pointer, 32);
      device_.NoteUse({pointer});
    }
    const bool found = capture.has_branches();
    capture.End();
    return found;
  };
  EXPECT_TRUE(branches(true));
  EXPECT_FALSE(branches(false));
}

// The largest of the notes that hold a pointer counts; NextStep forgets them.
TEST_F(GraphChoiceTest, TheLargestNoteCounts) {
  Capture capture(&device_, GraphMode::kBranches);
  Capture::NoteExtent(&device_, buffers_[0], 16);
  Capture::NoteExtent(&device_, buffers_[0], 40);
  device_.NoteUse({buffers_[0]});
  capture.NextStep();
  Capture::NoteExtent(&device_, buffers_[0] + 32, 8);
  device_.NoteUse({buffers_[0] + 32});
  EXPECT_FALSE(capture.has_branches());
  Capture::NoteExtent(&device_, buffers_[0] + 40, 8);
  device_.NoteUse({buffers_[0] + 40});
  EXPECT_TRUE(capture.has_branches());
  // Two columns of the same rows.
  for (const int64_t first : {0, 4}) {
    capture.NextStep();
    Capture::NoteColumns(&device_, buffers_[1], 64, 8, first, first + 4);
    Capture::NoteExtent(&device_, buffers_[1] + first, 16);
    device_.NoteUse({buffers_[1] + first});
  }
  capture.End();
}

}  // namespace
}  // namespace caffe
