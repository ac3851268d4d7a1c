#include "hdf5_objects.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr int kMostSoftLinks = 16;            // in one path
constexpr size_t kMostLink = 1 << 12;         // bytes of a soft link
constexpr int64_t kMostText = 1 << 20;        // bytes
constexpr int64_t kSmall = int64_t{1} << 24;  // bytes that a dataset takes without storing them
constexpr int64_t kMostDeflated = 1032;       // deflate's greatest ratio

constexpr char kCopy[] =
    ". Files that are read must hold their own data: copy the values into the file (Python: "
    "new_file[name] = file[name][()], with h5py)";

void AddParts(const std::string& path, std::deque<std::string>* parts) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") found.push_back(part);
    begin = end + 1;
  }
  parts->insert(parts->begin(), found.begin(), found.end());
}

std::string SoftLink(const Hdf5Source& source, hid_t group, const std::string& part,
                     const H5L_info_t& info) {
  CAFFE_CHECK(info.u.val_size > 0 && info.u.val_size <= kMostLink, source.path(), ": the link '",
              part, "' is damaged");
  std::string value(info.u.val_size, '\0');
  CAFFE_CHECK(H5Lget_val(group, part.c_str(), value.data(), value.size(), H5P_DEFAULT) >= 0,
              source.path(), ": the link '", part, "' is damaged", Hdf5Reason());
  return value.substr(0, value.find('\0'));
}

Shape SpaceShape(const Hdf5Source& source, const std::string& name, hid_t space) {
  const int axes = H5Sget_simple_extent_ndims(space);
  CAFFE_CHECK(axes >= 0 && axes <= H5S_MAX_RANK, source.path(), ": dataset '", name,
              "' has no shape", Hdf5Reason());
  CAFFE_CHECK(H5Sget_simple_extent_type(space) != H5S_NULL, source.path(), ": dataset '", name,
              "' is empty: it has neither a shape nor a value");
  std::vector<hsize_t> extents(axes);
  if (axes > 0) H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  Shape shape(extents.begin(), extents.end());
  try {
    ShapeCount(shape);
  } catch (const Error& error) {
    CAFFE_THROW(source.path(), ": dataset '", name, "': ", error.what());
  }
  return shape;
}

// Throws if reading the dataset would read other files, or run a filter that trusts its input.
void CheckOwnValues(const Hdf5Source& source, const std::string& name, hid_t properties) {
  CAFFE_CHECK(H5Pget_layout(properties) != H5D_VIRTUAL, source.path(), ": dataset '", name,
              "' is a virtual dataset, whose values are in other files", kCopy);
  CAFFE_CHECK(H5Pget_external_count(properties) <= 0, source.path(), ": dataset '", name,
              "' has external storage: its values are in other files", kCopy);
  const int filters = H5Pget_nfilters(properties);
  CAFFE_CHECK(filters >= 0, source.path(), ": dataset '", name, "' is damaged", Hdf5Reason());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    char title[64] = {};
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags,
                                               &values, nullptr, sizeof(title) - 1, title, &config);
    // HDF5 trusts what the others return.
    const bool checked = filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE ||
                         filter == H5Z_FILTER_FLETCHER32;
    CAFFE_CHECK(checked, source.path(), ": dataset '", name, "' is stored with filter ", filter,
                " (", title,
                "), which is not safe for files of others; rewrite the file with another one: "
                "h5repack -f GZIP=4 FILE NEW_FILE");
  }
}

// The bytes that HDF5 unpacks at a time; 0 if the dataset is not divided into chunks.
double ChunkBytes(hid_t properties, size_t element) {
  if (H5Pget_layout(properties) != H5D_CHUNKED) return 0;
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int axes = H5Pget_chunk(properties, H5S_MAX_RANK, extents.data());
  double bytes = static_cast<double>(element);
  for (int axis = 0; axis < axes; ++axis) bytes *= static_cast<double>(extents[axis]);
  return bytes;
}

