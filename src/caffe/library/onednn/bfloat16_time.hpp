#pragma once

namespace caffe::onednn {

// The time of a convolution of oneDNN in bfloat16, divided by that of the same one in float and
// rounded to halves. It is measured once, in about a millisecond. Processors with matrix units, and
// some others, multiply bfloat16 faster; some take twice the time.
double Bfloat16Time();

}  // namespace caffe::onednn
