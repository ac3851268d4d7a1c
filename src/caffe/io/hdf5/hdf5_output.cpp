#include "hdf5_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // H5FD_class_t since HDF5 1.14
#endif

namespace caffe {
namespace {

// The library's view of a file; its first member is the library's own part.
struct OpenFile {
  H5FD_t base{};
  Hdf5Output* output = nullptr;
  haddr_t allocated = 0, end = 0;  // bytes
};

OpenFile* FileOf(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* FileOf(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

H5FD_t* Open(const char*, unsigned, hid_t access, haddr_t) {
  auto* file = new OpenFile;
  file->output = *static_cast<Hdf5Output* const*>(H5Pget_driver_info(access));
  return &file->base;
}

herr_t Close(H5FD_t* file) {
  delete FileOf(file);
  return 0;
}

int Compare(const H5FD_t* a, const H5FD_t* b) {
  const Hdf5Output *x = FileOf(a)->output, *y = FileOf(b)->output;
  return x < y ? -1 : x > y;
}

// As the library's own driver for files, so that the bytes are the same.
herr_t Query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t Allocated(const H5FD_t* file, H5FD_mem_t) { return FileOf(file)->allocated; }
herr_t SetAllocated(H5FD_t* file, H5FD_mem_t, haddr_t bytes) {
  FileOf(file)->allocated = bytes;
  return 0;
}
haddr_t End(const H5FD_t* file, H5FD_mem_t) { return FileOf(file)->end; }

// Bytes that were never written are 0.
herr_t Read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, void* target) {
  auto* to = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t count =
        pread(FileOf(file)->output->descriptor, to, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    to += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  std::memset(to, 0, bytes);
  return 0;
}

herr_t Write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, const void* source) {
  OpenFile& to = *FileOf(file);
  to.end = std::max(to.end, at + bytes);
  const auto* from = static_cast<const char*>(source);
  while (bytes > 0 && to.output->error == 0) {
    const ssize_t count = pwrite(to.output->descriptor, from, bytes, static_cast<off_t>(at));
    if (count < 0) {
      if (errno != EINTR) to.output->error = errno;
      continue;
    }
    from += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return 0;
}

herr_t Truncate(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& of = *FileOf(file);
  if (of.end != of.allocated && of.output->error == 0 &&
      ftruncate(of.output->descriptor, static_cast<off_t>(of.allocated)) != 0) {
    of.output->error = errno;
  }
  of.end = of.allocated;
  return 0;
}

H5FD_class_t Driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);  // one of those that are free to use
#endif
  driver.name = "caffe";
  driver.maxaddr = (haddr_t{1} << 63) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Hdf5Output*);
  driver.open = Open;
  driver.close = Close;
  driver.cmp = Compare;
  driver.query = Query;
  driver.get_eoa = Allocated;
  driver.set_eoa = SetAllocated;
  driver.get_eof = End;
  driver.read = Read;
  driver.write = Write;
  driver.truncate = Truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return driver;
}

}  // namespace

Hdf5Handle Hdf5AccessTo(Hdf5Output* output) {
  static const H5FD_class_t driver = Driver();
  static const hid_t id = H5FDregister(&driver);
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (H5Pset_driver(access, id, &output) < 0) return {-1, H5Pclose};
  return access;
}

}  // namespace caffe
