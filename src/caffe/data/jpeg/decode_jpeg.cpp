#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/data/data_limits.hpp"
#include "caffe/data/jpeg/jpeg.hpp"
#include "caffe/data/jpeg/jpeg_error.hpp"

// Needs jpeglib.h above.
#include <jerror.h>

namespace caffe {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;

// Warnings are common and harmless in photographs, except this one: missing pixels would be grey.
void Warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  if (info->err->msg_code == JWRN_JPEG_EOF) FailJpeg(info);
}

// A file of several scans is decoded as a whole for each of them, and a scan takes a few bytes:
// this ends it where libjpeg-turbo advises to count them, in its reports of progress.
void CountScans(j_common_ptr info) {
  const int scan = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scan <= MostScans().most) return;
  auto* errors = reinterpret_cast<JpegErrorManager*>(info->err);
  std::snprintf(errors->text, sizeof(errors->text),
                "it has more than %lld scans; %s changes the limit",
                static_cast<long long>(MostScans().most), MostScans().variable);
  std::longjmp(errors->jump, 1);
}

// Whether so few bytes can hold the pixels. Each block of 8 x 8 takes a bit at least; the double is
// allowed for components that are stored smaller. With arithmetic coding an image of one color
// takes hardly anything, so that only what no picture reaches is refused.
bool CanHold(const jpeg_decompress_struct& info, size_t bytes) {
  const uint64_t most_of_a_byte = info.arith_code ? 1 << 16 : 2 * 8 * 8 * 8;
  const uint64_t pixels = uint64_t{info.image_height} * info.image_width;
  return pixels / most_of_a_byte <= bytes;
}

// The value of tag 0x112 in the first directory of an Exif block; 1 if there is none.
int ExifOrientation(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 6;  // "Exif\0\0", then a TIFF file
  if (size < kHead + 8 || std::memcmp(data, "Exif\0", kHead) != 0) return 1;
  data += kHead;
  size -= kHead;
  const bool little = data[0] == 'I';
  const auto read16 = [&](size_t at) {
    return little ? data[at] | data[at + 1] << 8 : data[at] << 8 | data[at + 1];
  };
  const auto read32 = [&](size_t at) {
    const uint32_t first = read16(at), second = read16(at + 2);
    return little ? first | second << 16 : first << 16 | second;
  };
  const size_t directory = read32(4);
  if (directory > size || size - directory < 2) return 1;
  const size_t entries = read16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > size) return 1;
    if (read16(entry) != 0x112) continue;
    const int value = read16(entry + 8);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

// Adobe writes inverted inks.
void FromCmyk(const uint8_t* cmyk, int width, bool color, uint8_t* target) {
  for (int x = 0; x < width; ++x, cmyk += 4) {
    const int black = cmyk[3];
    const auto light = [&](int ink) { return black - ((255 - ink) * black >> 8); };
    const int red = light(cmyk[0]), green = light(cmyk[1]), blue = light(cmyk[2]);
    if (color) {
      *target++ = static_cast<uint8_t>(blue);
      *target++ = static_cast<uint8_t>(green);
      *target++ = static_cast<uint8_t>(red);
    } else {
      // 0.114 b + 0.587 g + 0.299 r in 14 bits.
      const int sum = 1868 * blue + 9617 * green + 4899 * red;
      *target++ = static_cast<uint8_t>((sum + (1 << 13)) >> 14);
    }
  }
}

// Objects with destructors belong to the caller: a longjmp over them would leak.
bool Decode(jpeg_decompress_struct* info, JpegErrorManager* errors, jpeg_progress_mgr* progress,
            std::string_view bytes, const std::string& name, std::optional<bool> wanted,
            Image* image, std::vector<uint8_t>* row, int* orientation) {
  if (setjmp(errors->jump)) return false;
  jpeg_create_decompress(info);
  info->progress = progress;
  jpeg_save_markers(info, kExifMarker, 0xffff);
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(info, TRUE);
  // jpeg_start_decompress takes memory for the whole image if there are several scans.
  CheckImageSize(name, info->image_height, info->image_width);
  if (!CanHold(*info, bytes.size())) {
    std::snprintf(errors->text, sizeof(errors->text), "%zu bytes are too few for %u x %u pixels",
                  bytes.size(), info->image_height, info->image_width);
    return false;
  }
  for (const jpeg_marker_struct* marker = info->marker_list; marker; marker = marker->next) {
    if (marker->marker != kExifMarker) continue;
    *orientation = ExifOrientation(marker->data, marker->data_length);
    break;
  }
  const bool color = wanted.value_or(info->num_components > 1);
  const bool cmyk = info->num_components == 4;
  info->out_color_space = cmyk ? JCS_CMYK : color ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_start_decompress(info);
  image->height = static_cast<int>(info->output_height);
  image->width = static_cast<int>(info->output_width);
  image->channels = color ? 3 : 1;
  const size_t step = static_cast<size_t>(image->width) * image->channels;
  image->pixels.resize(step * image->height);
  row->resize(static_cast<size_t>(image->width) * 4);
  while (info->output_scanline < info->output_height) {
    uint8_t* target = image->pixels.data() + info->output_scanline * step;
    JSAMPROW line = cmyk ? row->data() : target;
    jpeg_read_scanlines(info, &line, 1);
    if (cmyk) {
      FromCmyk(row->data(), image->width, color, target);
    } else if (color) {
      for (size_t x = 0; x < step; x += 3) std::swap(target[x], target[x + 2]);
    }
  }
  jpeg_finish_decompress(info);
  return true;
}

}  // namespace

Image DecodeJpeg(std::string_view bytes, const std::string& name, std::optional<bool> color,
                 int* orientation) {
  jpeg_decompress_struct info{};
  JpegErrorManager errors{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = FailJpeg;
  errors.base.emit_message = Warn;
  jpeg_progress_mgr progress{};
  progress.progress_monitor = CountScans;
  Image image;
  std::vector<uint8_t> row;
  *orientation = 1;
  bool done = false;
  try {
    done = Decode(&info, &errors, &progress, bytes, name, color, &image, &row, orientation);
  } catch (...) {  // too many pixels, or no memory for them
    jpeg_destroy_decompress(&info);
    throw;
  }
  jpeg_destroy_decompress(&info);
  CAFFE_CHECK(done, name, " is not a complete JPEG file: ", errors.text);
  return image;
}

}  // namespace caffe
