#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/data/png/png.hpp"
#include "caffe/data/png/png_error.hpp"

namespace caffe {
namespace {

void Read(png_structp png, png_bytep target, png_size_t size) {
  auto* rest = static_cast<std::string_view*>(png_get_io_ptr(png));
  if (size > rest->size()) png_error(png, "the file is cut off");
  std::memcpy(target, rest->data(), size);
  rest->remove_prefix(size);
}

// Texts, suggested palettes and the like may unpack to a thousand times their size, and nothing
// reads them. Profiles and gamma values remain: they decide how colors become gray.
void LeaveOutTexts(png_structp png) {
  static constexpr png_byte kChunks[] = "zTXt\0iTXt\0tEXt\0sPLT\0eXIf";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kChunks, sizeof(kChunks) / 5);
}

// Whether so few bytes can hold the pixels: DEFLATE packs 258 bytes into 2 bits at best.
bool CanHold(png_structp png, png_infop info, size_t bytes) {
  constexpr uint64_t kMostOfAByte = 1032;
  return uint64_t{png_get_rowbytes(png, info)} * png_get_image_height(png, info) / kMostOfAByte <=
         bytes;
}

// Objects with destructors belong to the caller: a longjmp over them would leak.
bool Decode(png_structp png, png_infop info, std::string_view* rest, const std::string& name,
            std::optional<bool> wanted, Image* image, std::vector<png_bytep>* rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  const size_t bytes = rest->size();
  png_set_read_fn(png, rest, Read);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // CheckImageSize has the limit
  LeaveOutTexts(png);
  png_read_info(png, info);
  CheckImageSize(name, png_get_image_height(png, info), png_get_image_width(png, info));
  if (!CanHold(png, info, bytes)) png_error(png, "its bytes are too few for its pixels");
  const int type = png_get_color_type(png, info), bits = png_get_bit_depth(png, info);
  if (bits == 16) png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(png);
  const bool has_color = type & PNG_COLOR_MASK_COLOR;
  const bool opacity = !wanted && (type & PNG_COLOR_MASK_ALPHA ||
                                   (has_color && png_get_valid(png, info, PNG_INFO_tRNS)));
  if (opacity) {
    png_set_tRNS_to_alpha(png);
  } else {
    png_set_strip_alpha(png);
  }
  const bool color = wanted.value_or(has_color || opacity);
  if (color && has_color) png_set_bgr(png);
  if (color && !has_color) png_set_gray_to_rgb(png);
  if (!color && has_color) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  image->height = static_cast<int>(png_get_image_height(png, info));
  image->width = static_cast<int>(png_get_image_width(png, info));
  image->channels = opacity ? 4 : color ? 3 : 1;
  const size_t stride = static_cast<size_t>(image->width) * image->channels;
  if (png_get_rowbytes(png, info) != stride) png_error(png, "the pixels have an unexpected format");
  image->pixels.resize(stride * image->height);
  rows->resize(image->height);
  for (int y = 0; y < image->height; ++y) (*rows)[y] = image->pixels.data() + y * stride;
  png_read_image(png, rows->data());
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

Image DecodePng(std::string_view bytes, const std::string& name, std::optional<bool> color) {
  std::string error;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, FailPng, IgnorePng);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  Image image;
  std::vector<png_bytep> rows;
  bool done = false;
  try {
    done = info && Decode(png, info, &bytes, name, color, &image, &rows);
  } catch (...) {  // too many pixels, or no memory for them
    png_destroy_read_struct(&png, &info, nullptr);
    throw;
  }
  png_destroy_read_struct(&png, &info, nullptr);
  CAFFE_CHECK(done, name, " is not a complete PNG file: ", error);
  return image;
}

}  // namespace caffe
