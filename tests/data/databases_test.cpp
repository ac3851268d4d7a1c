#include "caffe/data/databases.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string OpenError(const std::string& path, const std::string& backend = "lmdb") {
  return ErrorOf([&] { OpenDatabase(backend, path); });
}

TEST(DatabasesTest, RoundTrip) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 25, 3, 4, 5);
  const auto source = OpenDatabase("lmdb", path);
  EXPECT_EQ(source->count(), 25);
  Datum datum;
  for (int round = 0; round < 2; ++round) {
    for (int n = 0; n < 25; ++n) {
      EXPECT_EQ(source->position(), n);
      ASSERT_TRUE(source->Next(&datum));
      EXPECT_EQ(source->key(), TestKey(n));
      EXPECT_EQ(datum.SerializeAsString(), TestDatum(n, 3, 4, 5).SerializeAsString());
    }
    EXPECT_FALSE(source->Next(&datum));
    EXPECT_FALSE(source->Skip());
    EXPECT_EQ(source->position(), 25);
    source->Rewind();
  }
}

TEST(DatabasesTest, SkipsWithoutReading) {
  const TemporaryFolder folder;
  const auto source = OpenDatabase("lmdb", MakeDatabase(folder / "db", 5, 1, 1, 1));
  EXPECT_TRUE(source->Skip());
  EXPECT_TRUE(source->Skip());
  Datum datum;
  ASSERT_TRUE(source->Next(&datum));
  EXPECT_EQ(datum.label(), 2);
  source->Rewind();
  ASSERT_TRUE(source->Next(&datum));
  EXPECT_EQ(datum.label(), 0);
}

TEST(DatabasesTest, RecordsComeInTheOrderOfTheirKeys) {
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  for (int n : {3, 1, 2}) writer->Put(TestKey(n), TestDatum(n, 1, 1, 1));
  writer->Finish();
  const auto source = OpenDatabase("lmdb", folder / "db");
  Datum datum;
  for (int n : {1, 2, 3}) {
    ASSERT_TRUE(source->Next(&datum));
    EXPECT_EQ(datum.label(), n);
  }
}

// The map of a new LMDB has 1 MiB, a batch of the writer more.
TEST(DatabasesTest, GrowsBeyondItsFirstMap) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 300, 1, 512, 256);
  const auto source = OpenDatabase("lmdb", path);
  ASSERT_EQ(source->count(), 300);
  for (int n = 0; n < 299; ++n) ASSERT_TRUE(source->Skip());
  Datum datum;
  ASSERT_TRUE(source->Next(&datum));
  EXPECT_EQ(datum.data(), TestDatum(299, 1, 512, 256).data());
}

TEST(DatabasesTest, SeveralReadersAtOnce) {
  const TemporaryFolder folder;
  const std::string path = MakeDatabase(folder / "db", 200, 1, 8, 8);
  const auto first = OpenDatabase("lmdb", path);
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto source = OpenDatabase("lmdb", path + "/");
      Datum datum;
      while (source->Next(&datum)) sums[t] += datum.label() + 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, std::vector<int64_t>(4, 200 / 10 * 55));
  // Others that close leave the first one open.
  Datum datum;
  EXPECT_TRUE(first->Next(&datum));
}

TEST(DatabasesTest, WriterShowsNothingBeforeFinish) {
  const TemporaryFolder folder;
  {
    const auto writer = CreateDatabase("lmdb", folder / "db");
    writer->Put("a", TestDatum(0, 1, 1, 1));
    EXPECT_FALSE(std::filesystem::exists(folder / "db"));
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(DatabasesTest, WriterErrors) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 1, 1, 1, 1);
  EXPECT_TRUE(Holds(ErrorOf([&] { CreateDatabase("lmdb", folder / "db"); }), "exists already"));
  EXPECT_TRUE(Holds(ErrorOf([&] { CreateDatabase("lmdb", folder / "no/where/db"); }),
                    "cannot make the folder"));
  EXPECT_TRUE(Holds(ErrorOf([&] { CreateDatabase("leveldb", folder / "other"); }),
                    "LevelDB is not supported"));
  const auto writer = CreateDatabase("lmdb", folder / "twice");
  writer->Put("same", TestDatum(0, 1, 1, 1));
  writer->Put("same", TestDatum(1, 1, 1, 1));
  EXPECT_TRUE(Holds(ErrorOf([&] { writer->Finish(); }), "key 'same'"));
}

