#include <new>

#include "caffe/core/error.hpp"
#include "caffe/data/jpeg/jpeg.hpp"
#include "caffe/data/jpeg/jpeg_error.hpp"

// Needs jpeglib.h above.
#include <jerror.h>

namespace caffe {
namespace {

constexpr int kQuality = 95;

// Passes the library's output on to a string.
struct Target {
  jpeg_destination_mgr base;
  std::string* bytes;
  JOCTET buffer[1 << 14];
};

void Begin(j_compress_ptr info) {
  auto* target = reinterpret_cast<Target*>(info->dest);
  target->base.next_output_byte = target->buffer;
  target->base.free_in_buffer = sizeof(target->buffer);
}

// Returns false if memory runs out: exceptions must not pass through C, and longjmp must not leave
// a catch block.
bool Append(Target* target, size_t size) {
  try {
    target->bytes->append(reinterpret_cast<const char*>(target->buffer), size);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

boolean Empty(j_compress_ptr info) {
  auto* target = reinterpret_cast<Target*>(info->dest);
  if (!Append(target, sizeof(target->buffer))) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  Begin(info);
  return TRUE;
}

void End(j_compress_ptr info) {
  auto* target = reinterpret_cast<Target*>(info->dest);
  if (!Append(target, sizeof(target->buffer) - target->base.free_in_buffer)) {
    ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  }
}

// Objects with destructors belong to the caller: a longjmp over them would leak.
bool Encode(jpeg_compress_struct* info, JpegErrorManager* errors, Target* target,
            const Image& image, uint8_t* row) {
  if (setjmp(errors->jump)) return false;
  jpeg_create_compress(info);
  info->dest = &target->base;
  const bool color = image.channels == 3;
  info->image_height = image.height;
  info->image_width = image.width;
  info->input_components = image.channels;
  info->in_color_space = color ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, kQuality, TRUE);
  jpeg_start_compress(info, TRUE);
  const size_t stride = static_cast<size_t>(image.width) * image.channels;
  while (info->next_scanline < info->image_height) {
    const uint8_t* from = image.pixels.data() + info->next_scanline * stride;
    for (size_t i = 0; i < stride; ++i) row[i] = from[color ? i / 3 * 3 + 2 - i % 3 : i];
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

}  // namespace

std::string EncodeJpeg(const Image& image) {
  jpeg_compress_struct info{};
  JpegErrorManager errors{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = FailJpeg;
  std::string bytes;
  Target target{};
  target.base.init_destination = Begin;
  target.base.empty_output_buffer = Empty;
  target.base.term_destination = End;
  target.bytes = &bytes;
  std::vector<uint8_t> row(static_cast<size_t>(image.width) * image.channels);
  const bool done = Encode(&info, &errors, &target, image, row.data());
  jpeg_destroy_compress(&info);
  CAFFE_CHECK(done, "cannot write an image of ", image.height, " x ", image.width,
              " as JPEG: ", errors.text);
  return bytes;
}

}  // namespace caffe
