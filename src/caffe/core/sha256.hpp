#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caffe {

// SHA-256 of a byte stream (FIPS 180-4). Finish resets the object for reuse.
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();

  void Update(const void* data, size_t size);
  void Update(std::string_view text) { Update(text.data(), text.size()); }
  // The text preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
  void UpdateFramed(std::string_view text);
  Digest Finish();

  static Digest Of(std::string_view text);
  static std::string Hex(const Digest& digest);

 private:
  void Compress(const uint8_t* block);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_;
  uint64_t size_;
};

}  // namespace caffe
