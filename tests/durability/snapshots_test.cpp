// Snapshots of a training that is killed at any call that changes a file, or whose disk is full
// there: a pair of files is restored with the bits of its training, or refused with a reason.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "caffe/core/log.hpp"
#include "durability/file_changes.hpp"
#include "durability/small_training.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

constexpr int kLast = 4;  // iterations
constexpr int64_t kSeed = 7, kOlderSeed = 8;
const char* const kSettings = "snapshot: 2 max_iter: 4";

struct Case {
  bool hdf5, older;  // files of an earlier training with the same names are there
};

class SnapshotsTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { log::SetLevel(log::Level::kOff); }

  std::string StateName(int64_t iteration) const {
    return Concat("s_iter_", iteration, ".solverstate", GetParam().hdf5 ? ".h5" : "");
  }
  std::string ModelName(int64_t iteration) const {
    return Concat("s_iter_", iteration, ".caffemodel", GetParam().hdf5 ? ".h5" : "");
  }

  std::unique_ptr<Solver> Make(const TemporaryFolder& folder, int64_t seed,
                               const std::string& more = kSettings) const {
    return SmallTraining(folder / "s", seed, GetParam().hdf5, more);
  }

  // A folder before the training starts.
  std::unique_ptr<TemporaryFolder> Folder() const {
    auto folder = std::make_unique<TemporaryFolder>();
    if (GetParam().older) {
      for (const std::string& name : FilesIn(older_)) fs::copy(older_ / name, *folder / name);
    }
    return folder;
  }

  // The files are moved: their states name weights that are not there any more.
  void SetUp() override {
    const TemporaryFolder folder;
    Make(folder, kOlderSeed)->Solve();
    for (const std::string& name : FilesIn(folder)) fs::rename(folder / name, older_ / name);
  }

  // How often a call of the training changes a file.
  int64_t Steps() const {
    const auto folder = Folder();
    const FileChanges changes(folder->path());
    Make(*folder, kSeed)->Solve();
    return changes.count();
  }

  // Restores each solver state of the folder. State and weights must be of one training.
  // Counts those of this training, and those whose files are of two trainings.
  struct Found {
    int own = 0, older = 0, mixed = 0, newest = 0;
  };
  Found Restore(const TemporaryFolder& folder) const {
    Found found;
    for (int64_t iteration = 1; iteration <= kLast; ++iteration) {
      const std::string state = folder / StateName(iteration);
      if (!fs::exists(state)) continue;
      auto solver = SmallTraining("", 99, GetParam().hdf5, "");
      const TrainingState before = StateOf(*solver, {});
      const std::string error = ErrorOf([&] { solver->Restore(state); });
      if (!error.empty()) {
        EXPECT_TRUE(Holds(error, "were not written together")) << state;
        EXPECT_TRUE(Holds(error, state));
        EXPECT_EQ("", FirstDifference(before, StateOf(*solver, {})))
            << "a refused state changed it";
        ++found.mixed;
        continue;
      }
      const TrainingState now = StateOf(*solver, {});
      if (FirstDifference(now, own_.at(iteration)).empty()) {
        ++found.own;
        found.newest = static_cast<int>(iteration);
      } else {
        EXPECT_EQ("", FirstDifference(now, earlier_.at(iteration))) << state;
        ++found.older;
      }
    }
    return found;
  }

  const std::map<int64_t, TrainingState> own_ = Uninterrupted(kSeed, kLast),
                                         earlier_ = Uninterrupted(kOlderSeed, kLast);
  const TemporaryFolder older_;
};

