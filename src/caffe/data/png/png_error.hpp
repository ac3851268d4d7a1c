#pragma once

#include <png.h>

#include <csetjmp>
#include <string>

namespace caffe {

// libpng's error handler; its error pointer must be a std::string.
inline void FailPng(png_structp png, png_const_charp text) {
  *static_cast<std::string*>(png_get_error_ptr(png)) = text;
  std::longjmp(png_jmpbuf(png), 1);
}

inline void IgnorePng(png_structp, png_const_charp) {}

}  // namespace caffe
