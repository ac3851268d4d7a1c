// The files that the library writes besides snapshots, when the process is killed at any call that
// changes a file, or the disk is full there.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/io/file.hpp"
#include "data/test_database.hpp"
#include "durability/file_changes.hpp"
#include "durability/small_training.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

// How often `work` changes a file of the folder.
int64_t StepsOf(const TemporaryFolder& folder, const std::function<void()>& work) {
  const FileChanges changes(folder.path());
  work();
  return changes.count();
}

class WrittenFilesTest : public testing::Test {
 protected:
  void SetUp() override { log::SetLevel(log::Level::kOff); }
};

QuantizedNet MakeQuantized(const std::string& name) {
  QuantizedNet net;
  net.model = std::make_shared<NetParameter>(ParseNet("name: '" + name + "'"));
  net.weights = std::make_shared<NetParameter>(*net.model);
  net.weights->add_layer()->add_blobs()->mutable_data()->Resize(3000, 0.5f);
  net.report.net = name;
  return net;
}

std::map<std::string, std::string> Contents(const TemporaryFolder& folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : FilesIn(folder)) files[name] = folder.Get(name);
  return files;
}

// Four files that replace those of another net.
TEST_F(WrittenFilesTest, FilesOfAQuantizedNet) {
  const QuantizedNet older = MakeQuantized("older"), newer = MakeQuantized("newer");
  const auto files_of = [](const QuantizedNet& net) {
    const TemporaryFolder folder;
    WriteQuantizedNet(net, folder / "q");
    return Contents(folder);
  };
  const auto before = files_of(older), after = files_of(newer);
  ASSERT_EQ(after.size(), 4u);
  int64_t steps = 1;
  for (int64_t step = 0; step <= steps; ++step) {
    SCOPED_TRACE(step);
    const TemporaryFolder folder;
    WriteQuantizedNet(older, folder / "q");
    if (step == 0) {
      const TemporaryFolder other;
      WriteQuantizedNet(older, other / "q");
      steps = StepsOf(other, [&] { WriteQuantizedNet(newer, other / "q"); });
    }
    const bool killed =
        KilledAt(folder.path(), step, [&] { WriteQuantizedNet(newer, folder / "q"); });
    ASSERT_EQ(killed, step < steps);
    for (const auto& [name, bytes] : after) {
      const std::string now = folder.Get(name);
      EXPECT_TRUE(now == bytes || (killed && now == before.at(name))) << name;
    }
    EXPECT_EQ(FilesIn(folder).size(), 4 + TemporaryFilesIn(folder).size());
    RemoveLeftovers(folder.path());
    EXPECT_EQ(FilesIn(folder).size(), 4u);
    for (const Fault fault : {Fault::kFullDisk, Fault::kFails}) {
      WriteQuantizedNet(older, folder / "q");
      std::string error;
      {
        const FileChanges changes(folder.path(), fault, step);
        error = ErrorOf([&] { WriteQuantizedNet(newer, folder / "q"); });
      }
      EXPECT_EQ(Contents(folder), error.empty() ? after : before) << error;
      EXPECT_TRUE(error.empty() || error.find("No space left on device") != error.npos) << error;
    }
  }
  RecordProperty("kills", static_cast<int>(steps));
}

TEST_F(WrittenFilesTest, LmdbIsWholeOrAbsent) {
  constexpr int kRecords = 7;
  const auto write = [](const TemporaryFolder& folder) {
    MakeDatabase(folder / "records", kRecords, 1, 20, 20);
  };
  const auto check = [](const TemporaryFolder& folder) {
    if (!fs::exists(folder / "records")) return false;
    const auto source = OpenDatabase("lmdb", folder / "records");
    Datum datum;
    for (int64_t n = 0; n < kRecords; ++n) {
      source->Next(&datum);
      EXPECT_EQ(datum.data(), TestDatum(n, 1, 20, 20).data());
    }
    return true;
  };
  int64_t steps = 1;
  for (int64_t step = 0; step <= steps; ++step) {
    SCOPED_TRACE(step);
    if (step == 0) {
      const TemporaryFolder folder;
      steps = StepsOf(folder, [&] { write(folder); });
    }
    {
      const TemporaryFolder folder;
      const bool killed = KilledAt(folder.path(), step, [&] { write(folder); });
      ASSERT_EQ(killed, step < steps);
      EXPECT_TRUE(check(folder) || killed);
      // The next writer in the folder removes what is left.
      MakeDatabase(folder / "next", 1, 1, 2, 2);
      EXPECT_EQ(TemporaryFilesIn(folder), std::vector<std::string>());
    }
    for (const Fault fault : {Fault::kFullDisk, Fault::kFails}) {
      const TemporaryFolder folder;
      std::string error;
      {
        const FileChanges changes(folder.path(), fault, step);
        error = ErrorOf([&] { write(folder); });
      }
      EXPECT_EQ(check(folder), error.empty()) << error;
      EXPECT_EQ(FilesIn(folder).size(), error.empty() ? 1u : 0u) << error;
      EXPECT_TRUE(error.empty() || error.find(folder / "records") != error.npos) << error;
    }
  }
  RecordProperty("kills", static_cast<int>(steps));
}

TEST_F(WrittenFilesTest, TheProgramCacheStaysSound) {
  using Mode = ProgramCache::Mode;
  const auto store = [](const fs::path& folder, const std::string& key) {
    ProgramCache::Entry entry;
    entry.binary = std::string(6000, 'b');
    ProgramCache cache(folder, Mode::kReadWrite);
    cache.Store(key, "device", "program", entry);
    cache.StoreTuning({"family", key, "float", "device", "driver"}, "8x8");
  };
  const auto check = [](const fs::path& folder) {
    ProgramCache cache(folder, Mode::kReadWrite);
    const auto report = cache.Verify();
    EXPECT_EQ(report.file_damage, "");
    EXPECT_EQ(report.unsound, 0);
    EXPECT_TRUE(cache.Find("older"));
    EXPECT_EQ(cache.state().disabled_reason, "");
    return cache.Find("newer").has_value();
  };
  int64_t steps = 1;
  for (int64_t step = 0; step <= steps; ++step) {
    SCOPED_TRACE(step);
    for (const Fault fault : {Fault::kKill, Fault::kFullDisk, Fault::kFails}) {
      const TemporaryFolder folder;
      const fs::path cache = folder.path() / "cache";
      store(cache, "older");
      const auto work = [&] { store(cache, "newer"); };
      if (step == 0 && fault == Fault::kKill) {
        const TemporaryFolder other;
        store(other.path() / "cache", "older");
        steps = StepsOf(other, [&] { store(other.path() / "cache", "newer"); });
        ASSERT_GT(steps, 3);
      }
      if (fault == Fault::kKill) {
        ASSERT_EQ(KilledAt(folder.path(), step, work), step < steps);
      } else {
        const FileChanges changes(folder.path(), fault, step);
        EXPECT_EQ(ErrorOf(work), "") << "the cache never stops the work";
      }
      const bool newer = check(cache);
      EXPECT_TRUE(newer || step < steps);
      store(cache, "newer");
      EXPECT_TRUE(check(cache));
    }
  }
  RecordProperty("kills", static_cast<int>(steps));
}

}  // namespace
}  // namespace caffe
