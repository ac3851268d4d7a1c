// cpp_forward NET.prototxt [WEIGHTS.caffemodel]: runs one forward, in which every input is 1, and
// prints each output with its shape and its first values.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/net/net.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "use: cpp_forward NET.prototxt [WEIGHTS.caffemodel]\n";
    return 2;
  }
  try {
    caffe::NetOptions options;
    options.phase = caffe::TEST;
    options.device = caffe::Runtime::Get().cpu();
    caffe::Net net(argv[1], options);
    if (argc > 2) net.CopyTrainedLayersFrom(argv[2]);
    for (caffe::BlobBase* input : net.input_blobs()) {
      input->SetData(std::vector<double>(input->count(), 1));
    }
    net.Forward();
    for (const caffe::BlobBase* output : net.output_blobs()) {
      const std::vector<double> values = output->DataAsDouble();
      std::cout << output->name() << " (" << output->shape_string() << "):";
      for (size_t i = 0; i < std::min<size_t>(values.size(), 5); ++i) std::cout << ' ' << values[i];
      std::cout << '\n';
    }
  } catch (const caffe::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
