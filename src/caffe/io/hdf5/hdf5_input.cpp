#include "hdf5_input.hpp"

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
  const InputFile* input = nullptr;
  haddr_t allocated = 0;  // bytes
};

OpenFile* FileOf(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* FileOf(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

H5FD_t* Open(const char*, unsigned, hid_t access, haddr_t) {
  auto* file = new OpenFile;
  file->input = *static_cast<const InputFile* const*>(H5Pget_driver_info(access));
  return &file->base;
}

herr_t Close(H5FD_t* file) {
  delete FileOf(file);
  return 0;
}

int Compare(const H5FD_t* a, const H5FD_t* b) {
  const InputFile *x = FileOf(a)->input, *y = FileOf(b)->input;
  return x < y ? -1 : x > y;
}

herr_t Query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t Allocated(const H5FD_t* file, H5FD_mem_t) { return FileOf(file)->allocated; }
herr_t SetAllocated(H5FD_t* file, H5FD_mem_t, haddr_t bytes) {
  FileOf(file)->allocated = bytes;
  return 0;
}
haddr_t End(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(FileOf(file)->input->size());
}

uint64_t Number(const char* bytes) {  // little-endian
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Whether the parts that metadata announce are in the file. The library takes memory for them before
// it reads them: for the names of a group ("HEAP", a version, three zeros, a size, the beginning of
// a list, an address), and for the rest of an object's header (a message of type 16 and of 16 bytes:
// an address and a size). Addresses of other widths than 8 bytes are not looked at.
bool AnnouncesPartsOfTheFile(H5FD_mem_t kind, const char* bytes, size_t count, haddr_t size) {
  const auto inside = [&](uint64_t at, uint64_t length) {
    return length == 0 || (at <= size && length <= size - at);
  };
  if (kind == H5FD_MEM_LHEAP && count >= 32 && std::memcmp(bytes, "HEAP\0", 5) == 0) {
    return inside(Number(bytes + 24), Number(bytes + 8));
  }
  for (size_t i = 0; kind == H5FD_MEM_OHDR && i + 24 <= count; i += 8) {
    constexpr uint64_t kFlags = uint64_t{0xff} << 32;
    if ((Number(bytes + i) & ~kFlags) == 0x00100010 &&
        !inside(Number(bytes + i + 8), Number(bytes + i + 16))) {
      return false;
    }
  }
  return true;
}

// The library guesses the length of some headers, which may be the last bytes of the file: what is
// behind them is 0.
herr_t Read(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t at, size_t bytes, void* target) {
  constexpr size_t kMostGuess = 1 << 12;
  const InputFile& input = *FileOf(file)->input;
  const auto size = static_cast<haddr_t>(input.size());
  if (at > size || (bytes > size - at && bytes > kMostGuess)) return -1;
  auto* to = static_cast<char*>(target);
  const size_t asked = bytes;
  while (bytes > 0) {
    const ssize_t count = pread(input.descriptor(), to, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    to += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  std::memset(to, 0, bytes);
  return AnnouncesPartsOfTheFile(kind, static_cast<const char*>(target), asked, size) ? 0 : -1;
}

herr_t Write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

H5FD_class_t Driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(601);  // one of those that are free to use
#endif
  driver.name = "caffe_input";
  driver.maxaddr = (haddr_t{1} << 63) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(InputFile*);
  driver.open = Open;
  driver.close = Close;
  driver.cmp = Compare;
  driver.query = Query;
  driver.get_eoa = Allocated;
  driver.set_eoa = SetAllocated;
  driver.get_eof = End;
  driver.read = Read;
  driver.write = Write;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return driver;
}

}  // namespace

Hdf5Handle Hdf5AccessTo(const InputFile* input) {
  static const H5FD_class_t driver = Driver();
  static const hid_t id = H5FDregister(&driver);
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (H5Pset_driver(access, id, &input) < 0) return {-1, H5Pclose};
  return access;
}

}  // namespace caffe
