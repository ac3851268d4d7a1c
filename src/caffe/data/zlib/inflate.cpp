#include "caffe/data/zlib/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/data/data_limits.hpp"

namespace caffe {
namespace {

// The state of zlib, which holds memory.
class Inflater {
 public:
  explicit Inflater(const std::string& path) {
    constexpr int kGzipHeader = 16;
    CAFFE_CHECK(inflateInit2(&stream_, MAX_WBITS + kGzipHeader) == Z_OK, "cannot read ", path,
                ": zlib cannot be initialized");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream* stream() { return &stream_; }

 private:
  z_stream stream_{};
};

std::string InflateAll(const std::string& bytes, const std::string& path,
                       const std::function<uint64_t(std::string_view head)>& announced) {
  constexpr size_t kHead = 64;
  Inflater inflater(path);
  z_stream& stream = *inflater.stream();
  const uint64_t most = static_cast<uint64_t>(MostUnpacked().most) << 20;
  std::string content;
  std::vector<char> piece(1 << 20);
  size_t taken = 0;
  uint64_t expected = announced ? 0 : most;  // 0: the head is not there yet
  int result = Z_OK;
  // A gzip file may consist of several members.
  while (taken < bytes.size() && (result == Z_OK || result == Z_STREAM_END)) {
    if (result == Z_STREAM_END) inflateReset(&stream);
    const size_t given = std::min<size_t>(bytes.size() - taken, INT_MAX);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(given);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      result = inflate(&stream, Z_NO_FLUSH);
      content.append(piece.data(), piece.size() - stream.avail_out);
      CAFFE_CHECK(content.size() <= most, "cannot read ", path, ": its ", bytes.size(),
                  " bytes unpack to more than ", MostUnpacked().most, " MiB; ",
                  MostUnpacked().ToString());
      if (expected == 0 && content.size() >= kHead) expected = announced(content);
      CAFFE_CHECK(expected == 0 || content.size() <= expected, path,
                  ": it unpacks to more than the ", expected, " bytes that its header announces");
    } while (result == Z_OK && stream.avail_out == 0);
    if (result == Z_BUF_ERROR && stream.avail_in == 0)
      result = Z_OK;  // needs the bytes that follow
    taken += given - stream.avail_in;
  }
  CAFFE_CHECK(result == Z_STREAM_END, "cannot read ", path,
              ": the gzip file is damaged or cut off");
  return content;
}

}  // namespace

std::string Inflate(const std::string& bytes, const std::string& path,
                    const std::function<uint64_t(std::string_view head)>& announced) {
  return NamingMemory(path, [&] { return InflateAll(bytes, path, announced); });
}

std::optional<int64_t> DeflatedSize(std::string_view bytes) {
  constexpr int kGzipHeader = 16, kMemory = 8;
  z_stream stream{};
  CAFFE_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipHeader,
                           kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
              "zlib cannot be initialized");
  std::vector<char> piece(1 << 16);
  int64_t size = 0;
  size_t taken = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    const size_t given = std::min<size_t>(bytes.size() - taken, 1 << 20);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(given);
    taken += given;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      result = deflate(&stream, taken == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
      size += static_cast<int64_t>(piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  CAFFE_CHECK(result == Z_STREAM_END, "zlib cannot compress ", bytes.size(), " bytes");
  return size;
}

}  // namespace caffe
