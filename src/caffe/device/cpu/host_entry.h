// The row that a host kernel leaves in the linker section caffe_kernels. Free of standard headers:
// host kernels include it, see kernels/dialect/host.h.
struct HostRange {
  long begin, end;
};

struct HostKernelEntry {
  const char* level;  // v2, v3, v4, neon
  const char* types;  // compute/in/out in the words of the dialect: f32/f32/f32; or once
  const char* name;
  void (*run)(HostRange range, void** arguments);  // one pointer per argument
};
