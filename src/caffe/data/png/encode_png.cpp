#include <new>

#include "caffe/core/error.hpp"
#include "caffe/data/png/png.hpp"
#include "caffe/data/png/png_error.hpp"

namespace caffe {
namespace {

// Returns false if memory runs out: exceptions must not pass through C, and longjmp must not leave
// a catch block.
bool Append(std::string* bytes, png_bytep source, png_size_t size) {
  try {
    bytes->append(reinterpret_cast<const char*>(source), size);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Write(png_structp png, png_bytep source, png_size_t size) {
  auto* bytes = static_cast<std::string*>(png_get_io_ptr(png));
  if (!Append(bytes, source, size)) png_error(png, "out of memory");
}

void Flush(png_structp) {}

// Objects with destructors belong to the caller: a longjmp over them would leak.
bool Encode(png_structp png, png_infop info, const Image& image, std::string* bytes) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_write_fn(png, bytes, Write, Flush);
  const bool color = image.channels == 3;
  png_set_IHDR(png, info, image.width, image.height, 8,
               color ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (color) png_set_bgr(png);
  const size_t stride = static_cast<size_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) png_write_row(png, image.pixels.data() + y * stride);
  png_write_end(png, info);
  return true;
}

}  // namespace

std::string EncodePng(const Image& image) {
  std::string bytes, error;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &error, FailPng, IgnorePng);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool done = info && Encode(png, info, image, &bytes);
  png_destroy_write_struct(&png, &info);
  CAFFE_CHECK(done, "cannot write an image of ", image.height, " x ", image.width,
              " as PNG: ", error);
  return bytes;
}

}  // namespace caffe
