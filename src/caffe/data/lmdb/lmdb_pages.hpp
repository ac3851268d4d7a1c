#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace caffe {

// The page at the beginning of a file that describes it, as a 64-bit machine writes it. There are
// two; the transaction N writes page N % 2.
struct LmdbMeta {
  struct Tree {
    uint32_t page_size;  // only in the first tree
    uint16_t flags, depth;
    uint64_t pages[3], entries, root;
  };
  static constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
  static constexpr uint64_t kNoRoot = ~uint64_t{0};

  char page_header[16];
  uint32_t magic, version;
  uint64_t address, map_size;
  Tree free, records;
  uint64_t last_page, transaction;

  // False if a number is impossible: liblmdb uses them without a check.
  bool IsSound() const;
};
static_assert(sizeof(LmdbMeta) == 152);

// The records of a file of LMDB in the order of their keys. It reads the tree of pages itself:
// liblmdb trusts what pages say, and damage in one ends the process. Here each page is checked when
// it is reached, and no byte is read that does not lie in the file.
class LmdbPages {
 public:
  // Maps the file of this descriptor, which may be closed afterwards. Throws if it cannot.
  LmdbPages(int descriptor, size_t page_size);
  ~LmdbPages();
  LmdbPages(const LmdbPages&) = delete;
  LmdbPages& operator=(const LmdbPages&) = delete;

  size_t file_size() const { return size_; }
  // The page of these two that this transaction wrote. False if another has replaced it.
  bool ReadMeta(uint64_t transaction, LmdbMeta* meta) const;

  // Goes before the first record. Throws if the file is shorter than the meta page says, and if it
  // cannot hold as many records.
  void Start(const LmdbMeta& meta);
  // Goes to the next record; false after the last one. Throws, with the page, if it is damaged.
  bool Next();
  // The record's key and value. They remain valid until the file is closed.
  std::string_view key() const { return key_; }
  std::string_view value() const;

 private:
  // A page on the way from the root to the record, and the entry of it that is taken.
  struct Step {
    uint64_t page;
    size_t entry, entries;
  };

  const char* Page(uint64_t number) const { return map_ + number * page_size_; }
  void Enter(uint64_t number, int level);
  // The place of the entry in its page.
  size_t Node(const Step& step) const;
  void ReadRecord();

  const size_t page_size_;
  size_t size_ = 0;
  const char* map_ = nullptr;
  uint64_t pages_ = 0;  // of the file, as far as the transaction sees it
  uint64_t root_ = LmdbMeta::kNoRoot;
  int depth_ = 0;
  bool started_ = false;
  int level_ = 0;
  std::array<Step, 32> path_;
  std::string_view key_, value_;
  // If the value has pages of its own: the first of them, and its size.
  uint64_t value_page_ = 0;
  size_t value_size_ = 0;
};

}  // namespace caffe