TEST_P(SnapshotsTest, AKilledTrainingResumesWithTheSameBits) {
  const int64_t steps = Steps();
  ASSERT_GT(steps, 20);
  int kills = 0, leftovers = 0, mixed = 0, pairs_before = 0;
  for (int64_t step = 0; step <= steps; ++step) {
    SCOPED_TRACE(Concat("step ", step, " of ", steps));
    const auto folder = Folder();
    const bool killed = KilledAt(folder->path(), step, [&] { Make(*folder, kSeed)->Solve(); });
    ASSERT_EQ(killed, step < steps);
    kills += killed;
    const std::vector<std::string> temporary = TemporaryFilesIn(*folder);
    leftovers += !temporary.empty();
    const Found found = Restore(*folder);
    ASSERT_FALSE(HasFailure());
    // Whole snapshots stay whole, and at most the one that was being written is lost.
    EXPECT_GE(found.own, pairs_before);
    pairs_before = found.own;
    EXPECT_LE(found.mixed, GetParam().older ? 1 : 0);
    if (GetParam().older) {
      EXPECT_EQ(found.own + found.older + found.mixed, 2);
    }
    mixed += found.mixed;
    // The next training removes what was left, and ends with the same bits.
    auto next = Make(*folder, kSeed);
    next->Solve(found.newest > 0 ? *folder / StateName(found.newest) : "");
    EXPECT_EQ("", FirstDifference(StateOf(*next, {}), own_.at(kLast)));
    EXPECT_EQ(TemporaryFilesIn(*folder), std::vector<std::string>());
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(pairs_before, 2);
  EXPECT_EQ(kills, steps);
  EXPECT_GT(leftovers, steps / 2);
  // Between the two renames, if there are older files.
  EXPECT_EQ(mixed > 0, GetParam().older);
  RecordProperty("kills", kills);
}

// The error of a last snapshot, or none; warnings go to `log`.
TEST_P(SnapshotsTest, AFullDiskLosesNoOlderFileAndNoIteration) {
  const int64_t steps = Steps();
  for (const Fault fault : {Fault::kFullDisk, Fault::kFails}) {
    int errors = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const auto folder = Folder();
      std::string error, at;
      auto solver = std::unique_ptr<Solver>();
      log::SetLevel(log::Level::kWarning);
      testing::internal::CaptureStderr();
      {
        const FileChanges changes(folder->path(), fault, step);
        error = ErrorOf([&] {
          solver = Make(*folder, kSeed);
          solver->Solve();
        });
        at = changes.fault_at();
      }
      const std::string log = testing::internal::GetCapturedStderr();
      log::SetLevel(log::Level::kOff);
      SCOPED_TRACE(Concat("step ", step, " of ", steps, ": ", at, ": ", error, "\n", log));
      // A call that cannot fail on a full disk, or whose failure harms nothing.
      const bool harmless = error.empty() && log.empty();
      if (!harmless) {
        ++errors;
        EXPECT_TRUE(Holds(error + log, *folder / "s"));
        EXPECT_TRUE(Holds(error + log, "No space left on device"));
      }
      EXPECT_EQ(TemporaryFilesIn(*folder), std::vector<std::string>());
      if (solver && solver->iter() == kLast) {
        EXPECT_EQ("", FirstDifference(StateOf(*solver, {}), own_.at(kLast)));
      } else {
        EXPECT_TRUE(Holds(error, "snapshots cannot be written to"));
      }
      const Found found = Restore(*folder);
      EXPECT_EQ(found.mixed, 0);
      const int pairs = found.own + found.older;
      if (GetParam().older || harmless) {
        EXPECT_EQ(pairs, 2);
      }
      EXPECT_EQ(FilesIn(*folder).size(), 2u * pairs);
      // One failed call loses one snapshot, and it is not the last if training ended without an
      // error.
      if (fault == Fault::kFails && error.empty()) {
        EXPECT_GE(found.own, 1);
      }
      if (error.empty()) {
        EXPECT_EQ(found.newest, kLast);
      }
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(errors, steps / 3);
  }
  RecordProperty("faults", static_cast<int>(2 * steps));
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return Concat(info.param.hdf5 ? "hdf5" : "binary", info.param.older ? "_over_older" : "");
}
INSTANTIATE_TEST_SUITE_P(Formats, SnapshotsTest,
                         testing::Values(Case{false, false}, Case{false, true}, Case{true, false},
                                         Case{true, true}),
                         NameOf);

// Waits at the beginning of each iteration until the other process is there, too.
class Meeting : public Solver::Callback {
 public:
  Meeting() {
    barrier_ = static_cast<pthread_barrier_t*>(mmap(nullptr, sizeof(pthread_barrier_t),
                                                    PROT_READ | PROT_WRITE,
                                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier_, &shared, 2);
  }
  ~Meeting() override { munmap(barrier_, sizeof(pthread_barrier_t)); }
  void OnStart() override { pthread_barrier_wait(barrier_); }

 private:
  pthread_barrier_t* barrier_;
};

// Two trainings that do not know of each other.
class TwoTrainersTest : public testing::TestWithParam<bool> {};

TEST_P(TwoTrainersTest, WithOnePrefixLeaveNoMixture) {
  log::SetLevel(log::Level::kOff);
  constexpr int kIterations = 100;
  const bool hdf5 = GetParam();
  std::vector<std::map<int64_t, TrainingState>> states;
  for (const int64_t seed : {kSeed, kOlderSeed}) states.push_back(Uninterrupted(seed, kIterations));
  const TemporaryFolder folder;
  Meeting meeting;
  std::vector<pid_t> children;
  for (const int64_t seed : {kSeed, kOlderSeed}) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(60);
    const std::string error = ErrorOf([&] {
      auto solver =
          SmallTraining(folder / "s", seed, hdf5, Concat("snapshot: 1 max_iter: ", kIterations));
      solver->AddCallback(&meeting);
      solver->Solve();
    });
    if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
    _exit(error.empty() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(TemporaryFilesIn(folder), std::vector<std::string>());
  int of[2] = {0, 0}, mixed = 0;
  for (int64_t iteration = 1; iteration <= kIterations; ++iteration) {
    const std::string state =
        folder / Concat("s_iter_", iteration, ".solverstate", hdf5 ? ".h5" : "");
    auto solver = SmallTraining("", 99, hdf5, "");
    const std::string error = ErrorOf([&] { solver->Restore(state); });
    if (!error.empty()) {
      EXPECT_TRUE(Holds(error, "were not written together"));
      ++mixed;
      continue;
    }
    const TrainingState now = StateOf(*solver, {});
    const bool first = FirstDifference(now, states[0].at(iteration)).empty();
    if (!first) {
      EXPECT_EQ("", FirstDifference(now, states[1].at(iteration)));
    }
    ++of[first ? 0 : 1];
  }
  std::printf("%d snapshots of one training, %d of the other, %d refused\n", of[0], of[1], mixed);
}

INSTANTIATE_TEST_SUITE_P(Formats, TwoTrainersTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "hdf5" : "binary"; });

}  // namespace
}  // namespace caffe
