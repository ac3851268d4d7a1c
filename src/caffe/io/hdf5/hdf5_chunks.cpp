#include "hdf5_chunks.hpp"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// The number of bytes to which a stream unpacks; more than `most` if it is longer, -1 if it is
// damaged.
int64_t UnpackedBytes(const std::vector<char>& packed, size_t bytes, int64_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return -1;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(bytes);
  std::vector<Bytef> part(1 << 16);
  int64_t unpacked = 0;
  int state = Z_OK;
  while (state == Z_OK && unpacked <= most) {
    stream.next_out = part.data();
    stream.avail_out = static_cast<uInt>(part.size());
    state = inflate(&stream, Z_NO_FLUSH);
    unpacked += static_cast<int64_t>(part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END || unpacked > most ? unpacked : -1;
}

}  // namespace

void CheckHdf5Chunks(const Hdf5Source& source, const std::string& name, hid_t dataset,
                     hid_t properties, const Shape& shape, size_t element) {
  constexpr int64_t kMostChunks = int64_t{1} << 22;
  constexpr int64_t kChecksum = 4;  // bytes of Fletcher's
  std::vector<hsize_t> chunk(H5S_MAX_RANK), at(shape.size());
  const int axes = H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data());
  CAFFE_CHECK(axes == static_cast<int>(shape.size()), source.path(), ": dataset '", name, "' has ",
              shape.size(), " axes, but its chunks have ", axes, "; it is damaged");
  const int filters = H5Pget_nfilters(properties);
  int64_t bytes = static_cast<int64_t>(element), chunks = 1;
  for (int axis = 0; axis < axes; ++axis) {
    const auto extent = static_cast<int64_t>(chunk[axis]);
    CAFFE_CHECK(extent > 0 && extent <= UINT32_MAX && bytes <= UINT32_MAX / extent, source.path(),
                ": dataset '", name, "' has chunks of an invalid size; it is damaged");
    bytes *= extent;
    const int64_t along = (shape[axis] + extent - 1) / extent;
    CAFFE_CHECK(along <= kMostChunks / chunks, source.path(), ": dataset '", name,
                "' has more than ", kMostChunks, " chunks; store it in larger ones");
    chunks *= along > 0 ? along : 1;
  }
  std::vector<char> packed;
  for (int64_t i = 0; i < chunks; ++i) {
    for (int64_t axis = axes - 1, rest = i; axis >= 0; --axis) {
      const int64_t along = std::max<int64_t>(1, (shape[axis] + chunk[axis] - 1) / chunk[axis]);
      at[axis] = static_cast<hsize_t>(rest % along) * chunk[axis];
      rest /= along;
    }
    hsize_t stored = 0;
    // H5Dget_chunk_storage_size returns the size that chunks without filters should have.
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    const bool known =
        H5Dget_chunk_info_by_coord(dataset, at.data(), &mask, &address, &stored) >= 0;
    CAFFE_CHECK(known && stored <= static_cast<hsize_t>(std::max(source.bytes(), bytes)),
                source.path(), ": dataset '", name, "' is damaged", Hdf5Reason());
    int64_t unpacked = static_cast<int64_t>(stored);
    if (stored == 0) continue;  // it has the fill value
    if (filters > 0) {
      CAFFE_CHECK(stored <= static_cast<hsize_t>(source.bytes()), source.path(), ": dataset '",
                  name, "' is damaged: a chunk is longer than the file");
      packed.resize(stored);
      uint32_t skipped = 0;
      CAFFE_CHECK(H5Dread_chunk(dataset, H5P_DEFAULT, at.data(), &skipped, packed.data()) >= 0,
                  source.path(), ": cannot read dataset '", name, "'", Hdf5Reason());
      bool inflated = false;
      for (int f = filters - 1; f >= 0; --f) {
        if (f < 32 && (skipped >> f & 1) != 0) continue;
        unsigned flags = 0, config = 0;
        size_t values = 0;
        const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(f), &flags,
                                                   &values, nullptr, 0, nullptr, &config);
        if (filter == H5Z_FILTER_FLETCHER32) unpacked -= kChecksum;
        if (filter != H5Z_FILTER_DEFLATE) continue;
        CAFFE_CHECK(!inflated && unpacked > 0, source.path(), ": dataset '", name,
                    "' is packed twice; rewrite the file: h5repack -f GZIP=4 FILE NEW_FILE");
        unpacked = UnpackedBytes(packed, static_cast<size_t>(unpacked), bytes + kChecksum);
        inflated = true;
      }
    }
    CAFFE_CHECK(unpacked == bytes, source.path(), ": dataset '", name, "' is damaged: chunk ", i,
                " has ", unpacked, " bytes, but its shape needs ", bytes);
  }
}

}  // namespace caffe
