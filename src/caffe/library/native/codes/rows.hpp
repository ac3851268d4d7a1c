// Functions for any number of rows, which are known to the compiler.
#pragma once

namespace caffe {
namespace {

constexpr int kBlockVectors = static_cast<int>(kByteChannels / kLanes);  // of a block of channels

template <int R> struct Count { static constexpr int value = R; };

template <int kLeast, int kMost, class Call>
DEVICE_FN void ForRowsBetween(long rows, const Call& call) {
  if constexpr (kLeast == kMost) {
    call(Count<kMost>());
  } else {
    constexpr int kHalf = (kLeast + kMost) / 2;
    if (rows <= kHalf) return ForRowsBetween<kLeast, kHalf>(rows, call);
    ForRowsBetween<kHalf + 1, kMost>(rows, call);
  }
}

// call(Count<rows>()) for 1 to R rows.
template <int R, class Call> DEVICE_FN void ForRows(long rows, const Call& call) {
  ForRowsBetween<1, R>(rows, call);
}

// Equal parts of at most `most` rows, because few rows at once take longer: call(row, rows).
template <class Call> DEVICE_FN void ForParts(long rows, long most, const Call& call) {
  const long parts = (rows + most - 1) / most;
  for (long i = 0; i < parts; ++i) {
    const long row = i * rows / parts;
    call(row, (i + 1) * rows / parts - row);
  }
}

}  // namespace
}  // namespace caffe
