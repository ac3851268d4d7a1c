#include "caffe/data/lmdb/lmdb_pages.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// A page begins with its number (8 bytes), 2 bytes of padding, its kind (2), and two offsets (2
// each), or, if it belongs to a large value, the number of pages of that (4). Offsets of entries
// follow, 2 bytes each, up to the first offset; entries lie behind the second one.
constexpr size_t kPageHeader = 16, kKindAt = 10, kLowerAt = 12, kUpperAt = 14;
constexpr unsigned kBranch = 1, kLeaf = 2, kLarge = 4, kKinds = 0x6f;
// An entry begins with 4 bytes of size, flags (2) and the size of its key (2). In a branch, the
// first 6 bytes are the number of a page.
constexpr size_t kEntryHeader = 8, kFlagsAt = 4, kKeySizeAt = 6;
constexpr unsigned kHasPages = 1, kHasDatabase = 2, kHasDuplicates = 4;

// The bits of an entry are in another order on other machines.
static_assert(std::endian::native == std::endian::little);

template <class T> T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void CheckPage(bool sound, uint64_t page, const char* fault) {
  CAFFE_CHECK(sound, "page ", page, " ", fault);
}

}  // namespace

bool LmdbMeta::IsSound() const {
  constexpr uint64_t kMostMapped = uint64_t{1} << 47;
  const uint32_t size = free.page_size;
  if (size < 256 || size > 65536 || !std::has_single_bit(size)) return false;
  if (map_size > kMostMapped || last_page > kMostMapped / size) return false;
  for (const Tree& tree : {free, records}) {
    if (tree.flags >= 128 || tree.depth > 32) return false;
    if (tree.root != kNoRoot && tree.root > last_page) return false;
  }
  return true;
}

LmdbPages::LmdbPages(int descriptor, size_t page_size) : page_size_(page_size) {
  struct stat file;
  CAFFE_CHECK(fstat(descriptor, &file) == 0, "cannot read its size: ", std::strerror(errno));
  size_ = static_cast<size_t>(file.st_size);
  CAFFE_CHECK(size_ >= 2 * page_size_, "it is cut off: it has ", size_, " bytes");
  void* map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  CAFFE_CHECK(map != MAP_FAILED, "cannot map its ", size_, " bytes: ", std::strerror(errno));
  map_ = static_cast<const char*>(map);
}

LmdbPages::~LmdbPages() { munmap(const_cast<char*>(map_), size_); }

bool LmdbPages::ReadMeta(uint64_t transaction, LmdbMeta* meta) const {
  const char* page = Page(transaction % 2);
  std::memcpy(meta, page, sizeof(*meta));
  // A process that writes may have begun to replace it meanwhile.
  return meta->transaction == transaction && std::memcmp(meta, page, sizeof(*meta)) == 0;
}

void LmdbPages::Start(const LmdbMeta& meta) {
  // Not size >= needed: a damaged number of the last page makes the product wrap around.
  CAFFE_CHECK(meta.last_page < size_ / page_size_, "it is cut off: it has ", size_, " bytes of ",
              (meta.last_page + 1) * page_size_);
  const bool empty = meta.records.root == LmdbMeta::kNoRoot;
  CAFFE_CHECK(empty == (meta.records.entries == 0) && (empty || meta.records.depth > 0) &&
                  meta.records.entries <= size_ / kEntryHeader,
              "it is damaged: its tree of ", meta.records.depth, " levels announces ",
              meta.records.entries, " records");
  pages_ = meta.last_page + 1;
  root_ = meta.records.root;
  depth_ = meta.records.depth;
  started_ = false;
}

void LmdbPages::Enter(uint64_t number, int level) {
  CheckPage(number >= 2 && number < pages_, number, "is not one of the file");
  const char* page = Page(number);
  CheckPage(Load<uint64_t>(page) == number, number, "has another number");
  const unsigned kind = Load<uint16_t>(page + kKindAt) & kKinds;
  CheckPage(kind == (level + 1 == depth_ ? kLeaf : kBranch), number, "has a wrong kind");
  const size_t lower = Load<uint16_t>(page + kLowerAt), upper = Load<uint16_t>(page + kUpperAt);
  CheckPage(lower > kPageHeader && lower % 2 == 0 && lower <= upper && upper <= page_size_, number,
            "has impossible offsets");
  path_[level] = {number, 0, (lower - kPageHeader) / 2};
  level_ = level;
}

size_t LmdbPages::Node(const Step& step) const {
  const size_t at = Load<uint16_t>(Page(step.page) + kPageHeader + 2 * step.entry);
  CheckPage(at >= kPageHeader + 2 * step.entries && at + kEntryHeader <= page_size_, step.page,
            "has an entry outside itself");
  return at;
}

bool LmdbPages::Next() {
  if (root_ == LmdbMeta::kNoRoot) return false;
  if (!started_) {
    Enter(root_, 0);
    started_ = true;
  } else {
    while (++path_[level_].entry >= path_[level_].entries) {
      if (level_ == 0) {
        --path_[0].entry;  // stays behind the last record
        return false;
      }
      --level_;
    }
  }
  while (level_ + 1 < depth_) {
    const Step& step = path_[level_];
    constexpr uint64_t kNumber = (uint64_t{1} << 48) - 1;
    const uint64_t child = Load<uint64_t>(Page(step.page) + Node(step)) & kNumber;
    Enter(child, level_ + 1);
  }
  ReadRecord();
  return true;
}

void LmdbPages::ReadRecord() {
  const Step& step = path_[level_];
  const size_t at = Node(step);
  const char* node = Page(step.page) + at;
  const uint32_t size = Load<uint32_t>(node);
  const unsigned flags = Load<uint16_t>(node + kFlagsAt);
  const size_t key_size = Load<uint16_t>(node + kKeySizeAt);
  CheckPage((flags & (kHasDatabase | kHasDuplicates)) == 0, step.page,
            "holds a database or several values of a key, and not one record");
  const bool large = flags & kHasPages;
  const size_t end = at + kEntryHeader + key_size + (large ? sizeof(uint64_t) : size);
  CheckPage(end <= page_size_, step.page, "has an entry outside itself");
  key_ = {node + kEntryHeader, key_size};
  const char* data = node + kEntryHeader + key_size;
  value_page_ = large ? Load<uint64_t>(data) : 0;
  value_size_ = size;
  value_ = large ? std::string_view() : std::string_view(data, size);
}

std::string_view LmdbPages::value() const {
  if (value_page_ == 0) return value_;
  const uint64_t number = value_page_;
  CheckPage(number >= 2 && number < pages_, number, "is not one of the file");
  const char* page = Page(number);
  const uint64_t count = Load<uint32_t>(page + kLowerAt);
  CheckPage(Load<uint64_t>(page) == number && (Load<uint16_t>(page + kKindAt) & kKinds) == kLarge &&
                count <= pages_ - number && kPageHeader + value_size_ <= count * page_size_,
            number, "does not hold the large value that it should");
  return {page + kPageHeader, value_size_};
}

}  // namespace caffe
