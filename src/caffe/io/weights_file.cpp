#include "caffe/io/weights_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "binary_net.hpp"
#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/proto_io.hpp"

namespace caffe {
namespace {

constexpr int64_t kLarge = 4096;  // bytes: shorter arrays are parsed with the net
constexpr int kMostLayers = 1 << 16;
constexpr size_t kMostOutline = 1 << 24;  // bytes: a longer outline saves no memory

}  // namespace

// Reads a regular file from a position onward, through a buffer.
class WeightsFile::File {
 public:
  explicit File(const std::string& path) : path_(path) {
    CheckPath(path);
    // A pipe is not opened: a program that writes to it would see that it is closed again.
    struct stat status;
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ >= 0 && fstat(descriptor_, &status) == 0) size_ = status.st_size;
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }
  int64_t size() const { return size_; }
  int64_t position() const { return position_; }
  void Skip(int64_t bytes) { position_ += bytes; }
  bool Get(std::string* out, int64_t bytes) {
    if (bytes > size_ - position_) return false;
    for (; bytes > 0; --bytes) {
      const auto byte = Byte();
      if (!byte) return false;
      out->push_back(static_cast<char>(*byte));
    }
    return true;
  }
  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = Byte();
      if (!byte) return std::nullopt;
      value |= static_cast<uint64_t>(*byte & 0x7f) << shift;
      if (!(*byte & 0x80)) return value;
    }
    return std::nullopt;
  }
  void ReadAt(int64_t offset, int64_t bytes, char* target) const {
    while (bytes > 0) {
      const ssize_t count = pread(descriptor_, target, static_cast<size_t>(bytes), offset);
      if (count < 0 && errno == EINTR) continue;
      CAFFE_CHECK(count >= 0, "cannot read ", path_, ": ", std::strerror(errno));
      CAFFE_CHECK(count > 0, "cannot read ", path_, ": it became shorter while it was read");
      target += count;
      offset += count;
      bytes -= count;
    }
  }

 private:
  std::optional<uint8_t> Byte() {
    if (position_ >= size_) return std::nullopt;
    if (position_ < start_ || position_ >= start_ + static_cast<int64_t>(buffer_.size())) {
      start_ = position_;
      buffer_.resize(static_cast<size_t>(std::min<int64_t>(1 << 16, size_ - position_)));
      const ssize_t count = pread(descriptor_, buffer_.data(), buffer_.size(), start_);
      if (count <= 0) return std::nullopt;
      buffer_.resize(static_cast<size_t>(count));
    }
    return static_cast<uint8_t>(buffer_[static_cast<size_t>(position_++ - start_)]);
  }

  std::string path_, buffer_;
  int descriptor_ = -1;
  int64_t size_ = 0, position_ = 0, start_ = 0;
};

