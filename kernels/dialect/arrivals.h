// Work groups that do not wait for each other: each writes a part of a result, and the one that
// arrives last reads the parts of all. One item of a group, behind a barrier after the writes,
// calls ARRIVE(counter), the number of groups that arrived before; the others read behind another
// barrier. ARRIVE orders what the group wrote before it and what the group reads after it.
//
// Kernels add parts in an order that does not depend on the one of arrival.
#if MATRIX_UNITS
// The barriers extend the order to all items of the group, as in grid barriers of CUDA. The
// function is for sm_70 and later; matrix units need sm_80.
DEVICE_FN i32 arrive(GLOBAL i32* counter) {
  i32 before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"((u64)counter)
               : "memory");
  return before;
}
#define ARRIVE(counter) arrive(counter)
#elif defined(__OPENCL_VERSION__)
// OpenCL 1.2 promises no order between work groups; on processors atomic operations bring it.
#define ARRIVE(counter) atomic_inc(counter)
#else
DEVICE_FN i32 arrive(i32* counter) {
  __threadfence();
  const i32 before = atomicAdd(counter, 1);
  __threadfence();
  return before;
}
#define ARRIVE(counter) arrive(counter)
#endif
