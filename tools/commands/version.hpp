#pragma once

namespace caffe {

// Printed after the program's name: "caffe version 0.1.0 (Cortado)".
inline constexpr char kVersion[] = "version " CAFFE_VERSION " (Cortado)";

}  // namespace caffe
