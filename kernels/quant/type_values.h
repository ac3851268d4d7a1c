//! types: device
//! tests: library
// The two functions of a user's type: for its tables, where there is no compiler for the CPU. The
// builder defines TO_FLOAT and FROM_FLOAT.
#ifndef TO_FLOAT
#define TO_FLOAT(code) as_f32(code)
#define FROM_FLOAT(v) as_u32(v)
#endif
KERNEL(type_values, ARG(i64, n), IN(i32, codes), OUT(f32, values)) {
  FOR_EACH(i, n) STORE(f32, values, i, TO_FLOAT((u32)LOAD(i32, codes, i)));
}

KERNEL(type_codes, ARG(i64, n), IN(f32, values), OUT(i32, codes)) {
  FOR_EACH(i, n) STORE(i32, codes, i, (i32)FROM_FLOAT(LOAD(f32, values, i)));
}
