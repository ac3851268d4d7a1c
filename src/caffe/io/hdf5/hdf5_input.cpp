#include "hdf5_input.hpp"

#include <cstring>

#include "hdf5_driver.hpp"

namespace caffe {
namespace {

using OpenFile = Hdf5DriverFile<const InputFile>;

herr_t Query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t End(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(OpenFile::Of(file).target->size());
}

uint64_t Number(const char* bytes) {  // little-endian
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Whether the parts that metadata announce are in the file. The library takes memory for them
// before it reads them: for the names of a group ("HEAP", a version, three zeros, a size, the
// beginning of a list, an address), and for the rest of an object's header (a message of type 16
// and of 16 bytes: an address and a size). Addresses of other widths than 8 bytes are not looked
// at.
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
  const InputFile& input = *OpenFile::Of(file).target;
  const auto size = static_cast<haddr_t>(input.size());
  if (at > size || (bytes > size - at && bytes > kMostGuess)) return -1;
  if (!ReadOrZero(input.descriptor(), at, bytes, target)) return -1;
  return AnnouncesPartsOfTheFile(kind, static_cast<const char*>(target), bytes, size) ? 0 : -1;
}

herr_t Write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

H5FD_class_t Driver() {
  H5FD_class_t driver = OpenFile::Driver("caffe_input", 601);
  driver.query = Query;
  driver.get_eof = End;
  driver.read = Read;
  driver.write = Write;
  return driver;
}

}  // namespace

Hdf5Handle Hdf5AccessTo(const InputFile* input) {
  static const H5FD_class_t driver = Driver();
  static const hid_t id = H5FDregister(&driver);
  return OpenFile::AccessTo(input, id);
}

}  // namespace caffe
