# Kernel bodies are used twice: embedded as text for OpenCL and CUDA, and compiled for the CPU,
# once per instruction level. The first line of a body, `//! types: …`, names the types:
#   float       f32 f16 bf16 f64, compute, in and out equal      quantized  q8 q16, likewise
#   master      compute f32, in f16 or bf16, out f32 (f32 masters of half-stored values)
# In these groups, pairs and narrow, c4, c8, c16 and c32 stand for types of users (types/packed.h,
# types/table.h, types/functions.h). Those of c4 are compiled apart, because few nets need them.
#   pairs       every pair of in and out types, computed in f32 (f64 where one of them is f64)
#   narrow      compute and in f32, out f16 or bf16 (sums that are stored as half)
#   codes       compute f32, in and out q8 or q16, equal
#   once        names its types itself
#   device      devices only, in all types of the line
# epilogue/ holds functions that bodies include.
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/kernels
     ${CMAKE_SOURCE_DIR}/kernels/*.h)

set(kernel_paths ${kernel_files})
list(TRANSFORM kernel_paths PREPEND ${CMAKE_SOURCE_DIR}/kernels/)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/kernel_text.cpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/kernels
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/kernel_text.cpp
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_kernels.cmake
  DEPENDS ${CMAKE_SOURCE_DIR}/cmake/embed_kernels.cmake ${kernel_paths})
add_library(caffe_kernel_text OBJECT ${CMAKE_BINARY_DIR}/generated/kernel_text.cpp)

# --- Host kernels: one list of includes per folder, compiled once per level ----------------------
set(float_words f32 f16 bf16 f64 c8 c16 c32)
set(quantized_words q8 q16)

# Tables of users' types are read by gather instructions, which GCC uses only if the processor that
# it tunes for has fast ones.
set(gather_begin "")
set(gather_end "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(gather_begin "#pragma GCC push_options
#pragma GCC target(\"tune=haswell\")
")
  set(gather_end "#pragma GCC pop_options
")
endif()

function(caffe_host_instance out path compute in out_type float_kind)
  set(begin "")
  set(end "")
  if("${compute}/${in}/${out_type}" MATCHES "c4|c8|c16")
    set(begin "${gather_begin}")
    set(end "${gather_end}")
  endif()
  # A namespace for each body: two bodies may include one file of epilogue/.
  string(MAKE_C_IDENTIFIER "${path}" body)
  set(${out} "${begin}#define Dtype ${compute}
#define MItype ${in}
#define MOtype ${out_type}
#define FLOAT_KIND ${float_kind}
#define CAFFE_HOST_TYPES \"${compute}/${in}/${out_type}\"
namespace k_${body}_${compute}_${in}_${out_type} {
#line 1 \"kernels/${path}\"
#include \"${path}\"
}
#undef Dtype
#undef MItype
#undef MOtype
#undef FLOAT_KIND
#undef CAFFE_HOST_TYPES
${end}" PARENT_SCOPE)
endfunction()

set(host_folders "")
foreach(file IN LISTS kernel_files)
  if(file MATCHES "^(dialect|types|math|epilogue)/")
    continue()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/${file})
  file(STRINGS ${CMAKE_SOURCE_DIR}/kernels/${file} head LIMIT_COUNT 1)
  if(NOT head MATCHES "^//! types: (.*)$")
    message(FATAL_ERROR "kernels/${file}: the first line must be '//! types: …'")
  endif()
  string(REPLACE " " ";" groups "${CMAKE_MATCH_1}")
  get_filename_component(folder ${file} DIRECTORY)
  set(text "")
  set(packed_text "")
  if("device" IN_LIST groups)
    set(groups device)
  endif()
  foreach(group IN LISTS groups)
    if(group STREQUAL "float")
      foreach(word IN LISTS float_words)
        caffe_host_instance(one ${file} ${word} ${word} ${word} 1)
        string(APPEND text "${one}")
      endforeach()
      caffe_host_instance(one ${file} c4 c4 c4 1)
      string(APPEND packed_text "${one}")
    elseif(group STREQUAL "quantized")
      foreach(word IN LISTS quantized_words)
        caffe_host_instance(one ${file} ${word} ${word} ${word} 0)
        string(APPEND text "${one}")
      endforeach()
    elseif(group STREQUAL "master")
      foreach(word IN ITEMS f16 bf16 c8 c16 c32)
        caffe_host_instance(one ${file} f32 ${word} f32 1)
        string(APPEND text "${one}")
      endforeach()
      caffe_host_instance(one ${file} f32 c4 f32 1)
      string(APPEND packed_text "${one}")
    elseif(group STREQUAL "narrow")
      foreach(word IN ITEMS f16 bf16 c8 c16 c32)
        caffe_host_instance(one ${file} f32 f32 ${word} 1)
        string(APPEND text "${one}")
      endforeach()
      caffe_host_instance(one ${file} f32 f32 c4 1)
      string(APPEND packed_text "${one}")
    elseif(group STREQUAL "codes")
      foreach(word IN LISTS quantized_words)
        caffe_host_instance(one ${file} f32 ${word} ${word} 1)
        string(APPEND text "${one}")
      endforeach()
    elseif(group STREQUAL "pairs")
      foreach(in IN LISTS float_words quantized_words)
        foreach(out IN LISTS float_words quantized_words)
          set(compute f32)
          if(in STREQUAL "f64" OR out STREQUAL "f64")
            set(compute f64)
          endif()
          caffe_host_instance(one ${file} ${compute} ${in} ${out} 1)
          string(APPEND text "${one}")
        endforeach()
      endforeach()
      foreach(word IN LISTS float_words quantized_words)
        set(compute f32)
        if(word STREQUAL "f64")
          set(compute f64)
        endif()
        caffe_host_instance(one ${file} ${compute} c4 ${word} 1)
        string(APPEND packed_text "${one}")
        caffe_host_instance(one ${file} ${compute} ${word} c4 1)
        string(APPEND packed_text "${one}")
      endforeach()
      caffe_host_instance(one ${file} f32 c4 c4 1)
      string(APPEND packed_text "${one}")
    elseif(group STREQUAL "once")
      caffe_host_instance(one ${file} f32 f32 f32 1)
      string(REPLACE "HOST_TYPES \"f32/f32/f32\"" "HOST_TYPES \"once\"" one "${one}")
      string(APPEND text "${one}")
    elseif(NOT group STREQUAL "device")
      message(FATAL_ERROR "kernels/${file}: unknown group of types '${group}'")
    endif()
  endforeach()
  if(NOT text STREQUAL "")
    list(APPEND host_folders ${folder})
    string(REPLACE "/" "_" key ${folder})
    set(host_text_${key} "${host_text_${key}}${text}")
    set(packed_text_${key} "${packed_text_${key}}${packed_text}")
  endif()
endforeach()
list(REMOVE_DUPLICATES host_folders)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(CAFFE_HOST_LEVELS v2 v3 v4)
else()
  set(CAFFE_HOST_LEVELS neon)
endif()
set(host_flags -O3 -fopenmp-simd -ffp-contract=off -fno-trapping-math -fno-math-errno
    -Wno-unused-function -Wno-unknown-pragmas)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND host_flags -Wno-pass-failed)  # loops that it cannot vectorize
endif()
# Not written in the dialect, but compiled once per level, too: the files in folders called levels.
# Those in levels/bytes need instructions that only some processors of level v4 have.
file(GLOB_RECURSE steps CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/caffe/*.cpp)
list(FILTER steps INCLUDE REGEX "/levels/")
set(byte_steps ${steps})
list(FILTER byte_steps INCLUDE REGEX "/levels/bytes/")
list(FILTER steps EXCLUDE REGEX "/levels/bytes/")
foreach(file IN LISTS steps byte_steps)
  if(file MATCHES "/(winograd|row)_steps\\.cpp$")
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
  else()
    # GCC 12 reports the undefined vectors of its own headers.
    set_source_files_properties(${file} PROPERTIES
      COMPILE_OPTIONS "-Wno-uninitialized;-Wno-maybe-uninitialized")
  endif()
endforeach()
foreach(level IN LISTS CAFFE_HOST_LEVELS)
  set(level_flags "")
  if(level MATCHES "^v")
    set(level_flags -march=x86-64-${level})
  endif()
  if(level STREQUAL "v4")
    list(APPEND level_flags -mprefer-vector-width=512)
  endif()
  set(level_sources ${steps})
  foreach(folder IN LISTS host_folders)
    string(REPLACE "/" "_" key ${folder})
    set(list_file ${CMAKE_BINARY_DIR}/generated/host/${key}.inc)
    file(CONFIGURE OUTPUT ${list_file} CONTENT "${host_text_${key}}" @ONLY)
    set(source ${CMAKE_BINARY_DIR}/generated/host/${key}_${level}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#define CAFFE_HOST_LIST \"host/${key}.inc\"
#include \"caffe/device/cpu/host_kernels.hpp\"
" @ONLY)
    list(APPEND level_sources ${source})
    if(NOT packed_text_${key} STREQUAL "")
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/host/${key}_packed.inc
           CONTENT "#include \"types/packed.h\"\n${packed_text_${key}}" @ONLY)
      set(source ${CMAKE_BINARY_DIR}/generated/host/${key}_packed_${level}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "#define CAFFE_HOST_LIST \"host/${key}_packed.inc\"
#include \"caffe/device/cpu/host_kernels.hpp\"
" @ONLY)
      list(APPEND level_sources ${source})
    endif()
  endforeach()
  add_library(caffe_host_${level} OBJECT ${level_sources})
  target_compile_definitions(caffe_host_${level} PRIVATE CAFFE_HOST_LEVEL=${level}
    CAFFE_TYPE_VALUE=caffe_type_value_${level} CAFFE_TYPE_CODE=caffe_type_code_${level})
  if(level MATCHES "v3|v4")
    target_compile_definitions(caffe_host_${level} PRIVATE
      CAFFE_HALF_DECODE=caffe_half_decode_${level} CAFFE_HALF_ENCODE=caffe_half_encode_${level})
  endif()
  target_include_directories(caffe_host_${level} PRIVATE ${CMAKE_SOURCE_DIR}/kernels
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  target_compile_options(caffe_host_${level} PRIVATE ${host_flags} ${level_flags})
endforeach()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_library(caffe_host_bytes OBJECT ${byte_steps})
  target_include_directories(caffe_host_bytes PRIVATE ${CMAKE_SOURCE_DIR}/kernels
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  target_compile_options(caffe_host_bytes PRIVATE ${host_flags} -march=x86-64-v4
    -mprefer-vector-width=512 -mavx512vnni -mamx-tile -mamx-int8)
endif()
