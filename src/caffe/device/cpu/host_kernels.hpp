// All host kernels of one folder of kernels/ for one instruction level. Compiled by generated files
// that define CAFFE_HOST_LIST; see cmake/kernels.cmake.
#pragma once

#include "caffe/device/cpu/host_entry.h"
#include "caffe/device/cpu/host_type.h"
// Each file needs the ones before it.
// clang-format off
#include "dialect/host.h"
#include "dialect/common.h"

namespace {

#include "math/requantize.h"
#include "math/random.h"
#include "math/float.h"
#include "types/f32.h"
#include "types/f16.h"
#include "types/bf16.h"
#include "types/f64.h"
#include "types/q8.h"
#include "types/q16.h"
#include "types/i32.h"
#include "types/i64.h"
#include "types/table.h"
#include "types/functions.h"
// clang-format on

// Calls F with arguments from an array of pointers.
template <auto F> struct Thunk;

template <class... A, void (*F)(HostRange, A...)> struct Thunk<F> {
  template <i32... K> struct Sequence {};
  template <i32 N, i32... K> struct Make : Make<N - 1, N - 1, K...> {};
  template <i32... K> struct Make<0, K...> { typedef Sequence<K...> type; };
  template <i32... K> static void Call(HostRange range, void** arguments, Sequence<K...>) {
    F(range, *static_cast<A*>(arguments[K])...);
  }
  static void Run(HostRange range, void** arguments) {
    Call(range, arguments, typename Make<sizeof...(A)>::type());
  }
};

// Calls F or G, a kernel of single elements or of blocks, by the first argument.
template <auto F, auto G> struct BlockThunk {
  static void Run(HostRange range, void** arguments) {
    const bool single = *static_cast<const i32*>(arguments[0]) == 1;
    (single ? &Thunk<F>::Run : &Thunk<G>::Run)(range, arguments);
  }
};

#define CAFFE_TEXT_(x) #x
#define CAFFE_TEXT(x) CAFFE_TEXT_(x)
// Constant-initialised, so that no code of a high instruction level runs before main.
#define CAFFE_HOST_ROW(kernel, thunk)                                                            \
  [[gnu::section("caffe_kernels"), gnu::used]] static constinit HostKernelEntry kernel##_row = { \
      CAFFE_TEXT(CAFFE_HOST_LEVEL), CAFFE_HOST_TYPES, #kernel, &thunk::Run};
#define CAFFE_HOST_KERNEL(kernel) CAFFE_HOST_ROW(kernel, Thunk<&kernel>)
#define CAFFE_COMMA_ ,
#define CAFFE_HOST_BLOCK_KERNEL(kernel, of) \
  CAFFE_HOST_ROW(kernel, BlockThunk<&of<1> CAFFE_COMMA_ & of<256>>)

#include CAFFE_HOST_LIST

}  // namespace