// Throws if the file cannot hold what the dataset's shape says.
int64_t CheckedBytes(const Hdf5Source& source, const std::string& name, const Shape& shape,
                     hid_t dataset, hid_t type, hid_t properties) {
  const size_t element = H5Tget_size(type);
  CAFFE_CHECK(element > 0 && element <= kMostText, source.path(), ": dataset '", name,
              "' has elements of ", element, " bytes; it is damaged");
  const double claimed = static_cast<double>(ShapeCount(shape)) * static_cast<double>(element);
  const double taken = std::max(claimed, claimed > 0 ? ChunkBytes(properties, element) : 0);
  const hsize_t storage = H5Dget_storage_size(dataset);
  // HDF5 copies what the shape says out of a buffer of the size that the layout says.
  const H5D_layout_t layout = H5Pget_layout(properties);
  const bool fits = layout == H5D_CHUNKED || static_cast<double>(storage) >= claimed ||
                    (layout == H5D_CONTIGUOUS && storage == 0);
  CAFFE_CHECK(fits, source.path(), ": dataset '", name, "' of shape ", ShapeString(shape),
              " has only ", storage, " bytes; it is damaged");
  const auto stored =
      std::min(static_cast<int64_t>(std::min<hsize_t>(storage, INT64_MAX)), source.bytes());
  const double most = static_cast<double>(stored) *
                      static_cast<double>(H5Pget_nfilters(properties) > 0 ? kMostDeflated : 1);
  CAFFE_CHECK(taken <= most || taken <= static_cast<double>(kSmall), source.path(), ": dataset '",
              name, "' of shape ", ShapeString(shape), " would take ",
              taken < 1e18 ? static_cast<int64_t>(taken) : INT64_MAX,
              " bytes, but the file has only ", stored,
              " for it: it is damaged, or most of its values were never written. Create it again, "
              "and write all values");
  return static_cast<int64_t>(claimed);
}

uint64_t LittleEndian(const char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  }
  return value;
}

