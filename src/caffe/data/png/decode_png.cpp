#include <png.h>

#include <csetjmp>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/data/png/png.hpp"

namespace caffe {
namespace {

struct Source {
  std::string_view rest;
  std::string error;
};

void Read(png_structp png, png_bytep target, png_size_t size) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (size > source->rest.size()) png_error(png, "the file is cut off");
  std::memcpy(target, source->rest.data(), size);
  source->rest.remove_prefix(size);
}

void Fail(png_structp png, png_const_charp text) {
  static_cast<Source*>(png_get_error_ptr(png))->error = text;
  std::longjmp(png_jmpbuf(png), 1);
}

void Ignore(png_structp, png_const_charp) {}

// Everything that has a destructor lives in the caller: a jump over it would leak.
bool Decode(png_structp png, png_infop info, Source* source, bool color, Image* image,
            std::vector<png_bytep>* rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, source, Read);
  png_read_info(png, info);
  if (!FitsImage(png_get_image_height(png, info), png_get_image_width(png, info))) {
    png_error(png, "it is too large");
  }
  const int type = png_get_color_type(png, info), bits = png_get_bit_depth(png, info);
  if (bits == 16) png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  const bool has_color = type & PNG_COLOR_MASK_COLOR;
  if (color && has_color) png_set_bgr(png);
  if (color && !has_color) png_set_gray_to_rgb(png);
  if (!color && has_color) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  image->height = static_cast<int>(png_get_image_height(png, info));
  image->width = static_cast<int>(png_get_image_width(png, info));
  image->channels = color ? 3 : 1;
  const size_t step = static_cast<size_t>(image->width) * image->channels;
  if (png_get_rowbytes(png, info) != step) png_error(png, "its pixels have an odd format");
  image->pixels.resize(step * image->height);
  rows->resize(image->height);
  for (int y = 0; y < image->height; ++y) (*rows)[y] = image->pixels.data() + y * step;
  png_read_image(png, rows->data());
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

Image DecodePng(std::string_view bytes, const std::string& name, bool color) {
  Source source{bytes, ""};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, Fail, Ignore);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  Image image;
  std::vector<png_bytep> rows;
  bool done = false;
  try {
    done = info && Decode(png, info, &source, color, &image, &rows);
  } catch (...) {  // no memory for the pixels
    png_destroy_read_struct(&png, &info, nullptr);
    throw;
  }
  png_destroy_read_struct(&png, &info, nullptr);
  CAFFE_CHECK(done, name, " is no complete PNG file: ", source.error);
  return image;
}

}  // namespace caffe
