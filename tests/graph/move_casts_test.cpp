#include <gtest/gtest.h>

#include "caffe/graph/passes.hpp"
#include "graph/graph_support.hpp"

namespace caffe {
namespace {

std::string Moved(const std::string& text) { return Wiring(InsertCasts(MoveCasts(TypedOf(text)))); }

const char* const kConvolution =
    "layer { name: 'data' type: 'Input' top: 'data' } "
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
    "        compute_data_type: CAFFE_FLOAT } ";

std::string Pool(const std::string& parameters) {
  return "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param { " +
         parameters + " } } ";
}

// The conversion of the smaller blob: in half after the pooling, which has a quarter of the
// elements.
TEST(MoveCastsTest, BehindAMaximumWithStrides) {
  const std::string before = std::string("data_type: CAFFE_HALF ") + kConvolution,
                    next = "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' }";
  const std::string net = before + Pool("pool: MAX kernel_size: 2 stride: 2") + next;
  EXPECT_EQ(Wiring(InsertCasts(TypedOf(net))),
            "data (Input) -> data half\n"
            "data_as_float (Quantizer) data -> data_as_float float/half/float\n"
            "conv (Convolution) data_as_float -> conv\n"
            "conv_as_half (Quantizer) conv -> conv_as_half float/float/half\n"
            "pool (Pooling) conv_as_half -> pool half\n"
            "ip (InnerProduct) pool -> ip half\n");
  EXPECT_EQ(Moved(net),
            "data (Input) -> data half\n"
            "data_as_float (Quantizer) data -> data_as_float float/half/float\n"
            "conv (Convolution) data_as_float -> conv\n"
            "pool (Pooling) conv -> pool\n"
            "pool_as_half (Quantizer) pool -> pool_as_half float/float/half\n"
            "ip (InnerProduct) pool_as_half -> ip half\n");
  EXPECT_EQ(MoveCasts(TypedOf(net)).casts_moved, 1);
  // Not for a mean, without strides, with types of its own, or in a net that trains.
  for (const std::string& other :
       {before + Pool("pool: AVE kernel_size: 2 stride: 2") + next,
        before + Pool("pool: MAX kernel_size: 3 pad: 1") + next,
        before +
            "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' "
            "        compute_data_type: CAFFE_HALF pooling_param { kernel_size: 2 stride: 2 } } " +
            next,
        "force_backward: true " + net}) {
    EXPECT_EQ(Moved(other), Wiring(InsertCasts(TypedOf(other))));
  }
}

// A layer that follows its bottom, without a type of its own, has the new type, too.
TEST(MoveCastsTest, LayersThatFollowTheirBottom) {
  const std::string net = std::string("data_type: CAFFE_HALF ") + kConvolution +
                          Pool("pool: MAX global_pooling: true") +
                          "layer { name: 'relu' type: 'ReLU' bottom: 'pool' top: 'pool' } "
                          "layer { name: 'flat' type: 'Flatten' bottom: 'pool' top: 'flat' } "
                          "layer { name: 'ip' type: 'InnerProduct' bottom: 'flat' top: 'ip' }";
  EXPECT_EQ(Moved(net),
            "data (Input) -> data half\n"
            "data_as_float (Quantizer) data -> data_as_float float/half/float\n"
            "conv (Convolution) data_as_float -> conv\n"
            "pool (Pooling) conv -> pool\n"
            "relu (ReLU) pool -> pool\n"
            "flat (Flatten) pool -> flat\n"
            "flat_as_half (Quantizer) flat -> flat_as_half float/float/half\n"
            "ip (InnerProduct) flat_as_half -> ip half\n");
}

TEST(MoveCastsTest, BeforeALayerWithMoreElements) {
  const std::string net = std::string("data_type: CAFFE_HALF ") + kConvolution +
                          "layer { name: 'tile' type: 'Tile' bottom: 'conv' top: 'tile' "
                          "        tile_param { tiles: 4 } } "
                          "layer { name: 'a' type: 'InnerProduct' bottom: 'tile' top: 'a' } ";
  EXPECT_EQ(Moved(net),
            "data (Input) -> data half\n"
            "data_as_float (Quantizer) data -> data_as_float float/half/float\n"
            "conv (Convolution) data_as_float -> conv\n"
            "conv_as_half (Quantizer) conv -> conv_as_half float/float/half\n"
            "tile (Tile) conv_as_half -> tile half\n"
            "a (InnerProduct) tile -> a half\n");
  // Readers of two types: the layer keeps the type of its bottom.
  const std::string two = net +
                          "layer { name: 'b' type: 'InnerProduct' bottom: 'tile' top: 'b' "
                          "        compute_data_type: CAFFE_FLOAT } ";
  EXPECT_EQ(Moved(two), Wiring(InsertCasts(TypedOf(two))));
}

}  // namespace
}  // namespace caffe
