// A database: the bytes of data.mdb.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "caffe.pb.h"
#include "caffe/data/databases.hpp"
#include "data/test_database.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

namespace fs = std::filesystem;

// Pages may be used several times in a damaged file, so that it has more records than room.
constexpr int kMostRecords = 1000;

void ReadRecords(std::string_view bytes) {
  fs::create_directories(Folder() + "/lmdb");
  WriteInput("lmdb/data.mdb", bytes);
  const auto source = OpenDatabase("lmdb", Folder() + "/lmdb");
  Datum datum;
  std::string keys;
  for (int count = 0; count < kMostRecords; ++count) {
    bool more = false;
    try {
      more = count % 8 == 7 ? source->Skip() : source->Next(&datum);
    } catch (const Error&) {
      // Reading on must not do harm either.
      if (count > 50) break;
      continue;
    }
    if (!more) break;
    keys += source->key();
  }
  source->Rewind();
  if (source->position() != 0) Fault("Rewind does not go to the first record");
  source->Next(&datum);
}

std::string Database(int64_t records, int height, int width) {
  const std::string path = Folder() + "/seed";
  MakeDatabase(path, records, 1, height, width);
  std::string bytes = RepositoryFile(path + "/data.mdb");
  fs::remove_all(path);
  return bytes;
}

std::vector<Input> Seeds() {
  return {{"one_page", Database(5, 2, 3)},
          {"two_levels", Database(40, 10, 20)},
          {"large_values", Database(3, 50, 100)}};
}

// Changes a field of a page, or of an entry of it, where it lies; pages and entries are found as
// LMDB finds them.
std::string Mutate(std::string_view bytes, size_t most, uint32_t seed) {
  constexpr size_t kPage = 4096, kHeader = 16;
  if (bytes.size() < 2 * kPage || bytes.size() > most) return "";
  std::string changed(bytes);
  std::minstd_rand random(seed);
  const auto draw = [&](size_t count) { return random() % count; };
  const auto read16 = [&](size_t at) {
    uint16_t value;
    std::memcpy(&value, changed.data() + at, 2);
    return value;
  };
  const auto write = [&](size_t at, size_t size) {
    static constexpr uint64_t kSpecial[] = {0,
                                            1,
                                            2,
                                            4,
                                            8,
                                            16,
                                            0x7fff,
                                            0xffff,
                                            0xfff0,
                                            4095,
                                            4096,
                                            4094,
                                            8,
                                            18,
                                            20,
                                            65536,
                                            uint64_t{1} << 31,
                                            ~uint64_t{0}};
    uint64_t value = 0;
    if (at + size > changed.size()) return;
    std::memcpy(&value, changed.data() + at, size);
    switch (draw(4)) {
      case 0: ++value; break;
      case 1: --value; break;
      case 2: value ^= uint64_t{1} << draw(8 * size); break;
      default: value = kSpecial[draw(std::size(kSpecial))]; break;
    }
    std::memcpy(changed.data() + at, &value, size);
  };
  const size_t changes = 1 + draw(3);
  for (size_t i = 0; i < changes; ++i) {
    const size_t page = draw(changed.size() / kPage) * kPage;
    if (page < 2 * kPage) {
      // The fields of a meta page, and those of its two trees.
      static constexpr std::pair<size_t, size_t> kFields[] = {
          {16, 4},  {20, 4},  {24, 8},  {32, 8},  {40, 4},  {44, 2},  {46, 2},  {72, 8},
          {80, 8},  {92, 2},  {94, 2},  {96, 8},  {104, 8}, {112, 8}, {120, 8}, {128, 8},
          {136, 8}, {144, 8}, {152, 8}, {136, 8}, {94, 2},  {136, 8}, {120, 8}, {136, 8}};
      const auto& [at, size] = kFields[draw(std::size(kFields))];
      write(page + at, size);
      continue;
    }
    const size_t entries = (std::clamp<size_t>(read16(page + 12), kHeader, kPage) - kHeader) / 2;
    if (entries == 0 || draw(3) == 0) {
      static constexpr std::pair<size_t, size_t> kFields[] = {
          {0, 8}, {10, 2}, {12, 2}, {14, 2}, {12, 4}};
      const auto& [at, size] = kFields[draw(std::size(kFields))];
      write(page + at, size);
      continue;
    }
    const size_t entry = page + kHeader + 2 * draw(entries);
    if (draw(3) == 0) {
      write(entry, 2);
      continue;
    }
    const size_t node = page + read16(entry) % kPage;
    static constexpr std::pair<size_t, size_t> kFields[] = {{0, 4}, {0, 2}, {4, 2}, {6, 2}};
    const auto& [at, size] = kFields[draw(std::size(kFields))];
    if (node + 8 > changed.size()) continue;
    if (draw(4) == 0) {
      write(node + 8 + read16(node + 6), 8);  // the page of a large value
    } else {
      write(node + at, size);
    }
  }
  return changed;
}

const Registration registration(
    {.name = "lmdb", .run = ReadRecords, .seeds = Seeds, .mutate = Mutate});

}  // namespace
}  // namespace caffe::fuzz
