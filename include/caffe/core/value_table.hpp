#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

// A type of a user with at most 16 bits, as tables: the value of each code, and the code that each
// float is rounded to. The second one is a list of steps, because neighbouring floats have the same
// code.
class ValueTable {
 public:
  // Writes the codes that `count` floats are rounded to.
  using Encoder = std::function<void(const float* values, uint32_t* codes, size_t count)>;
  // From the float with these bits on, up to the next step, floats have this code. Bits are in the
  // order of unsigned integers.
  struct Step {
    uint32_t bits;
    uint16_t code;
  };

  // `values` has 2^bits entries. Calls `encoder` for about 200,000 floats to find the steps. Throws
  // Error, with `name` and the float, if the encoder gives a code of more bits, or if floats
  // between two of the same code have another one: rounding must be monotonic.
  ValueTable(const std::string& name, int bits, std::vector<float> values, const Encoder& encoder);

  // Rounds to the nearest of `values`; of two that are equally near, to the one whose code is even.
  // Beyond the largest value it is infinity if a code has it, from half a distance on, otherwise
  // the largest value. NaN gives the code of NaN, or that of 0 if there is none.
  static Encoder Nearest(const std::string& name, const std::vector<float>& values);

  // The table of 2^exponent times the values, made at the first call: that of a blob of a type with
  // TypeInfo::scaled. Threads may call it at the same time.
  const ValueTable& Scaled(int exponent) const;
  // The largest finite |value|.
  float largest() const;

  // The value of a code; if it has more bits, only the lower ones count.
  float Value(uint32_t code) const { return values_[code & (values_.size() - 1)]; }
  uint32_t Code(float value) const;
  // The code of the float with these bits.
  static uint32_t CodeIn(const std::vector<Step>& steps, uint32_t bits);
  const std::vector<float>& values() const { return values_; }
  const std::vector<Step>& steps() const { return steps_; }

  // The table that kernels on the CPU read (kernels/types/table.h), N = 256 or 65,536 for an
  // element of 1 or 2 bytes:
  //   N values as bits of floats;
  //   65,536 rows, one for each value of a float's upper 16 bits: 32 * position + shift. The
  //     entries of a row begin at `position`; bit 16 and the bits below `shift` do not select;
  //   entries of 1 byte: (first float of `high`) << 16 | low << 8 | high; of 2 bytes: two words,
  //     low << 16 | high, and the first float of `high`.
  const uint32_t* host_words() const { return host_words_.data(); }
  size_t host_bytes() const { return host_words_.size() * sizeof(uint32_t); }

 private:
  struct ScaledTables;

  void FindSteps(const std::string& name, const Encoder& encoder);
  void MakeHostWords(const std::string& name);

  int bits_;
  std::vector<float> values_;
  std::vector<Step> steps_;
  std::vector<uint32_t> host_words_;
  std::shared_ptr<ScaledTables> scaled_;
};

// The table of a type of kind kCustom; made at the first call. Throws for other types.
const ValueTable& TableOf(DataType type);

}  // namespace caffe
