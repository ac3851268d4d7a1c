#pragma once

#include <cstdint>

namespace caffe {

// A thread of OpenMP that has nothing to do waits in a loop ("spins") before it sleeps. GCC's runtime
// spins for milliseconds: on a machine that has other work a spinning thread uses up the time slice
// that the thread it waits for would need, and a forward pass takes ten times as long. This bounds
// the loop to 0.2 ms, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. Returns the number of rounds
// that was set; 0 if the runtime was left as it is.
int64_t BoundSpinning();

}  // namespace caffe
