// Products of codes. Compiled once per instruction level, as CAFFE_HOST_LEVEL.
#include "caffe/library/native/byte_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/level.hpp"
#include "caffe/library/native/codes/requantize.hpp"
#include "caffe/library/native/codes/rows.hpp"
#include "caffe/library/native/codes/byte_output.hpp"
#include "caffe/library/native/codes/wide_bytes.hpp"
#include "caffe/library/native/codes/byte_windows.hpp"
#include "caffe/library/native/codes/word_output.hpp"
#include "caffe/library/native/codes/word_runs.hpp"
#include "caffe/library/native/codes/word_windows.hpp"
// clang-format on

namespace caffe {

#define CAFFE_JOIN_(a, b) a##b
#define CAFFE_JOIN(a, b) CAFFE_JOIN_(a, b)
#define CAFFE_STRING_(a) #a
#define CAFFE_STRING(a) CAFFE_STRING_(a)

extern const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL);
constinit const ByteSteps CAFFE_JOIN(byte_steps_, CAFFE_HOST_LEVEL){
    .name = CAFFE_STRING(CAFFE_HOST_LEVEL),
    .matrix = false,
    .reads_windows = false,
    .bytes = {&ByteTileOf, CodeForm::kBytes, &ByteWindowsOf<Plain>, &ByteLinesOf<Plain>,
              kMaskBytes},
    .words = {&WordTileOf, CodeForm::kWords, &WordWindowsOf<RunTaps>, &WordLinesOf<RunTaps>,
              kWordWindow},
    .split = &SplitRow,
    .begin = nullptr,
    .end = nullptr,
    .requantize = &RequantizeOf};

}  // namespace caffe
