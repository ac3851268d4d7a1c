// Vectors of SSE4.2.
#pragma once

#include <immintrin.h>

namespace caffe {
namespace {

using V = __m128i;

#define CAFFE_OP(name) _mm_##name

}  // namespace
}  // namespace caffe

#include "caffe/library/native/codes/narrow.hpp"
