#include "caffe/data/databases.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "data/test_database.hpp"
#include "io/temporary_folder.hpp"
#include "support/in_child.hpp"
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

// Reads all records of a database with these bytes; returns the error.
std::string ReadingError(const TemporaryFolder& folder, const std::string& bytes) {
  std::filesystem::create_directories(folder / "read");
  folder.Put("read/data.mdb", bytes);
  return ErrorOf([&] {
    const auto source = OpenDatabase("lmdb", folder / "read");
    Datum datum;
    while (source->Next(&datum)) {
    }
  });
}

// A file of three levels of pages, and of values that have pages of their own.
std::string Pages(const TemporaryFolder& folder) {
  const auto writer = CreateDatabase("lmdb", folder / "pages");
  for (int n = 0; n < 30; ++n) {
    writer->Put(TestKey(n) + std::string(480, '-'), TestDatum(n, 1, 10, n % 10 ? 60 : 600));
  }
  writer->Finish();
  return folder.Get("pages/data.mdb");
}

constexpr size_t kPage = 4096;

uint16_t Word(const std::string& bytes, size_t at) {
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1])
                                                                     << 8);
}

void SetWord(std::string* bytes, size_t at, uint16_t value) {
  (*bytes)[at] = static_cast<char>(value);
  (*bytes)[at + 1] = static_cast<char>(value >> 8);
}

// liblmdb would read beyond the file, or its stack would end.
TEST(DatabasesTest, DamageInAPageIsAnErrorThatNamesThePage) {
  const TemporaryFolder folder;
  const std::string bytes = Pages(folder);
  ASSERT_EQ(ReadingError(folder, bytes), "");
  int leaves = 0, branches = 0, large = 0;
  for (size_t page = 2 * kPage; page < bytes.size(); page += kPage) {
    const unsigned kind = Word(bytes, page + 10);
    // Pages behind the first one of a large value have no header.
    const bool numbered = Word(bytes, page) == page / kPage && Word(bytes, page + 2) == 0;
    if (!numbered || (kind != 1 && kind != 2 && kind != 4)) continue;
    ++(kind == 1 ? branches : kind == 2 ? leaves : large);
    SCOPED_TRACE(Concat("page ", page / kPage, " of kind ", kind));
    const auto error = [&](size_t at, uint16_t value) {
      std::string damaged = bytes;
      SetWord(&damaged, at, value);
      return ReadingError(folder, damaged);
    };
    const std::string name = Concat("the database is damaged: page ", page / kPage, " ");
    EXPECT_TRUE(Holds(error(page, 999), name + "has another number") ||
                (kind == 4 && Holds(error(page, 999), name)));
    EXPECT_TRUE(Holds(error(page + 10, 8), name));
    if (kind == 4) {
      EXPECT_TRUE(Holds(error(page + 12, 1), name + "does not hold the large value"));
      EXPECT_TRUE(Holds(error(page + 14, 1), name + "does not hold the large value"));
      continue;
    }
    EXPECT_TRUE(Holds(error(page + 10, kind == 1 ? 2 : 1), name + "has a wrong kind"));
    for (const uint16_t offset : {0, 16, 17, 4097, 65535}) {
      EXPECT_TRUE(Holds(error(page + 12, offset), name + "has impossible offsets")) << offset;
    }
    EXPECT_TRUE(Holds(error(page + 14, 4097), name + "has impossible offsets"));
    EXPECT_TRUE(Holds(error(page + 16, 65534), name + "has an entry outside itself"));
    EXPECT_TRUE(Holds(error(page + 16, 4094), name + "has an entry outside itself"));
    const size_t node = page + Word(bytes, page + 16);
    if (kind == 1) {
      for (const uint16_t child : {0, 1, 999, 65535}) {
        EXPECT_TRUE(Holds(error(node, child), Concat("page ", child, " is not one of the file")));
      }
      // The page itself: a cycle.
      EXPECT_TRUE(Holds(error(node, static_cast<uint16_t>(page / kPage)), name));
    } else {
      EXPECT_TRUE(Holds(error(node + 6, 65535), name + "has an entry outside itself"));  // key
      const bool has_pages = Word(bytes, node + 4) == 1;
      EXPECT_TRUE(Holds(error(node + 2, 32767), has_pages ? "does not hold the large value"
                                                          : "has an entry outside itself"));
      EXPECT_TRUE(Holds(error(node + 4, 4), name + "holds a database or several values"));
    }
  }
  EXPECT_GE(leaves, 4);
  EXPECT_GE(branches, 3);
  EXPECT_EQ(large, 3);
}

