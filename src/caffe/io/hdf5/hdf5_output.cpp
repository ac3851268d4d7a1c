#include "hdf5_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hdf5_driver.hpp"

namespace caffe {
namespace {

using OpenFile = Hdf5DriverFile<Hdf5Output>;

// As the library's own driver for files, so that the bytes are the same.
herr_t Query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t End(const H5FD_t* file, H5FD_mem_t) { return OpenFile::Of(file).end; }

herr_t Read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, void* target) {
  return ReadOrZero(OpenFile::Of(file).target->descriptor, at, bytes, target) ? 0 : -1;
}

herr_t Write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, const void* source) {
  OpenFile& to = OpenFile::Of(file);
  to.end = std::max(to.end, at + bytes);
  const auto* from = static_cast<const char*>(source);
  while (bytes > 0 && to.target->error == 0) {
    const ssize_t count = pwrite(to.target->descriptor, from, bytes, static_cast<off_t>(at));
    if (count < 0) {
      if (errno != EINTR) to.target->error = errno;
      continue;
    }
    from += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return 0;
}

herr_t Truncate(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& of = OpenFile::Of(file);
  if (of.end != of.allocated && of.target->error == 0 &&
      ftruncate(of.target->descriptor, static_cast<off_t>(of.allocated)) != 0) {
    of.target->error = errno;
  }
  of.end = of.allocated;
  return 0;
}

H5FD_class_t Driver() {
  H5FD_class_t driver = OpenFile::Driver("caffe", 600);
  driver.query = Query;
  driver.get_eof = End;
  driver.read = Read;
  driver.write = Write;
  driver.truncate = Truncate;
  return driver;
}

}  // namespace

Hdf5Handle Hdf5AccessTo(Hdf5Output* output) {
  static const H5FD_class_t driver = Driver();
  static const hid_t id = H5FDregister(&driver);
  return OpenFile::AccessTo(output, id);
}

}  // namespace caffe
