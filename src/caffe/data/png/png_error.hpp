#pragma once

#include <png.h>

#include <csetjmp>
#include <string>

namespace caffe {

// What the library calls at errors, where its error pointer is a std::string, and at warnings.
inline void FailPng(png_structp png, png_const_charp text) {
  *static_cast<std::string*>(png_get_error_ptr(png)) = text;
  std::longjmp(png_jmpbuf(png), 1);
}

inline void IgnorePng(png_structp, png_const_charp) {}

}  // namespace caffe
