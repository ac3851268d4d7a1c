// The functions of a user's type without a table, for kernels/types/functions.h. Free of standard
// headers, as host_entry.h.
struct HostTypeFunctions {
  float (*value)(unsigned code);
  unsigned (*code)(float value);
  // The functions for 4, 8 and 16 elements.
  void (*values[3])(const unsigned* codes, float* values);
  void (*codes[3])(const float* values, unsigned* codes);
};

// Host kernels call these, under a name for each instruction level (cmake/kernels.cmake). GCC calls
// their vector forms in vectorised loops, so that the address of a function is called once for up
// to 16 elements. The functions of a type depend on nothing but their arguments.
#ifdef CAFFE_HOST_LIST
extern "C" {
#ifdef __x86_64__
#pragma omp declare simd notinbranch uniform(functions)
#endif
__attribute__((const)) float CAFFE_TYPE_VALUE(const HostTypeFunctions* functions, unsigned code);
#ifdef __x86_64__
#pragma omp declare simd notinbranch uniform(functions)
#endif
__attribute__((const)) unsigned CAFFE_TYPE_CODE(const HostTypeFunctions* functions, float value);
}
#endif
