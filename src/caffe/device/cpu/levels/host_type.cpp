// The scalar and vector forms of the functions that host_type.h declares with `omp declare simd`,
// under the names of the x86 vector function ABI. Compiled once per instruction level.
#include "caffe/device/cpu/host_type.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define VALUE TEXT(CAFFE_TYPE_VALUE)
#define CODE TEXT(CAFFE_TYPE_CODE)

float Value1(const HostTypeFunctions* functions, unsigned code) asm(VALUE);
float Value1(const HostTypeFunctions* functions, unsigned code) { return functions->value(code); }
unsigned Code1(const HostTypeFunctions* functions, float value) asm(CODE);
unsigned Code1(const HostTypeFunctions* functions, float value) { return functions->code(value); }

#ifdef __x86_64__
#include <immintrin.h>

// The functions of a type take arrays, so that any compiler can compile them.
template <int kIndex, class Floats, class Codes>
static Floats ValuesOf(const HostTypeFunctions* functions, Codes codes) {
  Floats values;
  functions->values[kIndex](reinterpret_cast<const unsigned*>(&codes),
                            reinterpret_cast<float*>(&values));
  return values;
}
template <int kIndex, class Codes, class Floats>
static Codes CodesOf(const HostTypeFunctions* functions, Floats values) {
  Codes codes;
  functions->codes[kIndex](reinterpret_cast<const float*>(&values),
                           reinterpret_cast<unsigned*>(&codes));
  return codes;
}

// b: SSE (4 lanes), c: AVX (integers of 4 lanes), d: AVX2, e: AVX-512.
using Functions = const HostTypeFunctions*;
__m128 Value4(Functions functions, __m128i codes) asm("_ZGVbN4uv_" VALUE);
__m128 Value4(Functions functions, __m128i codes) { return ValuesOf<0, __m128>(functions, codes); }
__m128i Code4(Functions functions, __m128 values) asm("_ZGVbN4uv_" CODE);
__m128i Code4(Functions functions, __m128 values) { return CodesOf<0, __m128i>(functions, values); }
#ifdef __AVX2__
__m128 Value4Avx(Functions functions, __m128i codes) asm("_ZGVcN4uv_" VALUE);
__m128 Value4Avx(Functions functions, __m128i codes) { return Value4(functions, codes); }
__m128i Code4Avx(Functions functions, __m128 values) asm("_ZGVcN4uv_" CODE);
__m128i Code4Avx(Functions functions, __m128 values) { return Code4(functions, values); }
__m256 Value8(Functions functions, __m256i codes) asm("_ZGVdN8uv_" VALUE);
__m256 Value8(Functions functions, __m256i codes) { return ValuesOf<1, __m256>(functions, codes); }
__m256i Code8(Functions functions, __m256 values) asm("_ZGVdN8uv_" CODE);
__m256i Code8(Functions functions, __m256 values) { return CodesOf<1, __m256i>(functions, values); }
#endif
#ifdef __AVX512F__
__m512 Value16(Functions functions, __m512i codes) asm("_ZGVeN16uv_" VALUE);
__m512 Value16(Functions functions, __m512i codes) { return ValuesOf<2, __m512>(functions, codes); }
__m512i Code16(Functions functions, __m512 values) asm("_ZGVeN16uv_" CODE);
__m512i Code16(Functions functions, __m512 values) {
  return CodesOf<2, __m512i>(functions, values);
}
#endif
#endif