bool ReadAt(const Hdf5Source& source, uint64_t offset, size_t count, char* target) {
  return offset <= INT64_MAX && pread(source.input.descriptor(), target, count,
                                      static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

// An object of a global heap: "GCOL", a version, three zeros and the size of the heap, then for
// each object its number (2 bytes), a count of references (2), zeros (4), its size (8), and its
// bytes, filled up to a multiple of 8. False if there is none of this number.
bool ReadHeapObject(const Hdf5Source& source, uint64_t heap, uint64_t number, uint64_t most,
                    std::string* object) {
  const auto bytes = static_cast<uint64_t>(source.bytes());
  constexpr size_t kHead = 16;
  char head[kHead];
  if (heap > bytes || !ReadAt(source, heap, kHead, head)) return false;
  if (std::memcmp(head, "GCOL\1", 5) != 0) return false;
  const uint64_t size = LittleEndian(head + 8, 8);
  if (size > bytes - heap) return false;
  for (uint64_t at = kHead; at + kHead <= size;) {
    if (!ReadAt(source, heap + at, kHead, head)) return false;
    const uint64_t index = LittleEndian(head, 2), length = LittleEndian(head + 8, 8);
    at += kHead;
    if (index == 0 || length > size - at) return false;
    if (index == number) {
      object->resize(std::min(length, most));
      return ReadAt(source, heap + at, object->size(), object->data());
    }
    at += (length + 7) / 8 * 8;
  }
  return false;
}

}  // namespace

Hdf5Handle OpenHdf5Object(const Hdf5Source& source, const std::string& name) {
  std::deque<std::string> parts;
  AddParts(name, &parts);
  // After a call that failed the library is not called again for this file.
  const auto check = [&](bool success) {
    CAFFE_CHECK(success, source.path(), ": '", name, "' is damaged", Hdf5Reason());
  };
  const auto open = [&](hid_t group, const std::string& part) {
    Hdf5Handle opened(H5Oopen(group, part.c_str(), H5P_DEFAULT), H5Oclose);
    check(opened >= 0);
    return opened;
  };
  Hdf5Handle object = open(source.file, "/");
  for (int soft = 0; !parts.empty();) {
    const std::string part = parts.front();
    parts.pop_front();
    if (H5Iget_type(object) != H5I_GROUP) return {-1, H5Oclose};
    const htri_t exists = H5Lexists(object, part.c_str(), H5P_DEFAULT);
    check(exists >= 0);
    if (exists == 0) return {-1, H5Oclose};
    H5L_info_t info{};
    check(H5Lget_info(object, part.c_str(), &info, H5P_DEFAULT) >= 0);
    if (info.type == H5L_TYPE_HARD) {
      object = open(object, part);
    } else if (info.type == H5L_TYPE_SOFT) {
      CAFFE_CHECK(++soft <= kMostSoftLinks, source.path(), ": '", name,
                  "' leads through more than ", kMostSoftLinks, " soft links, perhaps in a circle");
      const std::string target = SoftLink(source, object, part, info);
      if (target.starts_with('/')) object = open(source.file, "/");
      AddParts(target, &parts);
    } else {
      CAFFE_THROW(source.path(), ": '", name, "' leads to another file: '", part,
                  info.type == H5L_TYPE_EXTERNAL ? "' is an external link"
                                                 : "' is a link of a user's class",
                  kCopy);
    }
  }
  return object;
}

Hdf5Dataset OpenHdf5Dataset(const Hdf5Source& source, const std::string& name) {
  Hdf5Handle dataset = OpenHdf5Object(source, name);
  CAFFE_CHECK(dataset >= 0 && H5Iget_type(dataset) == H5I_DATASET, source.path(), ": no dataset '",
              name, "'", Hdf5Reason());
  // The shape of a virtual dataset comes from the files that it names: the layout is checked first.
  const Hdf5Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  CAFFE_CHECK(properties >= 0, source.path(), ": dataset '", name, "' is damaged", Hdf5Reason());
  CheckOwnValues(source, name, properties);
  Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  CAFFE_CHECK(space >= 0 && type >= 0, source.path(), ": dataset '", name, "' is damaged",
              Hdf5Reason());
  Shape shape = SpaceShape(source, name, space);
  const int64_t bytes = CheckedBytes(source, name, shape, dataset, type, properties);
  return {std::move(dataset), std::move(space), std::move(type), std::move(shape), bytes};
}

void CheckHdf5Numbers(const Hdf5Source& source, const std::string& name, hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  CAFFE_CHECK(kind == H5T_FLOAT || kind == H5T_INTEGER, source.path(), ": dataset '", name,
              "' holds neither integers nor floating-point numbers");
  // HDF5 does not check where the parts of a number are before it converts it.
  const size_t size = H5Tget_size(type), bits = H5Tget_precision(type);
  const H5T_order_t order = H5Tget_order(type);
  bool sound = H5Tget_offset(type) == 0 && bits > 0 && bits <= 8 * size && size <= 16 &&
               (order == H5T_ORDER_LE || order == H5T_ORDER_BE);
  if (kind == H5T_INTEGER) sound = sound && size <= 8;
  if (kind == H5T_FLOAT) {
    size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
    sound = sound &&
            H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0;
    sound = sound && sign < bits && exponent < bits && mantissa < bits && exponent_bits > 0 &&
            exponent_bits <= std::min<size_t>(bits - exponent, 30) && mantissa_bits > 0 &&
            mantissa_bits <= bits - mantissa;
  }
  CAFFE_CHECK(sound, source.path(), ": dataset '", name,
              "' holds numbers of an unusual or damaged type; store them as float");
}

std::string ReadHdf5VariableText(const Hdf5Source& source, const std::string& name,
                                 const Hdf5Dataset& dataset) {
  constexpr size_t kElement = 16;  // a length (4 bytes), a heap (8) and the number of an object (4)
  const Hdf5Handle properties(H5Fget_create_plist(source.file), H5Pclose);
  size_t address_bytes = 0, size_bytes = 0;
  const haddr_t offset = H5Dget_offset(dataset.dataset);
  const bool known = H5Pget_sizes(properties, &address_bytes, &size_bytes) >= 0 &&
                     address_bytes == 8 && size_bytes == 8 && offset != HADDR_UNDEF;
  char element[kElement];
  CAFFE_CHECK(known && ReadAt(source, offset, kElement, element), source.path(), ": dataset '",
              name,
              "' holds a text of variable length in an unusual form; store one of a fixed length");
  std::string text;
  const uint64_t length = LittleEndian(element, 4), heap = LittleEndian(element + 4, 8);
  if (length == 0) return text;
  CAFFE_CHECK(length <= kMostText, source.path(), ": dataset '", name, "' is a text of ", length,
              " bytes; at most ", kMostText, " are read");
  CAFFE_CHECK(ReadHeapObject(source, heap, LittleEndian(element + 12, 4), length, &text),
              source.path(), ": dataset '", name, "' is damaged: its text is missing");
  return text.substr(0, text.find('\0'));
}

}  // namespace caffe