// A file in memory, read only.
class WeightsFile::Mapping {
 public:
  // Invalid if the file cannot be mapped or has another size by now.
  explicit Mapping(const File& file) : size_(static_cast<size_t>(file.size())) {
    struct stat status;
    if (fstat(file.descriptor(), &status) != 0 || status.st_size != file.size()) return;
    void* const first = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (first != MAP_FAILED) first_ = static_cast<const char*>(first);
  }
  ~Mapping() {
    if (first_) munmap(const_cast<char*>(first_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const char* first() const { return first_; }

 private:
  size_t size_;
  const char* first_ = nullptr;
};

namespace {

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

}  // namespace

// Copies the bytes of a net without its large arrays, whose positions it notes. Each function
// returns false for a file that must be read whole.
struct WeightsFile::Outline {
  enum class Level { kNet, kLayer, kBlob };

  File* file;
  std::vector<Span>* spans;
  int layers = 0;

  bool Copy(Level level, int64_t end, std::string* out) {
    Span span;
    bool other_arrays = false;
    while (file->position() < end) {
      const auto tag = file->Varint();
      if (!tag || *tag == 0 || out->size() > kMostOutline) return false;
      const uint64_t field = *tag >> 3, wire = *tag & 7;
      if (wire == 0) {
        const auto value = file->Varint();
        if (!value) return false;
        PutVarint(*tag, out);
        PutVarint(*value, out);
        continue;
      }
      if (wire == 1 || wire == 5) {
        other_arrays = other_arrays || field == BlobProto::kDataFieldNumber;
        PutVarint(*tag, out);
        if (!file->Get(out, wire == 1 ? 8 : 4)) return false;
        continue;
      }
      if (wire != 2) return false;
      const auto length = file->Varint();
      if (!length || *length > static_cast<uint64_t>(end - file->position())) return false;
      const int64_t bytes = static_cast<int64_t>(*length);
      if (level == Level::kNet && field == NetParameter::kLayersFieldNumber) return false;
      const bool layer = level == Level::kNet && field == NetParameter::kLayerFieldNumber;
      if (layer && ++layers > kMostLayers) return false;
      const bool blob = level == Level::kLayer && field == LayerParameter::kBlobsFieldNumber;
      if (layer || blob) {
        std::string part;
        if (!Copy(layer ? Level::kLayer : Level::kBlob, file->position() + bytes, &part)) {
          return false;
        }
        PutVarint(*tag, out);
        PutVarint(part.size(), out);
        *out += part;
      } else if (level == Level::kBlob && bytes >= kLarge &&
                 ((field == BlobProto::kDataFieldNumber && bytes % 4 == 0) ||
                  field == BlobProto::kPackedDataFieldNumber)) {
        if (span.bytes >= 0) return false;
        span = {file->position(), bytes, field == BlobProto::kPackedDataFieldNumber};
        file->Skip(bytes);
      } else if (level == Level::kBlob && field == static_cast<uint64_t>(kPaddingField)) {
        file->Skip(bytes);
      } else {
        // All arrays of a blob but large ones of data.
        other_arrays =
            other_arrays || (level == Level::kBlob && field != BlobProto::kShapeFieldNumber &&
                             field != BlobProto::kDataTypeNameFieldNumber);
        PutVarint(*tag, out);
        PutVarint(*length, out);
        if (out->size() + *length > kMostOutline || !file->Get(out, bytes)) return false;
      }
    }
    if (level == Level::kBlob) spans->push_back(span);
    return file->position() == end && !(span.bytes >= 0 && other_arrays);
  }
};

bool WeightsFile::ReadOutline(const std::string& path) {
  file_ = std::make_unique<File>(path);
  if (file_->size() == 0 || file_->size() > std::numeric_limits<int>::max()) return false;
  std::string bytes;
  if (!Outline{file_.get(), &spans_}.Copy(Outline::Level::kNet, file_->size(), &bytes))
    return false;
  net_ = std::make_unique<NetParameter>();
  if (!net_->ParseFromString(bytes) || net_->layer_size() == 0) return false;
  UpgradeBinaryNet(path, net_.get());
  size_t blobs = 0;
  for (const LayerParameter& layer : net_->layer()) blobs += layer.blobs_size();
  return blobs == spans_.size();
}

WeightsFile::WeightsFile(const std::string& path) {
  if (NamingMemory(path, [&] { return ReadOutline(path); })) return;
  spans_.clear();
  file_.reset();
  net_ = std::make_unique<NetParameter>(ReadNetParameterBinary(path));
}

WeightsFile::WeightsFile(NetParameter net) : net_(std::make_unique<NetParameter>(std::move(net))) {}

WeightsFile::~WeightsFile() = default;
WeightsFile::WeightsFile(WeightsFile&&) noexcept = default;

int64_t WeightsFile::Elements(int blob) const {
  if (spans_.empty() || spans_[blob].packed || spans_[blob].bytes < 0) return -1;
  return spans_[blob].bytes / 4;
}

int64_t WeightsFile::PackedBytes(int blob) const {
  return spans_.empty() || !spans_[blob].packed ? -1 : spans_[blob].bytes;
}

void WeightsFile::ReadPacked(int blob, char* target) const {
  file_->ReadAt(spans_[blob].offset, spans_[blob].bytes, target);
}

std::shared_ptr<const char> WeightsFile::Map(int blob) const {
  if (spans_.empty() || spans_[blob].bytes < 0 || spans_[blob].offset % kAlignment != 0) return {};
  if (!mapping_) mapping_ = std::make_shared<Mapping>(*file_);
  if (!mapping_->first()) return {};
  return {mapping_, mapping_->first() + spans_[blob].offset};
}

void WeightsFile::Read(int blob, int64_t first, int64_t count, float* target) const {
  const Span& span = spans_[blob];
  CAFFE_CHECK(first >= 0 && count >= 0 && first + count <= span.bytes / 4, "elements ", first,
              " to ", first + count, " of ", span.bytes / 4);
  file_->ReadAt(span.offset + 4 * first, 4 * count, reinterpret_cast<char*>(target));
}

}  // namespace caffe