TEST(DatabasesTest, OpenErrorsNameTheReason) {
  const TemporaryFolder folder;
  EXPECT_TRUE(Holds(OpenError(folder / "missing"), "the folder does not exist"));
  EXPECT_TRUE(Holds(OpenError(folder.Put("file", "x")), "it is a file"));
  std::filesystem::create_directory(folder / "bare");
  EXPECT_TRUE(Holds(OpenError(folder / "bare"), "no data.mdb"));
  std::filesystem::create_directory(folder / "empty");
  folder.Put("empty/data.mdb", "");
  EXPECT_TRUE(Holds(OpenError(folder / "empty"), "data.mdb is empty"));
  std::filesystem::create_directory(folder / "garbage");
  for (size_t size : {1, 100, 4096, 100000}) {
    folder.Put("garbage/data.mdb", std::string(size, 'x'));
    EXPECT_TRUE(Holds(OpenError(folder / "garbage"), "not an LMDB file")) << size << " bytes";
  }
  EXPECT_TRUE(Holds(OpenError(folder / "x", "leveldb"), "convert"));
  EXPECT_TRUE(Holds(OpenError(folder / "x", "hdf5"), "unknown database backend 'hdf5'"));
  CreateDatabase("lmdb", folder / "none")->Finish();
  EXPECT_TRUE(Holds(OpenError(folder / "none"), "holds no records"));
}

TEST(DatabasesTest, TruncatedFileIsAnErrorAtEveryLength) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "whole", 100, 1, 16, 16);
  const std::string bytes = folder.Get("whole/data.mdb");
  ASSERT_GT(bytes.size(), 3u * 4096);
  std::filesystem::create_directory(folder / "cut");
  for (size_t size = 1; size < bytes.size(); size += 1021) {
    folder.Put("cut/data.mdb", bytes.substr(0, size));
    const std::string error = OpenError(folder / "cut");
    EXPECT_TRUE(Holds(error, "cut off") || Holds(error, "not an LMDB file"))
        << size << " of " << bytes.size() << " bytes";
  }
}

// LMDB crashes on noise in the pages that describe the file, or calls it a lack of memory.
TEST(DatabasesTest, NoiseInAMetaPageIsDamage) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "whole", 20, 1, 16, 16);
  const std::string bytes = folder.Get("whole/data.mdb");
  std::filesystem::create_directory(folder / "noise");
  std::mt19937 random(1);
  for (size_t begin = 16; begin < 144; begin += 4) {
    for (const size_t page : {0, 4096}) {
      std::string damaged = bytes;
      for (size_t i = 0; i < 64; ++i) damaged[page + begin + i] = static_cast<char>(random() | 128);
      folder.Put("noise/data.mdb", damaged);
      const std::string error = OpenError(folder / "noise");
      EXPECT_TRUE(begin == 16 ? Holds(error, "not an LMDB file") : Holds(error, "damaged"))
          << page + begin;
    }
  }
}

// A copy that broke off often has the right length and zeros in it; LMDB would end the process.
TEST(DatabasesTest, HolesAreAnError) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "whole", 100, 1, 16, 16);
  const std::string bytes = folder.Get("whole/data.mdb");
  std::filesystem::create_directory(folder / "holes");
  constexpr size_t kPage = 4096;
  int failed = 0;
  for (size_t begin = 2 * kPage; begin + kPage <= bytes.size(); begin += kPage) {
    std::string damaged = bytes;
    damaged.replace(begin, kPage, kPage, '\0');
    folder.Put("holes/data.mdb", damaged);
    const std::string error = ErrorOf([&] {
      const auto source = OpenDatabase("lmdb", folder / "holes");
      Datum datum;
      while (source->Next(&datum)) {
      }
    });
    EXPECT_TRUE(error.empty() || Holds(error, "damaged"));
    failed += !error.empty();
  }
  EXPECT_GT(failed, 5);
}

TEST(DatabasesTest, RecordThatIsNoDatum) {
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  writer->Put("a", TestDatum(0, 1, 1, 1));
  writer->Put("b\x07", std::string_view("\xff\xff\xff\xff"));
  writer->Finish();
  const auto source = OpenDatabase("lmdb", folder / "db");
  Datum datum;
  EXPECT_TRUE(source->Next(&datum));
  EXPECT_TRUE(
      Holds(ErrorOf([&] { source->Next(&datum); }), "record 1 (key b\\x07) is not a Datum"));
}

}  // namespace
}  // namespace caffe
