#pragma once

#include <gtest/gtest.h>

#include <string>

#include "io/temporary_folder.hpp"
#include "support/layer_tester.hpp"

namespace caffe {

// A forward with data that the layer cannot take: on the CPU it throws, on devices CheckData does.
inline void ExpectDataError(LayerTester* layer, const std::string& message) {
  if (layer->layer().device()->host_accessible()) {
    EXPECT_EQ(ErrorOf([&] { layer->Forward(); }), message);
  } else {
    layer->Forward();
    EXPECT_EQ(ErrorOf([&] { layer->layer().CheckData(); }), message);
  }
}

}  // namespace caffe
