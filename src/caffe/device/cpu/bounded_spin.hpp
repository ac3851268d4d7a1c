#pragma once

#include <cstdint>

namespace caffe {

// A thread of OpenMP that has nothing to do waits in a loop ("spins") before it sleeps. GCC's runtime
// spins for milliseconds: on a machine that has other work a spinning thread uses up the time slice
// that the thread it waits for would need, and a forward pass takes ten times as long. This bounds
// the loop to 0.5 ms, and to 0.02 ms while the system takes cores away from the process. Nothing is
// done if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. Returns the number of rounds that was set; 0 if
// the runtime was left as it is.
int64_t BoundSpinning();

// Called at launches: looks now and then whether cores were taken away.
void AdaptSpinning();
// The same, told how often threads of the process were stopped (involuntary context switches) and
// its processor time in seconds, both since its start. True if the short loop is in use from now on.
bool AdaptSpinning(int64_t stops, double seconds);

}  // namespace caffe
