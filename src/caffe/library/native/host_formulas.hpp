#pragma once

namespace caffe {

// The formulas of kernels/epilogue/ that host operators apply inline, over numbers or vectors T.
#define DEVICE_FN static inline
#define Acctype T
template <class T> struct HostFormulas {
#include "../../../../kernels/epilogue/clip.h"
};
#undef DEVICE_FN
#undef Acctype

}  // namespace caffe
