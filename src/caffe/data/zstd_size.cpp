#include "zstd_size.hpp"

#include <string>

#include "caffe/core/error.hpp"
#include "caffe/device/dynamic_library.hpp"

namespace caffe {
namespace {

// The functions of libzstd 1, whose interface is stable.
struct Zstd {
  size_t (*bound)(size_t bytes) = nullptr;
  size_t (*compress)(void* target, size_t room, const void* source, size_t bytes,
                     int level) = nullptr;
  unsigned (*is_error)(size_t result) = nullptr;
  bool found = false;

  Zstd() {
    const auto library = DynamicLibrary::Open({"libzstd.so.1", "libzstd.1.dylib"}, nullptr);
    found = library && library->Bind("ZSTD_compressBound", &bound) &&
            library->Bind("ZSTD_compress", &compress) && library->Bind("ZSTD_isError", &is_error);
  }
};

}  // namespace

std::optional<int64_t> ZstdSize(std::string_view bytes) {
  constexpr int kLevel = 3;
  static const Zstd zstd;
  if (!zstd.found) return std::nullopt;
  std::string target(zstd.bound(bytes.size()), '\0');
  const size_t size =
      zstd.compress(target.data(), target.size(), bytes.data(), bytes.size(), kLevel);
  CAFFE_CHECK(!zstd.is_error(size), "zstd cannot compress ", bytes.size(), " bytes");
  return static_cast<int64_t>(size);
}

}  // namespace caffe
