#pragma once

namespace caffe::onednn {

// The flag "invalid operation" of IEEE 754, which each thread has. On x86 an instruction sets it if
// it compares NaN, as the maximum of two numbers does, or makes NaN of other numbers. It stays set
// until it is cleared.
#if defined(__x86_64__)
inline constexpr bool kHasInvalidFlags = true;
#else
inline constexpr bool kHasInvalidFlags = false;
#endif

// Clears the flags of the threads with which the caller's parallel regions run; returns whether one
// was set.
bool ClearInvalidFlags();

}  // namespace caffe::onednn
