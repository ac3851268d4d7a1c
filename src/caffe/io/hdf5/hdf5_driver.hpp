#pragma once

#include <hdf5.h>

#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // H5FD_class_t since HDF5 1.14
#endif

#include <algorithm>
#include <iterator>

#include "hdf5_library.hpp"

namespace caffe {

// Reads bytes of a file; those behind its end are 0. Returns false if the system cannot read.
bool ReadOrZero(int descriptor, haddr_t at, size_t bytes, void* target);

// The common part of our drivers of files: the library's view of a `Target`, through which a driver
// reads or writes. The first member is the library's own part.
template <class Target> struct Hdf5DriverFile {
  H5FD_t base{};
  Target* target = nullptr;
  haddr_t allocated = 0, end = 0;  // bytes

  static Hdf5DriverFile& Of(H5FD_t* file) { return *reinterpret_cast<Hdf5DriverFile*>(file); }
  static const Hdf5DriverFile& Of(const H5FD_t* file) {
    return *reinterpret_cast<const Hdf5DriverFile*>(file);
  }

  // A driver that lacks `query`, `get_eof`, `read`, `write` and, if it writes, `truncate`. `value`
  // is one of the numbers that are free to use.
  static H5FD_class_t Driver(const char* name, [[maybe_unused]] int value) {
    H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
    driver.version = H5FD_CLASS_VERSION;
    driver.value = static_cast<H5FD_class_value_t>(value);
#endif
    driver.name = name;
    driver.maxaddr = (haddr_t{1} << 63) - 1;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(Target*);
    driver.open = Open;
    driver.close = Close;
    driver.cmp = Compare;
    driver.get_eoa = Allocated;
    driver.set_eoa = SetAllocated;
    const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(map), std::end(map), driver.fl_map);
    return driver;
  }

  // A list of access properties that opens `target` through a registered driver.
  static Hdf5Handle AccessTo(Target* target, hid_t driver) {
    Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    if (H5Pset_driver(access, driver, &target) < 0) return {-1, H5Pclose};
    return access;
  }

 private:
  static H5FD_t* Open(const char*, unsigned, hid_t access, haddr_t) {
    auto* file = new Hdf5DriverFile;
    file->target = *static_cast<Target* const*>(H5Pget_driver_info(access));
    return &file->base;
  }
  static herr_t Close(H5FD_t* file) {
    delete &Of(file);
    return 0;
  }
  static int Compare(const H5FD_t* a, const H5FD_t* b) {
    const Target *x = Of(a).target, *y = Of(b).target;
    return x < y ? -1 : x > y;
  }
  static haddr_t Allocated(const H5FD_t* file, H5FD_mem_t) { return Of(file).allocated; }
  static herr_t SetAllocated(H5FD_t* file, H5FD_mem_t, haddr_t bytes) {
    Of(file).allocated = bytes;
    return 0;
  }
};

}  // namespace caffe
