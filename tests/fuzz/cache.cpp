// The file of the program cache: rows of programs and of tuning results, in an SQLite database. A
// row is data until a driver loads it, so that no binary is loaded here.
#include <sqlite3.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "caffe/core/sha256.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/library/tuning_table.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

namespace fs = std::filesystem;
using Mode = ProgramCache::Mode;

const std::array<ProgramCache::TuningKey, 3>& TuningKeys() {
  static const std::array<ProgramCache::TuningKey, 3> keys = {
      {{"cudnn forward", "n1 c3 h8 w8", "float", "gpu sm_90", "535, cudnn 9"},
       {"convolution data", "n2 c4 by a, b", "half", "gpu sm_90", "535, convolution 1"},
       {"gemm", "64x64", "f16", "device", "550"}}};
  return keys;
}

std::string KeyOf(int number) { return CacheKey({std::to_string(number), "-O", "cpu", "device"}); }

ProgramCache::Entry EntryOf(int number) {
  ProgramCache::Entry entry;
  entry.refused = number == 2;
  if (!entry.refused)
    entry.binary = std::string(40 + 300 * number, static_cast<char>('a' + number));
  entry.build_log = "log of " + std::to_string(number);
  entry.build_seconds = 0.25;
  return entry;
}

std::string Contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void ParseRow(const std::string& text) {
  const auto row = TunedRow::Parse(text);
  if (!row) return;
  if (std::isnan(row->milliseconds) || row->milliseconds < 0 || row->configuration.empty() ||
      row->configuration.find('\n') != std::string::npos) {
    Fault("a row of a tuning result has no time or no configuration");
  }
  const auto again = TunedRow::Parse(row->text());
  if (!again || again->exhaustive != row->exhaustive ||
      again->configuration != row->configuration) {
    Fault("a row of a tuning result is not read back");
  }
}

void ReadAll(ProgramCache* cache) {
  for (const ProgramCache::Row& row : cache->List()) cache->Find(row.key);
  for (int i = 0; i < 4; ++i) cache->Find(KeyOf(i));
  for (const auto& key : TuningKeys()) {
    if (const auto text = cache->FindTuning(key)) ParseRow(*text);
  }
}

void ReadCache(std::string_view bytes) {
  ParseRow(std::string(bytes.substr(0, 200)));
  const fs::path folder = fs::path(Folder()) / "program-cache";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::owner_all);
  const fs::path file = WriteInput("program-cache/programs.db", bytes);
  {
    ProgramCache reader(folder, Mode::kReadOnly);
    ReadAll(&reader);
    reader.Verify();
    reader.state();
  }
  if (Contents(file) != bytes) Fault("reading changed the file");
  // With a write-ahead log, or without one, as on network file systems.
  const bool shared_memory = !bytes.empty() && bytes.back() % 2 == 0;
  ProgramCache cache(folder, Mode::kReadWrite,
                     {.busy_milliseconds = 100, .shared_memory = shared_memory});
  ReadAll(&cache);
  cache.Verify();
  const auto entry = EntryOf(1);
  cache.Store("new", "device", "program", entry);
  const auto found = cache.Find("new");
  if (!found || found->binary != entry.binary || found->build_log != entry.build_log) {
    Fault("a program that was stored is not found");
  }
  cache.StoreTuning(TuningKeys()[0], "quick 1 new");
  if (cache.FindTuning(TuningKeys()[0]) != "quick 1 new") {
    Fault("a tuning result that was stored is not found");
  }
  const auto report = cache.Verify();
  const auto state = cache.state();
  // A damaged file is set aside, and the next one is sound.
  if (state.mode != Mode::kReadWrite) Fault("the cache is not used: " + state.disabled_reason);
  if (report.unsound != 0 || !report.file_damage.empty()) {
    Fault("the cache is still damaged: " + report.file_damage);
  }
}

