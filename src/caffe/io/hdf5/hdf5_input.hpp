#pragma once

#include "caffe/io/file.hpp"
#include "hdf5_library.hpp"

namespace caffe {

// The property list for H5Fopen that makes the library read `input`, which lives longer than the
// file. Reads outside of the file fail, and the library keeps no copy of metadata that it reads:
// with its own driver, HDF5 1.10 crashes in the next read after one that failed. The name that
// H5Fopen gets has no meaning.
Hdf5Handle Hdf5AccessTo(const InputFile* input);

}  // namespace caffe
