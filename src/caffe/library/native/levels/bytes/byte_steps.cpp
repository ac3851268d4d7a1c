// Products of codes with AVX512-VNNI and AMX, which only some processors of level v4 have.
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
#include "caffe/library/native/codes/vnni.hpp"
#include "caffe/library/native/codes/vnni_bytes.hpp"
#include "caffe/library/native/codes/byte_windows.hpp"
#include "caffe/library/native/codes/vnni_words.hpp"
#include "caffe/library/native/codes/word_windows.hpp"
#if defined(__AMX_INT8__) || defined(__AMXINT8__)  // clang 14 has the second name
#include "caffe/library/native/codes/word_output.hpp"
#include "caffe/library/native/codes/amx.hpp"
#endif
// clang-format on

namespace caffe {
namespace {

template <bool kUpper> constexpr ByteSteps StepsOf(const char* name) {
  return {.name = name,
          .matrix = false,
          .reads_windows = true,
          .bytes = {&ByteTileOf<Upper<kUpper>>, CodeForm::kBytes, &ByteWindowsOf<Upper<kUpper>>,
                    &ByteLinesOf<Upper<kUpper>>, kMaskBytes},
          .words = {&WordTileOf, CodeForm::kWordParts, &WordWindowsOf<PartTaps>,
                    &WordLinesOf<PartTaps>, kWordWindow},
          .split = &SplitRow,
          .begin = nullptr,
          .end = nullptr,
          .requantize = &RequantizeOf};
}

#if defined(__AMX_INT8__) || defined(__AMXINT8__)
constexpr ByteSteps MatrixSteps() {
  ByteSteps steps = StepsOf<true>("amx");
  steps.matrix = true;
  steps.reads_windows = false;
  steps.bytes.tile = &MatrixTileOf;
  steps.words.tile = &MatrixWordTileOf;
  steps.words.form = CodeForm::kWordBytes;
  steps.split = &SplitBytes;
  steps.end = &EndMatrix;
  return steps;
}
#endif

}  // namespace

extern const ByteSteps byte_steps_vnni, byte_steps_ifma, byte_steps_amx;
constinit const ByteSteps byte_steps_vnni = StepsOf<false>("vnni");
constinit const ByteSteps byte_steps_ifma = StepsOf<true>("vnni_ifma");
#if defined(__AMX_INT8__) || defined(__AMXINT8__)
constinit const ByteSteps byte_steps_amx = MatrixSteps();
#endif

}  // namespace caffe