class Connection {
 public:
  Connection() { sqlite3_open(":memory:", &connection_); }
  ~Connection() { sqlite3_close_v2(connection_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Load(std::string_view bytes, size_t most) {
    auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), copy);
    // A database in memory has no write-ahead log.
    if (bytes.size() > 20) copy[18] = copy[19] = 1;
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    auto limit = static_cast<sqlite3_int64>(most);
    if (sqlite3_deserialize(connection_, "main", copy, size, size,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) !=
        SQLITE_OK) {
      return false;
    }
    sqlite3_file_control(connection_, "main", SQLITE_FCNTL_SIZE_LIMIT, &limit);
    return true;
  }
  bool Execute(const std::string& text) {
    return sqlite3_exec(connection_, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
  std::string Bytes() {
    sqlite3_int64 size = 0;
    unsigned char* bytes = sqlite3_serialize(connection_, "main", &size, 0);
    if (!bytes) return "";
    std::string text(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    sqlite3_free(bytes);
    return text;
  }
  // Writes the right checksums into every row of a table.
  void Seal(const std::string& table, const std::vector<std::string>& columns);

 private:
  sqlite3* connection_ = nullptr;
};

void Connection::Seal(const std::string& table, const std::vector<std::string>& columns) {
  std::string list;
  for (const std::string& column : columns) list += ", " + column;
  sqlite3_stmt* select = nullptr;
  std::vector<std::pair<sqlite3_int64, std::string>> sums;
  if (sqlite3_prepare_v2(connection_, ("SELECT rowid" + list + " FROM " + table).c_str(), -1,
                         &select, nullptr) == SQLITE_OK) {
    while (sums.size() < 100 && sqlite3_step(select) == SQLITE_ROW) {
      Sha256 hash;
      for (int i = 1; i < sqlite3_column_count(select); ++i) {
        if (columns[static_cast<size_t>(i) - 1] == "refused") {
          hash.UpdateFramed(sqlite3_column_int64(select, i) != 0 ? "refused" : "built");
          continue;
        }
        const void* data = sqlite3_column_blob(select, i);
        const auto size = static_cast<size_t>(sqlite3_column_bytes(select, i));
        hash.UpdateFramed(data ? std::string_view(static_cast<const char*>(data), size) : "");
      }
      sums.emplace_back(sqlite3_column_int64(select, 0), Sha256::Hex(hash.Finish()));
    }
  }
  sqlite3_finalize(select);
  for (const auto& [row, sum] : sums) {
    Execute("UPDATE " + table + " SET checksum = x'" + sum +
            "' WHERE rowid = " + std::to_string(row));
  }
}

std::string Hex(std::string_view bytes) {
  std::string text;
  char digits[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

const std::vector<std::string>& RowTexts() {
  static const std::vector<std::string> texts = {"exhaustive 0.125 fused engine 53 knobs 2=1,13=4",
                                                 "quick 1.5 rows",
                                                 "quick nan x",
                                                 "quick inf x",
                                                 "quick -1 x",
                                                 "quick 1e400 x",
                                                 "quick 0x1p3 x",
                                                 "quick 1",
                                                 "quick  2  \tx ",
                                                 "quick 1 x\ny",
                                                 "exhaustive",
                                                 "quick 1 " + std::string(3000, 'x'),
                                                 "quick 1 \n",
                                                 std::string("quick 1 a\0b", 11),
                                                 "quick 4.9e-324 engine 1 knobs 99999999999=1"};
  return texts;
}

// Changes rows, columns and the schema of the database, and repairs most checksums, so that what
// lies behind them is read.
std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  std::minstd_rand random(seed);
  const auto draw = [&](size_t count) { return random() % count; };
  const auto one_of = [&](const std::vector<std::string>& list) { return list[draw(list.size())]; };
  Connection database;
  if (!database.Load(bytes, most)) return "";
  const auto value = [&]() -> std::string {
    switch (draw(8)) {
      case 0: return std::to_string(static_cast<int64_t>(random()) - (1 << 30));
      case 1: return one_of({"9223372036854775807", "-9223372036854775808", "0", "-1", "1e308"});
      case 2: return "x'" + Hex(std::string(draw(400), static_cast<char>(draw(256)))) + "'";
      case 3: return "zeroblob(" + std::to_string(draw(2 * most)) + ")";
      case 4: return "CAST(x'" + Hex(one_of(RowTexts())) + "' AS TEXT)";
      case 5: return "'" + KeyOf(static_cast<int>(draw(5))) + "'";
      case 6: return "''";
      default: return "randomblob(" + std::to_string(draw(64)) + ")";
    }
  };
  const std::vector<std::string> programs = {"key",      "device",    "program",       "size",
                                             "created",  "last_use",  "build_seconds", "refused",
                                             "checksum", "build_log", "binary"};
  const std::vector<std::string> tuning = {"family", "shape_bucket",  "types",   "device",
                                           "driver", "configuration", "checksum"};
  for (size_t i = 0, changes = 1 + draw(3); i < changes; ++i) {
    const bool of_programs = draw(2) == 0;
    const std::string table = of_programs ? "programs" : "tuning";
    const std::string column = one_of(of_programs ? programs : tuning);
    const std::string which = " WHERE rowid % 3 = " + std::to_string(draw(3));
    switch (draw(8)) {
      case 0:
      case 1:
        database.Execute("UPDATE " + table + " SET " + column + " = " + value() + which);
        break;
      case 2:
        database.Execute("UPDATE tuning SET configuration = CAST(x'" + Hex(one_of(RowTexts())) +
                         "' AS TEXT)" + which);
        break;
      case 3: database.Execute("DELETE FROM " + table + which); break;
      case 4:
        database.Execute("INSERT OR REPLACE INTO programs SELECT " + value() +
                         ", device, program, size, created, last_use, build_seconds, refused, "
                         "checksum, build_log, binary FROM programs LIMIT 1");
        break;
      case 5:
        database.Execute("PRAGMA " + one_of({"user_version", "application_id"}) + " = " +
                         std::to_string(draw(3)));
        break;
      case 6:
        database.Execute(
            "PRAGMA writable_schema = 1; UPDATE sqlite_master SET " +
            one_of({"sql = replace(sql, 'NOT NULL', '')", "sql = replace(sql, 'PRIMARY KEY', '')",
                    "sql = replace(sql, 'BLOB', 'INTEGER')",
                    "sql = replace(sql, 'last_use, size', 'size')",
                    "sql = replace(sql, 'checksum', 'CHECKSUM')", "sql = NULL", "sql = " + value(),
                    "rootpage = " + std::to_string(draw(12)), "rootpage = " + value(),
                    "type = 'view'", "tbl_name = 'tuning'", "name = 'sqlite_stat1'"}) +
            which);
        break;
      default:
        database.Execute(one_of(
            {"CREATE TRIGGER t AFTER INSERT ON programs BEGIN DELETE FROM programs; END",
             "CREATE TRIGGER u BEFORE UPDATE ON programs BEGIN SELECT raise(FAIL, 'no'); END",
             "ALTER TABLE programs RENAME TO p; CREATE VIEW programs AS SELECT * FROM p",
             "ALTER TABLE programs ADD COLUMN more", "CREATE UNIQUE INDEX i ON tuning(types)",
             "DROP TABLE tuning", "DROP INDEX programs_by_age", "REINDEX",
             "ALTER TABLE tuning RENAME COLUMN configuration TO c", "CREATE TABLE a(b CHECK(b))",
             "CREATE INDEX j ON programs(abs(size))"}));
        break;
    }
  }
  if (draw(4) != 0) {
    database.Seal("programs", {"key", "refused", "build_log", "binary"});
    database.Seal("tuning",
                  {"family", "shape_bucket", "types", "device", "driver", "configuration"});
  }
  return database.Bytes();
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  const fs::path folder = fs::path(Folder()) / "seed-of-cache";
  const fs::path file = folder / "programs.db";
  fs::remove_all(folder);
  // In small pages: a case is short, and most of its bytes mean something.
  const auto add = [&](const std::string& name) {
    sqlite3* connection = nullptr;
    if (sqlite3_open(file.c_str(), &connection) != SQLITE_OK ||
        sqlite3_exec(connection, "PRAGMA page_size = 512; VACUUM", nullptr, nullptr, nullptr) !=
            SQLITE_OK) {
      Fault("cannot make a seed");
    }
    sqlite3_close(connection);
    seeds.push_back({name, Contents(file)});
  };
  {
    ProgramCache cache(folder, Mode::kReadWrite, {.shared_memory = false});
    cache.Verify();
  }
  add("empty.db");
  {
    ProgramCache cache(folder, Mode::kReadWrite, {.shared_memory = false});
    for (int i = 0; i < 4; ++i) cache.Store(KeyOf(i), "device", "program", EntryOf(i));
    for (size_t i = 0; i < TuningKeys().size(); ++i) {
      cache.StoreTuning(TuningKeys()[i], RowTexts()[i % 2]);
    }
  }
  add("programs.db");
  for (const char* row : {"quick 1.5 rows", "exhaustive 0.125 fused engine 53 knobs 2=1,13=4"}) {
    seeds.push_back({"row-" + std::to_string(seeds.size()) + ".txt", row});
  }
  return seeds;
}

std::vector<std::string> Words() {
  return {"quick",   "exhaustive", "SQLite format 3", "programs",    "tuning", "checksum", "TEXT",
          "INTEGER", "BLOB",       "NOT NULL",        "CREATE TABLE"};
}

const Registration registration(
    {.name = "cache", .run = ReadCache, .seeds = Seeds, .words = Words, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
