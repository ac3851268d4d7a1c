#pragma once

#include <csetjmp>
#include <cstdio>

// Needs <cstdio> above.
#include <jpeglib.h>

namespace caffe {

// libjpeg reports an error by a call that must not return, and exceptions must not pass through C.
struct JpegErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

inline void FailJpeg(j_common_ptr info) {
  auto* manager = reinterpret_cast<JpegErrorManager*>(info->err);
  manager->base.format_message(info, manager->text);
  std::longjmp(manager->jump, 1);
}

}  // namespace caffe
