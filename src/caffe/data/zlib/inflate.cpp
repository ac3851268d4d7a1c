#include "caffe/data/zlib/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "caffe/core/error.hpp"

namespace caffe {

std::string Inflate(const std::string& bytes, const std::string& path) {
  z_stream stream{};
  constexpr int kGzipHeader = 16;
  CAFFE_CHECK(inflateInit2(&stream, MAX_WBITS + kGzipHeader) == Z_OK, "cannot read ", path,
              ": zlib cannot be initialized");
  std::string content;
  std::vector<char> piece(1 << 20);
  size_t taken = 0;
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
    } while (result == Z_OK && stream.avail_out == 0);
    taken += given - stream.avail_in;
  }
  inflateEnd(&stream);
  CAFFE_CHECK(result == Z_STREAM_END, "cannot read ", path,
              ": the gzip file is damaged or cut off");
  return content;
}

}  // namespace caffe
