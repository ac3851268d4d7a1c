#pragma once

#include <cstdint>

namespace caffe {

// An idle OpenMP thread first waits in a loop ("spins") and then sleeps. GCC's runtime spins for
// milliseconds: on a busy machine a spinning thread uses up the time slice that the thread it waits
// for needs, and a forward pass takes ten times as long. This limits the loop to 1 ms, or to 0.02
// ms while other processes take cores away. It does nothing if OMP_WAIT_POLICY or GOMP_SPINCOUNT is
// set. Returns the new number of rounds, or 0 if the runtime was not changed.
int64_t BoundSpinning();

// Called at launches: checks from time to time whether other processes took cores away.
void AdaptSpinning();
// The same for a given number of involuntary context switches and a given processor time in
// seconds, both since the start of the process. Returns true if the short loop is now in use, and
// false if another thread is checking.
bool AdaptSpinning(int64_t stops, double seconds);

// Whether other processes take cores away most of the time. Another thread then sleeps between parallel
// regions, and waking it takes longer than the work of a small region.
bool CoresAreShared();
// The factor by which small work may be larger for one thread, compared with a quiet machine.
inline int64_t SerialFactor() {
  constexpr int64_t kWaking = 16;
  return CoresAreShared() ? kWaking : 1;
}

}  // namespace caffe
