#pragma once

#include "hdf5_library.hpp"

namespace caffe {

// Where the library writes a file. The library sees no error of the disk: a file that it cannot
// flush stays open, with its space on the full disk, and crashes the library when the process ends.
struct Hdf5Output {
  int descriptor;  // of a file that is empty and open for reading and writing
  int error = 0;   // of the first call that failed; after it nothing is written
};

// The property list for H5Fcreate that makes the library write to `output`, which lives longer than
// the file. The name that H5Fcreate gets has no meaning.
Hdf5Handle Hdf5AccessTo(Hdf5Output* output);

}  // namespace caffe
