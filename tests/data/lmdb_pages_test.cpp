// Records of databases that other programs have written and changed, against liblmdb's own reading.
#include <gtest/gtest.h>
#include <lmdb.h>

#include <map>
#include <random>

#include "caffe.pb.h"
#include "caffe/data/databases.hpp"
#include "io/temporary_folder.hpp"
#include "support/in_child.hpp"

namespace caffe {
namespace {

// A database that is written in many transactions.
class ChangedDatabase {
 public:
  explicit ChangedDatabase(const std::string& path, unsigned flags) {
    std::filesystem::create_directory(path);
    EXPECT_EQ(mdb_env_create(&environment_), 0);
    EXPECT_EQ(mdb_env_set_mapsize(environment_, 64 << 20), 0);
    EXPECT_EQ(mdb_env_open(environment_, path.c_str(), MDB_NOSYNC | flags, 0664), 0);
  }
  ~ChangedDatabase() { mdb_env_close(environment_); }

  // Puts and removes records at random.
  void Change(std::mt19937* random, int changes) {
    MDB_txn* transaction = nullptr;
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_txn_begin(environment_, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
    for (int i = 0; i < changes; ++i) {
      std::string key = std::to_string((*random)() % 400);
      key.resize(1 + key.size() + (*random)() % 30 * (key[0] == '1' ? 10 : 1), '_');
      MDB_val name{key.size(), key.data()};
      if ((*random)() % 3 == 0) {
        const int result = mdb_del(transaction, database, &name, nullptr);
        ASSERT_TRUE(result == 0 || result == MDB_NOTFOUND);
        records_.erase(key);
        continue;
      }
      Datum datum;
      datum.set_data(std::string((*random)() % 4 == 0 ? (*random)() % 20000 : (*random)() % 300,
                                 static_cast<char>(i)));
      std::string bytes = datum.SerializeAsString();
      MDB_val value{bytes.size(), bytes.data()};
      ASSERT_EQ(mdb_put(transaction, database, &name, &value, 0), 0);
      records_[key] = bytes;
    }
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
  }
  void CopyTo(const std::string& path, unsigned flags) const {
    std::filesystem::create_directory(path);
    EXPECT_EQ(mdb_env_copy2(environment_, path.c_str(), flags), 0);
  }
  const std::map<std::string, std::string>& records() const { return records_; }

 private:
  MDB_env* environment_ = nullptr;
  std::map<std::string, std::string> records_;
};

void ExpectRecords(const std::string& path, const std::map<std::string, std::string>& expected) {
  const auto source = OpenDatabase("lmdb", path);
  ASSERT_EQ(source->count(), static_cast<int64_t>(expected.size()));
  Datum datum;
  for (const auto& [key, bytes] : expected) {
    ASSERT_TRUE(source->Next(&datum));
    EXPECT_EQ(source->key(), key);
    EXPECT_EQ(datum.SerializeAsString(), bytes);
  }
  EXPECT_FALSE(source->Next(&datum));
}

TEST(LmdbPagesTest, DatabasesThatWereChangedAreReadAsTheyAre) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (const unsigned flags : {0u, static_cast<unsigned>(MDB_WRITEMAP)}) {
    const std::string name = Concat(folder / "db", flags);
    for (int round = 0; round < 2; ++round) {
      ChangedDatabase database(name + "-" + std::to_string(round), flags);
      for (int i = 0; i < 16; ++i) {
        database.Change(&random, round == 0 ? 1 + i % 7 : 60);
        if (i % 8 != 7) continue;
        const std::string copy = Concat(name, "-", round, "-copy-", i);
        database.CopyTo(copy, 0);
        ExpectRecords(copy, database.records());
        database.CopyTo(copy + "-compact", MDB_CP_COMPACT);
        ExpectRecords(copy + "-compact", database.records());
      }
    }
  }
}

// A process of its own changes the database while it is read: LMDB writes to no page that the
// reader sees, and a reader that is opened later sees the changes.
TEST(LmdbPagesTest, ASourceSeesTheDatabaseAsItWasWhenItWasOpened) {
  const TemporaryFolder folder;
  const auto change = [&](std::map<std::string, std::string>* records) {
    std::mt19937 random(2);
    ChangedDatabase database(folder / "db", 0);
    for (int i = 0; i < 20; ++i) database.Change(&random, 100);
    *records = database.records();
  };
  std::map<std::string, std::string> first, ignored;
  change(&first);
  const auto source = OpenDatabase("lmdb", folder / "db");
  Datum datum;
  int64_t count = 0;
  for (const auto& [key, bytes] : first) {
    ASSERT_TRUE(source->Next(&datum));
    EXPECT_EQ(source->key(), key);
    EXPECT_EQ(datum.SerializeAsString(), bytes);
    if (++count == 20) {
      EXPECT_EQ(InChild([&] {
                  // The same records again, and one more.
                  change(&ignored);
                  const auto writer = std::make_unique<ChangedDatabase>(folder / "db", 0);
                  std::mt19937 random(3);
                  writer->Change(&random, 50);
                  return 0;
                }),
                0);
    }
  }
  EXPECT_FALSE(source->Next(&datum));
}

}  // namespace
}  // namespace caffe
