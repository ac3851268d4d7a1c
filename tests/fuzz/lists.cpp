// Lists of images and of files, IDX files and gzip files. The first byte says which.
#include <cstdlib>

#include "caffe.pb.h"
#include "caffe/data/gzip_file.hpp"
#include "caffe/data/image_list.hpp"
#include "caffe/io/text_lines.hpp"
#include "commands/idx_file.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

constexpr char kImages = 'i', kFiles = 'f', kIdx = 'x', kLabels = 'l', kGzip = 'z';

// MiB of an unpacked file, so that the limit is reached; read at the first file of the process.
constexpr size_t kMostUnpacked = 4;
const bool limited = setenv("CAFFE_MAX_UNPACKED", "4", 0) == 0;

void CheckIdx(const IdxFile& file) {
  int64_t count = 1;
  for (const int64_t extent : file.shape) count *= extent;
  if (file.begin + count != file.bytes.size()) Fault("an IDX file of another size");
}

void Take(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string path = WriteInput("list", bytes.substr(1));
  switch (bytes[0]) {
    case kImages:
      for (const ImageEntry& entry : ReadImageList(path)) {
        if (entry.path.find('\0') != std::string::npos) Fault("a path with a zero byte");
      }
      break;
    case kFiles:
      for (const TextLine& line : ReadTextLines(path)) {
        if (line.text.empty() || line.text.back() == '\r') Fault("a line with a carriage return");
      }
      break;
    case kIdx: CheckIdx(ReadIdx(path, IdxKind::kImages)); break;
    case kLabels: CheckIdx(ReadIdx(path, IdxKind::kLabels)); break;
    default:
      if (ReadGzipFile(path).size() > std::max(kMostUnpacked << 20, bytes.size())) {
        Fault("more than the limit was unpacked");
      }
  }
}

std::vector<Input> Seeds() {
  // "Cortado\n" as gzip -n writes it.
  const std::string gzip(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x73\xce\x2f\x2a\x49\x4c\xc9\xe7\x02\x00\x42\xa1"
      "\x82\x3b\x08\x00\x00\x00",
      28);
  const std::string idx("\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02", 16);
  const std::string labels("\0\0\x08\x01\0\0\0\x02", 8);
  return {{"images", kImages + std::string("a b.jpg 1\r\n\n c.png\t-2\nlast 30")},
          {"mark", kImages + std::string("\xef\xbb\xbf"
                                         "a.jpg 1\n")},
          {"files", kFiles + std::string("a.h5\nb.h5 \r\n")},
          {"idx", kIdx + idx + "abcd"},
          {"labels", kLabels + labels + "ab"},
          {"gzip", kGzip + gzip + gzip}};
}

std::vector<std::string> Words() {
  return {"\xef\xbb\xbf",
          "\r\n",
          "2147483648",
          "-2147483648",
          std::string("\0\0\x08\x03", 4),
          std::string("\x1f\x8b\x08\x00", 4)};
}

const Registration registration({.name = "lists", .run = Take, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
