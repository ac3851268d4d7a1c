#pragma once

#include <cstdint>

namespace caffe {

// While other processes take cores away, a thread of OpenMP that waits for work sleeps, and waking
// it takes longer than the work of a small region: one thread computes such work then.

// Looks from time to time at how often the system stopped this process; called at launches.
void WatchCores();
// The same for a given number of involuntary context switches and a given processor time in
// seconds, both since the start of the process.
void WatchCores(int64_t stops, double seconds);

// Whether other processes take cores away most of the time.
bool CoresAreShared();
// The factor by which small work may be larger for one thread, compared with a quiet machine.
inline int64_t SerialFactor() {
  constexpr int64_t kWaking = 16;
  return CoresAreShared() ? kWaking : 1;
}

}  // namespace caffe
