#include "caffe/core/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace caffe {
namespace {

constexpr std::array<uint32_t, 8> kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t ReadBigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void WriteBigEndian(uint64_t value, uint8_t* bytes, int count) {
  for (int i = count - 1; i >= 0; --i, value >>= 8) {
    bytes[i] = static_cast<uint8_t>(value);
  }
}

}  // namespace

Sha256::Sha256() : state_(kInitial), buffer_{}, size_(0) {}

void Sha256::Compress(const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    w[i] = ReadBigEndian(block + 4 * i);
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t choice = (e & f) ^ (~e & g);
    const uint32_t t1 = h + sum1 + choice + kRound[i] + w[i];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t t2 = sum0 + majority;
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) {
    state_[i] += change[i];
  }
}

void Sha256::Update(const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  size_t used = size_ % buffer_.size();
  size_ += size;
  while (size > 0) {
    if (used == 0 && size >= buffer_.size()) {
      Compress(bytes);
      bytes += buffer_.size();
      size -= buffer_.size();
      continue;
    }
    const size_t part = std::min(size, buffer_.size() - used);
    std::memcpy(buffer_.data() + used, bytes, part);
    used += part;
    bytes += part;
    size -= part;
    if (used == buffer_.size()) {
      Compress(buffer_.data());
      used = 0;
    }
  }
}

void Sha256::UpdateFramed(std::string_view text) {
  std::array<uint8_t, 8> length;
  WriteBigEndian(text.size(), length.data(), 8);
  Update(length.data(), length.size());
  Update(text);
}

Sha256::Digest Sha256::Finish() {
  const uint64_t bits = size_ * 8;
  static constexpr std::array<uint8_t, 64> kPadding = {0x80};
  const size_t used = size_ % 64;
  Update(kPadding.data(), used < 56 ? 56 - used : 120 - used);
  std::array<uint8_t, 8> length;
  WriteBigEndian(bits, length.data(), 8);
  Update(length.data(), length.size());
  Digest digest;
  for (int i = 0; i < 8; ++i) {
    WriteBigEndian(state_[i], digest.data() + 4 * i, 4);
  }
  *this = Sha256();
  return digest;
}

Sha256::Digest Sha256::Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Finish();
}

std::string Sha256::Hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace caffe
