// Products of codes of 8 bits with AVX512-VNNI and AMX, which only some processors of level v4
// have.
#include <immintrin.h>

#include "caffe/library/native/byte_steps.hpp"

#include "caffe/device/cpu/host_entry.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"
#include "caffe/library/native/codes/requantize.hpp"
#include "caffe/library/native/codes/vnni_bytes.hpp"
#if defined(__AMX_INT8__) || defined(__AMXINT8__)  // clang 14 has the second name
#include "caffe/library/native/codes/amx.hpp"
#endif
#include "caffe/library/native/codes/windows.hpp"
// clang-format on

namespace caffe {

// In word_steps.cpp.
void word_tile_vnni(const WordTile&);
void word_windows_vnni(const WordWindows&);
bool word_lines_vnni(const WordLines&);
void split_words_vnni(const unsigned short*, long, long, long, long, void*);
void split_words_amx(const unsigned short*, long, long, long, long, void*);

namespace {

template <bool kUpper> constexpr ByteSteps StepsOf(const char* name) {
  return {.name = name,
          .matrix = false,
          .reads_windows = true,
          .tile = &TileOf<kUpper>,
          .windows = &WindowsOf<VnniBytes<kUpper>>,
          .lines = &LinesOf<kUpper>,
          .words = &word_tile_vnni,
          .word_form = CodeForm::kWordParts,
          .split = &split_words_vnni,
          .word_windows = &word_windows_vnni,
          .word_lines = &word_lines_vnni,
          .begin = nullptr,
          .end = nullptr,
          .requantize = &RequantizeOf};
}

#if defined(__AMX_INT8__) || defined(__AMXINT8__)
constexpr ByteSteps MatrixSteps() {
  ByteSteps steps = StepsOf<true>("amx");
  steps.matrix = true;
  steps.reads_windows = false;
  steps.tile = &MatrixTileOf;
  steps.words = &WordTileOf;
  steps.word_form = CodeForm::kWordBytes;
  steps.split = &split_words_amx;
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
