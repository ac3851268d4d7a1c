#include "caffe/library/native/quantized_product.hpp"

#include <algorithm>
#include <string>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const QuantizedSteps quantized_steps_v2, quantized_steps_v3, quantized_steps_v4;
#else
extern const QuantizedSteps quantized_steps_neon;
#endif

const QuantizedSteps& HostQuantizedSteps() {
#if defined(__x86_64__)
  const InstructionLevel level = HostLevelNumber();
  return level == InstructionLevel::kV4   ? quantized_steps_v4
         : level == InstructionLevel::kV3 ? quantized_steps_v3
                                          : quantized_steps_v2;
#else
  return quantized_steps_neon;
#endif
}

PackedRows::PackedRows(DataType type, bool weights, int64_t rows, int64_t k)
    : type_(type), weights_(weights), rows_(rows), k_(k) {
  depth_ = (k + kQuantDepth - 1) / kQuantDepth * kQuantDepth;
  const bool planes = !weights && type.bytes() == 2;
  high_ = planes ? depth_ : 0;
  row_stride_ = planes ? 2 * depth_ : depth_;
}

void PackedRows::ClearEnds() {
  for (int64_t r = 0; r < rows_; ++r) {
    std::fill(row(r) + k_, row(r) + depth_, int16_t{0});
    if (high_ > 0) std::fill(row(r) + high_ + k_, row(r) + high_ + depth_, int16_t{0});
  }
}

void PackedRows::Pack(const void* source, int64_t row_stride, int64_t k_stride, int64_t begin,
                      int64_t end) {
  const int bytes = static_cast<int>(type_.bytes());
  HostQuantizedSteps().pack({end - begin, k_, row_stride, k_stride,
                             static_cast<const char*>(source) + begin * row_stride * bytes, bytes,
                             weights_ ? WeightZero(type_) : 0, row(begin), row_stride_, high_});
}

QuantizedOutput MakeOutput(bool rows_are_weights, DataType type, bool wide,
                           const Epilogue& epilogue, const QuantArguments& arguments) {
  QuantizedOutput output{};
  output.rows_are_channels = rows_are_weights;
  output.wide = wide;
  output.bias = reinterpret_cast<const long*>(arguments.bias.address());
  output.multiplier = reinterpret_cast<const int*>(arguments.multiplier.address());
  output.shift = reinterpret_cast<const int*>(arguments.shift.address());
  if (arguments.negative_multiplier) {
    output.negative_multiplier =
        reinterpret_cast<const int*>(arguments.negative_multiplier.address());
    output.negative_shift = reinterpret_cast<const int*>(arguments.negative_shift.address());
  }
  const CodeBounds bounds(epilogue, arguments.scale_y);
  const int most = type.info().code_max;
  output.zero_y = arguments.zero_y;
  output.lowest = std::clamp(arguments.zero_y + bounds.low, 0, most);
  output.highest = std::clamp(arguments.zero_y + bounds.high, 0, most);
  return output;
}

QuantizedTile MakeTile(const PackedRows& weights, const PackedRows& activations,
                       bool rows_are_weights, DataType type, bool wide, const Epilogue& epilogue,
                       const QuantArguments& arguments) {
  const PackedRows& a = rows_are_weights ? weights : activations;
  const PackedRows& b = rows_are_weights ? activations : weights;
  QuantizedTile tile{MakeOutput(rows_are_weights, type, wide, epilogue, arguments)};
  tile.k = weights.depth();
  tile.a = a.row(0);
  tile.b = b.row(0);
  tile.a_stride = a.row_stride();
  tile.b_stride = b.row_stride();
  tile.high = activations.high();
  return tile;
}

void StartAtChannel(int64_t channel, QuantizedOutput* output) {
  output->bias += channel;
  output->multiplier += channel;
  output->shift += channel;
  if (!output->negative_multiplier) return;
  output->negative_multiplier += channel;
  output->negative_shift += channel;
}

}  // namespace caffe
