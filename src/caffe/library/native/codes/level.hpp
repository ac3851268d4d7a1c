// The vectors of the instruction level that a file is compiled for.
#pragma once

#if defined(__AVX512F__)
#include "caffe/library/native/codes/avx512.hpp"
#elif defined(__AVX2__)
#include "caffe/library/native/codes/avx2.hpp"
#elif defined(__SSE4_2__)
#include "caffe/library/native/codes/sse.hpp"
#else
#include "caffe/library/native/codes/portable.hpp"
#endif
