// Products of codes of 8 bits. Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/byte_steps.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/requantize.hpp"
#if defined(__AVX2__)
#include "caffe/library/native/codes/avx2_bytes.hpp"
#else
#include "caffe/library/native/codes/generic.hpp"
#include "caffe/library/native/codes/generic_bytes.hpp"
#endif
#include "caffe/library/native/codes/windows.hpp"
// clang-format on

namespace caffe {
namespace {

#if defined(__AVX2__)
using Set = Avx2Bytes;
#else
using Set = GenericBytes;
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr CodeForm kWordForm = CodeForm::kWords;
#else
constexpr CodeForm kWordForm = CodeForm::kWordPairs;
#endif

}  // namespace

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
#define CAFFE_STRING_(a) #a
#define CAFFE_STRING(a) CAFFE_STRING_(a)

// In word_steps.cpp.
void CAFFE_JOIN(word_tile_, CAFFE_HOST_LEVEL)(const WordTile&);
void CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL)(const WordWindows&);
void CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL)(const unsigned short*, long, long, long, long,
                                                void*);

extern const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL);
constinit const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL){
    .name = CAFFE_STRING(CAFFE_HOST_LEVEL),
    .matrix = false,
    .reads_windows = false,
    .tile = &TileOf,
    .windows = &WindowsOf<Set>,
    .lines = nullptr,
    .words = &CAFFE_JOIN(word_tile_, CAFFE_HOST_LEVEL),
    .word_form = kWordForm,
    .split = &CAFFE_JOIN(split_words_, CAFFE_HOST_LEVEL),
    .word_windows = &CAFFE_JOIN(word_windows_, CAFFE_HOST_LEVEL),
    .word_lines = nullptr,
    .begin = nullptr,
    .end = nullptr,
    .requantize = &RequantizeOf};

}  // namespace caffe
