# All packages. A missing required package stops the configuration; the summary lists the
# others, found or not.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Protobuf 3.21 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)

find_library(CAFFE_OPENBLAS_LIBRARY NAMES openblas REQUIRED
  PATH_SUFFIXES openblas-openmp openblas openblas-pthread)
find_path(CAFFE_CBLAS_INCLUDE cblas.h
  PATH_SUFFIXES openblas-openmp openblas openblas-pthread x86_64-linux-gnu/openblas-openmp
                x86_64-linux-gnu REQUIRED)

# Renamed in CMake 4.3.
if(TARGET SQLite3::SQLite3)
  set(CAFFE_SQLITE SQLite3::SQLite3)
else()
  set(CAFFE_SQLITE SQLite::SQLite3)
endif()
set(CAFFE_LIBRARIES Threads::Threads OpenMP::OpenMP_CXX ${CAFFE_SQLITE} spdlog::spdlog
  CLI11::CLI11 ${CAFFE_OPENBLAS_LIBRARY})
include_directories(SYSTEM ${CAFFE_CBLAS_INCLUDE})

find_package(OpenCL)
set(CAFFE_WITH_device/opencl ${OpenCL_FOUND})
if(OpenCL_FOUND)
  list(APPEND CAFFE_LIBRARIES OpenCL::OpenCL)
  add_compile_definitions(CL_TARGET_OPENCL_VERSION=120 CL_USE_DEPRECATED_OPENCL_1_1_APIS)
endif()

find_library(CAFFE_CLBLAST_LIBRARY clblast)
find_path(CAFFE_CLBLAST_INCLUDE clblast_c.h)
set(CAFFE_WITH_library/clblast OFF)
if(OpenCL_FOUND AND CAFFE_CLBLAST_LIBRARY AND CAFFE_CLBLAST_INCLUDE)
  set(CAFFE_WITH_library/clblast ON)
  list(APPEND CAFFE_LIBRARIES ${CAFFE_CLBLAST_LIBRARY})
endif()

# Headers alone.
find_path(CAFFE_GEMMLOWP_INCLUDE gemmlowp/public/gemmlowp.h)
set(CAFFE_WITH_library/gemmlowp OFF)
if(CAFFE_GEMMLOWP_INCLUDE)
  set(CAFFE_WITH_library/gemmlowp ON)
  include_directories(SYSTEM ${CAFFE_GEMMLOWP_INCLUDE})
endif()

# Its OpenMP build, which uses the same threads as Cortado; Debian's is one.
find_library(CAFFE_ONEDNN_LIBRARY dnnl)
find_path(CAFFE_ONEDNN_INCLUDE dnnl.hpp)
set(CAFFE_WITH_library/onednn OFF)
set(CAFFE_ONEDNN_VERSION "")
if(CAFFE_ONEDNN_LIBRARY AND CAFFE_ONEDNN_INCLUDE)
  file(GLOB onednn_headers ${CAFFE_ONEDNN_INCLUDE}/dnnl_config.h
       ${CAFFE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_config.h
       ${CAFFE_ONEDNN_INCLUDE}/dnnl_version.h ${CAFFE_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h)
  foreach(header IN LISTS onednn_headers)
    file(STRINGS ${header} lines REGEX "define DNNL_(VERSION_(MAJOR|MINOR|PATCH)|CPU_RUNTIME) ")
    foreach(line IN LISTS lines)
      if(line MATCHES "DNNL_CPU_RUNTIME DNNL_RUNTIME_OMP")
        set(CAFFE_WITH_library/onednn ON)
      elseif(line MATCHES "DNNL_VERSION_[A-Z]+ +([0-9]+)")
        string(APPEND CAFFE_ONEDNN_VERSION "${CMAKE_MATCH_1}.")
      endif()
    endforeach()
  endforeach()
  string(REGEX REPLACE "\\.$" "" CAFFE_ONEDNN_VERSION "${CAFFE_ONEDNN_VERSION}")
endif()
if(CAFFE_WITH_library/onednn)
  list(APPEND CAFFE_LIBRARIES ${CAFFE_ONEDNN_LIBRARY})
  include_directories(SYSTEM ${CAFFE_ONEDNN_INCLUDE})
endif()

find_library(CAFFE_LMDB_LIBRARY lmdb)
find_path(CAFFE_LMDB_INCLUDE lmdb.h)
set(CAFFE_WITH_data/lmdb OFF)
if(CAFFE_LMDB_LIBRARY AND CAFFE_LMDB_INCLUDE)
  set(CAFFE_WITH_data/lmdb ON)
  list(APPEND CAFFE_LIBRARIES ${CAFFE_LMDB_LIBRARY})
  include_directories(SYSTEM ${CAFFE_LMDB_INCLUDE})
endif()

find_package(ZLIB)
set(CAFFE_WITH_data/zlib ${ZLIB_FOUND})
if(ZLIB_FOUND)
  list(APPEND CAFFE_LIBRARIES ZLIB::ZLIB)
endif()

find_package(JPEG)
set(CAFFE_WITH_data/jpeg ${JPEG_FOUND})
if(JPEG_FOUND)
  list(APPEND CAFFE_LIBRARIES JPEG::JPEG)
endif()
find_package(PNG)
set(CAFFE_WITH_data/png ${PNG_FOUND})
if(PNG_FOUND)
  list(APPEND CAFFE_LIBRARIES PNG::PNG)
endif()

# Debian separates the serial build from the MPI build. zlib checks packed chunks before HDF5
# unpacks them.
find_library(CAFFE_HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
find_path(CAFFE_HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
set(CAFFE_WITH_io/hdf5 OFF)
if(CAFFE_HDF5_LIBRARY AND CAFFE_HDF5_INCLUDE AND ZLIB_FOUND)
  set(CAFFE_WITH_io/hdf5 ON)
  list(APPEND CAFFE_LIBRARIES ${CAFFE_HDF5_LIBRARY})
  include_directories(SYSTEM ${CAFFE_HDF5_INCLUDE})
endif()

# OpenMPI or MPICH; their C functions alone.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX QUIET)
set(CAFFE_WITH_parallel/mpi OFF)
if(MPI_CXX_FOUND)
  set(CAFFE_WITH_parallel/mpi ON)
endif()

set(CAFFE_PYBIND11_FOUND OFF)
if(CAFFE_PYTHON)
  if(NOT Python3_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
    set(Python3_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
  endif()
  find_package(Python3 COMPONENTS Interpreter Development.Module)
  if(Python3_FOUND)
    # CMake files of a pybind11 that pip installed.
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import pybind11; print(pybind11.get_cmake_dir())"
      OUTPUT_VARIABLE pybind11_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(PYBIND11_FINDPYTHON ON)
    set(Python_EXECUTABLE ${Python3_EXECUTABLE})
    find_package(pybind11 QUIET)
    set(CAFFE_PYBIND11_FOUND ${pybind11_FOUND})
  endif()
endif()
if(CAFFE_TESTS)
  find_package(GTest REQUIRED)
endif()