TEST(DatabasesTest, EveryChangedWordIsAnErrorAtMost) {
  const TemporaryFolder folder;
  const std::string bytes = Pages(folder);
  int refused = 0, cases = 0;
  for (size_t at = 0; at + 2 <= bytes.size(); at += at % kPage < 32 ? 2 : 302) {
    for (const uint16_t value : {0x7fff, 0xffff}) {
      std::string damaged = bytes;
      SetWord(&damaged, at, value);
      refused += !ReadingError(folder, damaged).empty();
      ++cases;
    }
  }
  EXPECT_GT(refused, cases / 50);
}

// LMDB would overwrite the file.
TEST(DatabasesTest, ALockFileThatIsAnotherFileIsNotTouched) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 3, 1, 2, 2);
  const std::string lock = folder / "db/lock.mdb";
  const std::string text(10000, 'x');
  folder.Put("other", text);
  for (const bool symbolic : {true, false}) {
    std::filesystem::remove(lock);
    if (symbolic) {
      std::filesystem::create_symlink(folder / "other", lock);
    } else {
      std::filesystem::create_hard_link(folder / "other", lock);
    }
    const auto source = OpenDatabase("lmdb", folder / "db");
    Datum datum;
    EXPECT_TRUE(source->Next(&datum));
    EXPECT_EQ(folder.Get("other"), text);
  }
  // One that is missing is made.
  std::filesystem::remove(lock);
  OpenDatabase("lmdb", folder / "db");
  EXPECT_TRUE(std::filesystem::exists(lock));
}

// A fault that no check can see; docs/faults.md says so.
TEST(DatabasesTest, AFileThatIsCutWhileItIsReadEndsTheProcess) {
  const TemporaryFolder folder;
  MakeDatabase(folder / "db", 100, 1, 64, 64);
  const int status = InChild([&] {
    signal(SIGBUS, [](int) { _exit(77); });  // sanitizers have a handler, too
    const auto source = OpenDatabase("lmdb", folder / "db");
    Datum datum;
    source->Next(&datum);
    std::filesystem::resize_file(folder / "db/data.mdb", kPage);
    while (source->Next(&datum)) {
    }
    return 0;
  });
  EXPECT_EQ(status, 77);
}

TEST(DatabasesTest, MoreRecordsThanTheFileHoldsAreDamage) {
  const TemporaryFolder folder;
  const std::string bytes = Pages(folder);
  const auto error = [&](uint16_t entries, size_t word) {
    std::string damaged = bytes;
    for (const size_t page : {size_t{0}, kPage}) SetWord(&damaged, page + 120 + 2 * word, entries);
    return ReadingError(folder, damaged);
  };
  EXPECT_EQ(error(30, 0), "");
  EXPECT_TRUE(Holds(error(31, 0), "record 30 of 31: the database is damaged: there are no more"));
  EXPECT_TRUE(Holds(error(30, 3), "it is damaged: its tree of "));
}

TEST(DatabasesTest, AKeyOfAnErrorIsOneLine) {
  const TemporaryFolder folder;
  const auto writer = CreateDatabase("lmdb", folder / "db");
  writer->Put("a\nb\t\x1b[31m", TestDatum(0, 1, 1, 1));
  writer->Finish();
  const auto source = OpenDatabase("lmdb", folder / "db");
  source->Skip();
  EXPECT_EQ(source->key(), "a\\x0ab\\x09\\x1b[31m");
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
