#pragma once

namespace caffe {

// The program's name is put before it: "caffe version 0.1.0 (Cortado)".
inline constexpr char kVersion[] = "version " CAFFE_VERSION " (Cortado)";

}  // namespace caffe
