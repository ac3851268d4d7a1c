#include "caffe/io/proto_io.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "caffe.pb.h"
#include "caffe/io/ignored_fields.hpp"
#include "caffe/io/weights_file.hpp"
#include "io/pipe.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

NetParameter Parse(const std::string& text) {
  NetParameter net;
  ParseTextProto(text, "net.prototxt", &net);
  return net;
}

std::string ParseError(const std::string& text) {
  return ErrorOf([&] { Parse(text); });
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(ProtoIoTest, UnknownFieldIsNamedWithLineAndSuggestion) {
  EXPECT_EQ(ParseError("layer {\n  name: \"c\"\n  convolution_param { kernel_sizes: 3 }\n}\n"),
            "Failed to parse NetParameter file: net.prototxt: line 3: layer c: "
            "ConvolutionParameter has no field \"kernel_sizes\"; did you mean \"kernel_size\"?");
  EXPECT_TRUE(Contains(ParseError("name: \"x\"\nxyzzy_plugh: 1\n"),
                       "line 2: NetParameter has no field \"xyzzy_plugh\""));
}

TEST(ProtoIoTest, MessagesAreUpgradedAsFilesAre) {
  NetParameter old;
  old.add_input("data");
  for (int dim : {1, 2, 3, 4}) old.add_input_dim(dim);
  V1LayerParameter* layer = old.add_layers();
  layer->set_name("act");
  layer->set_type(V1LayerParameter::RELU);
  const NetParameter net = ParseNetParameter(old.SerializeAsString(), "a message");
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).type(), "Input");
  EXPECT_EQ(net.layer(1).type(), "ReLU");
  SolverParameter solver;
  solver.set_solver_type(SolverParameter::ADAM);
  *solver.mutable_net_param() = old;
  *solver.mutable_train_net_param() = old;
  *solver.add_test_net_param() = old;
  const SolverParameter upgraded = ParseSolverParameter(solver.SerializeAsString(), "a message");
  EXPECT_EQ(upgraded.type(), "Adam");
  for (const NetParameter* part :
       {&upgraded.net_param(), &upgraded.train_net_param(), &upgraded.test_net_param(0)}) {
    EXPECT_EQ(part->layer_size(), 2);
  }
  solver.set_type("SGD");
  EXPECT_EQ(ErrorOf([&] { ParseSolverParameter(solver.SerializeAsString(), "a message"); }),
            "a message: both solver_type and type are given; keep type (a string)");
}

TEST(ProtoIoTest, UnknownFieldsOfMessagesAreNamed) {
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name("conv1");
  ConvolutionParameter* parameter = layer->mutable_convolution_param();
  parameter->GetReflection()->MutableUnknownFields(parameter)->AddVarint(4711, 1);
  const auto error = [&] {
    return ErrorOf([&] { ParseNetParameter(net.SerializeAsString(), "a message"); });
  };
  EXPECT_TRUE(Contains(
      error(),
      "a message: NetParameter: layer conv1: ConvolutionParameter has an unknown field 4711; "));
  layer->clear_convolution_param();
  EXPECT_EQ(error(), "");
  // A value that the enumeration does not have: field 1 is pool.
  PoolingParameter* pooling = layer->mutable_pooling_param();
  pooling->GetReflection()->MutableUnknownFields(pooling)->AddVarint(1, 77);
  EXPECT_TRUE(Contains(error(), "PoolingParameter has an invalid value of pool; "));
  SolverParameter solver;
  *solver.mutable_net_param() = net;
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ParseSolverParameter(solver.SerializeAsString(), "a message"); }),
               "a message: SolverParameter: NetParameter: layer conv1: PoolingParameter has"));
  EXPECT_TRUE(Contains(ErrorOf([] { ParseNetParameter("\xff", "a message"); }),
                       "a message is not a valid NetParameter"));
}

TEST(ProtoIoTest, SeveralUnknownFieldsOfAMessageAreListed) {
  NetParameter net;
  for (const char* name : {"a", "b"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    layer->set_type("PriorBox");
    auto* unknown = layer->GetReflection()->MutableUnknownFields(layer);
    unknown->AddLengthDelimited(199, "");
    unknown->AddVarint(4711, 1);
    unknown->AddVarint(4711, 2);
  }
  const std::string error =
      ErrorOf([&] { ParseNetParameter(net.SerializeAsString(), "a message"); });
  EXPECT_TRUE(
      error.starts_with("a message: 4 unknown names:\n"
                        "  NetParameter: layer a (PriorBox) has an unknown field 199\n"
                        "  NetParameter: layer a (PriorBox) has an unknown field 4711\n"
                        "  NetParameter: layer b (PriorBox) has an unknown field 199\n"
                        "  NetParameter: layer b (PriorBox) has an unknown field 4711"))
      << error;
}

TEST(ProtoIoTest, UnknownMessageWithContentIsAnError) {
  EXPECT_TRUE(Contains(ParseError("layer { warp_param { a: 1 b { c: 2 } } }\nother: 1\n"),
                       "no field \"warp_param\""));
}

TEST(ProtoIoTest, SyntaxErrorsHaveALine) {
  EXPECT_TRUE(Contains(ParseError("layer {\n  name: \"c\"\n"), "line 3"));
  EXPECT_TRUE(Contains(ParseError("layers {\n  type: CONVOLUTIO\n}"), "line 2"));
  EXPECT_TRUE(Contains(ParseError("layers {\n  type: CONVOLUTIO\n}"), "CONVOLUTIO"));
}

std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(ProtoIoTest, TooDeepNestingIsAnError) {
  const struct {
    std::string open, close;
  } cases[] = {
      {"x {", "}"}, {"x <", ">"}, {"x: [", "]"}, {"layer { moe_param { expert_net {", "} } }"}};
  for (const auto& [open, close] : cases) {
    const std::string error =
        ParseError("name: 'a'\n" + Repeated(open, 100000) + Repeated(close, 100000));
    EXPECT_TRUE(Contains(error, "net.prototxt: line 2: ")) << error.substr(0, 200);
    EXPECT_TRUE(Contains(error, "more than 100 deep")) << error.substr(0, 200);
  }
  // A string ends with its line, also if the parser then reports an error.
  EXPECT_TRUE(Contains(ParseError("name: \"a\\\n x: " + Repeated("[", 100000)), "100 deep"));
  EXPECT_TRUE(Contains(ParseError("name: 'a\n x: " + Repeated("[", 100000)), "100 deep"));
  // Not nested: one after the other, in strings and in comments.
  const std::string brackets = Repeated("[{<", 50);
  EXPECT_EQ(Parse(Repeated("layer { relu_param { } }\n", 200) + "# " + brackets + "\n" +
                  "name: \"\\\"" + brackets + "\"")
                .layer_size(),
            200);
  const std::string nets = Repeated("layer { moe_param { expert_net {", 33);
  EXPECT_EQ(Parse(nets + Repeated("} } }", 33)).layer_size(), 1);
}

// Messages, and groups of fields that are not known.
TEST(ProtoIoTest, TooDeepNestingInBinaryFilesIsAnError) {
  const TemporaryFolder folder;
  NetParameter net, *inner = &net;
  for (int i = 0; i < 200; ++i) inner = inner->add_layer()->mutable_moe_param()->add_expert_net();
  for (const std::string& content : {net.SerializeAsString(), Repeated("\x13", 1000000)}) {
    const std::string path = folder.Put("x.caffemodel", content);
    const std::string error = ErrorOf([&] { ReadNetParameterBinary(path); });
    EXPECT_TRUE(Contains(error, path) && Contains(error, "damaged")) << error;
  }
}

TEST(ProtoIoTest, HarmlessFieldsOfForksAreSkippedWithAWarning) {
  testing::internal::CaptureStderr();
  const NetParameter net = Parse(
      "default_forward_type: FLOAT16\n"
      "compile_net_state { is_init: true kept_bn_layers: 'a' }\n"
      "layer { name: 'c' type: 'Convolution' forward_type: FLOAT16 engine: 'MKLDNN:CPU,DLA'\n"
      "  convolution_param { num_output: 2 engine: MKL2017 conv_algos_override: '1,1,1' } }\n");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(log, "default_forward_type")) << log;
  EXPECT_TRUE(Contains(log, "conv_algos_override")) << log;
  EXPECT_EQ(net.layer(0).convolution_param().num_output(), 2u);
  EXPECT_EQ(net.layer(0).convolution_param().engine(), ConvolutionParameter::MKL2017);
}

TEST(ProtoIoTest, TheWarningSaysWhatAnIgnoredFieldWouldDo) {
  testing::internal::CaptureStderr();
  Parse("layer { name: 'c' backward_type: FLOAT16 }");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(log, "\"backward_type\" of another Caffe sets types of arithmetic")) << log;
  EXPECT_FALSE(Contains(log, "does not change the result")) << log;
}

TEST(ProtoIoTest, AFieldThatChangesResultsIsNotHarmless) {
  EXPECT_EQ(IgnoredFieldNote("caffe.TransformationParameter", "crop_h"), "");
  EXPECT_EQ(IgnoredFieldNote("caffe.ConvolutionParameter", "relu"), "");
  EXPECT_TRUE(Contains(ParseError("layer { convolution_param { relu: true } }"), "\"relu\""));
}

// A name that the message has would be parsed, so that its entry in the list were dead.
TEST(ProtoIoTest, IgnoredFieldsAreUnknownOnes) {
  for (const auto* message : {NetParameter::descriptor(), LayerParameter::descriptor(),
                              SolverParameter::descriptor(), ConvolutionParameter::descriptor(),
                              DataParameter::descriptor(), InnerProductParameter::descriptor(),
                              BatchNormParameter::descriptor(), DropoutParameter::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      EXPECT_EQ(IgnoredFieldNote(message->full_name(), message->field(i)->name()), "")
          << message->field(i)->full_name();
    }
  }
}

TEST(ProtoIoTest, RepeatedPoolingFieldsOfTheForkFillTheirNdForms) {
  const NetParameter net = Parse(
      "layer { type: 'Pooling' pooling_param { pool: MAX # kernel_size: 9 pad: 9\n"
      "  kernel_size: 3 kernel_size: 2 stride: [2, 1, 1] pad: 1 dilation: 2 dilation: 2 } }\n"
      "layer { name: \"pooling_param { pad: 1 pad: 2\" convolution_param { pad: 1 pad: 2 }\n"
      "  pooling_param { kernel_size: 3 stride: 2 } }\n"
      "layers { pooling_param: < kernel_size: 2 kernel_size: 4 > }\n");
  const PoolingParameter& pool = net.layer(0).pooling_param();
  ASSERT_EQ(pool.kernel_size_nd_size(), 2);
  EXPECT_EQ(pool.kernel_size_nd(1), 2u);
  EXPECT_FALSE(pool.has_kernel_size());
  ASSERT_EQ(pool.stride_nd_size(), 3);
  EXPECT_EQ(pool.stride_nd(0), 2u);
  EXPECT_EQ(pool.pad(), 1u);
  EXPECT_EQ(pool.dilation_size(), 2);
  EXPECT_EQ(net.layer(1).convolution_param().pad_size(), 2);
  EXPECT_EQ(net.layer(1).pooling_param().kernel_size(), 3u);
  EXPECT_EQ(net.layers(0).pooling_param().kernel_size_nd_size(), 2);
}

TEST(ProtoIoTest, FieldsOfTheOpenClForkParse) {
  const NetParameter net = Parse(
      "data_type: CAFFE_HALF\n"
      "quantizer { zone: 1 observed_min: -1 observed_max: 2 }\n"
      "layer { bottom_data_type: CAFFE_FLOAT compute_data_type: CAFFE_INT8_QUANTIZED\n"
      "  top_data_type: CAFFE_BFLOAT16 type: 'MOE' moe_param { select_experts: 2\n"
      "  gating_net { name: 'g' } expert_net { name: 'e' } map_bottom: GATING_AND_EXPERT } }\n"
      "layer { mergecrop_param { operation: ADD } pooling_param { dilation: 2 axis: 1 } }\n");
  EXPECT_EQ(net.data_type(), CAFFE_HALF);
  EXPECT_EQ(net.quantizer(0).observed_max(), 2);
  EXPECT_EQ(net.layer(0).moe_param().expert_net(0).name(), "e");
  EXPECT_EQ(net.layer(1).mergecrop_param().operation(), MergeCropParameter::ADD);
}

TEST(ProtoIoTest, AMarkOfUtf8IsSkipped) { EXPECT_EQ(Parse("\xef\xbb\xbfname: \"x\"").name(), "x"); }

TEST(ProtoIoTest, TextRoundTrip) {
  TemporaryFolder folder;
  const NetParameter net = Parse(
      "name: 'x' layer { name: 'a' type: 'ReLU' bottom: 'b' top: 'b' "
      "relu_param { negative_slope: 0.1 } include { phase: TRAIN } }");
  WriteTextProto(folder / "net.prototxt", net);
  EXPECT_EQ(ReadNetParameter(folder / "net.prototxt").SerializeAsString(), net.SerializeAsString());
}

NetParameter WithBlob(int values) {
  NetParameter net;
  net.set_name("weights");
  LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  layer->set_type("InnerProduct");
  BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(values);
  for (int i = 0; i < values; ++i) blob->add_data(0.5f * static_cast<float>(i));
  return net;
}

TEST(ProtoIoTest, BinaryRoundTrip) {
  TemporaryFolder folder;
  const NetParameter net = WithBlob(100000);
  WriteBinaryProto(folder / "x.caffemodel", net);
  EXPECT_EQ(ReadNetParameterBinary(folder / "x.caffemodel").SerializeAsString(),
            net.SerializeAsString());
  EXPECT_EQ(folder.count(), 1u);
}

std::string BinaryError(const std::string& path) {
  return ErrorOf([&] { ReadNetParameterBinary(path); });
}

TEST(ProtoIoTest, BadBinaryFilesAreNamedWithACure) {
  TemporaryFolder folder;
  const std::string bytes = WithBlob(1000).SerializeAsString();
  EXPECT_EQ(BinaryError("no/such.caffemodel"), "File not found: no/such.caffemodel");
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"", "empty"},
      {bytes.substr(0, bytes.size() / 2), "cut off"},
      {std::string(1000, '\xff'), "damaged"},
      {"name: \"net\"\nlayer { name: 'x' }\n", "it is text"},
      {"\x89HDF\r\n\x1a\n and so on", "HDF5"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {"<!DOCTYPE html><html></html>", "download failed"},
      {std::string("\x92\x3f\x03"
                   "abc",
                   6),
       "no layers"},
  };
  for (const auto& [content, expected] : cases) {
    const std::string path = folder.Put("x.caffemodel", content);
    const std::string error = BinaryError(path);
    EXPECT_TRUE(Contains(error, path) && Contains(error, expected)) << expected << ": " << error;
  }
  EXPECT_TRUE(Contains(BinaryError(folder.path().string()), "is a folder"));
}

TEST(ProtoIoTest, OtherMessagesAreNoWeights) {
  TemporaryFolder folder;
  BlobProto mean;
  mean.set_channels(1);
  mean.add_data(7);
  EXPECT_TRUE(Contains(BinaryError(folder.Put("mean.binaryproto", mean.SerializeAsString())),
                       "it is a single array (BlobProto), such as a mean image"));
}

TEST(ProtoIoTest, BadTextFilesAreNamedWithACure) {
  TemporaryFolder folder;
  EXPECT_EQ(ErrorOf([] { ReadNetParameter("no/such.prototxt"); }),
            "File not found: no/such.prototxt");
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"", "empty"},
      {WithBlob(1000).SerializeAsString(), "it is binary"},
      {std::string("n\0a\0m\0e\0", 8), "it is binary"},
      {"layer {", "line 1"},
  };
  for (const auto& [content, expected] : cases) {
    const std::string path = folder.Put("x.prototxt", content);
    const std::string error = ErrorOf([&] { ReadNetParameter(path); });
    EXPECT_TRUE(Contains(error, path) && Contains(error, expected)) << expected << ": " << error;
  }
}

TEST(ProtoIoTest, PipesAreRead) {
  const TemporaryFolder folder;
  const NetParameter net = WithBlob(50000);
  {
    const Pipe pipe(folder / "weights", net.SerializeAsString());
    EXPECT_EQ(ReadNetParameterBinary(pipe.path()).SerializeAsString(), net.SerializeAsString());
  }
  const Pipe pipe(folder / "text", "name: 'piped'");
  EXPECT_EQ(ReadNetParameter(pipe.path()).name(), "piped");
}

TEST(ProtoIoTest, DevicesAndEndlessPipesAreErrors) {
  const TemporaryFolder folder;
  const Pipe hdf5(folder / "hdf5", "\x89HDF\r\n\x1a\n and so on");
  EXPECT_TRUE(Contains(BinaryError(hdf5.path()), "cannot be read from a pipe"));
  EXPECT_TRUE(Contains(BinaryError("/dev/zero"), "/dev/zero is a device, not a file"));
  EXPECT_TRUE(Contains(ErrorOf([] { ReadNetParameter("/dev/zero"); }),
                       "/dev/zero is a device, not a file"));
  const Pipe yes(folder / "yes", std::string(1 << 16, 'y'), true);
  EXPECT_TRUE(Contains(BinaryError(yes.path()), "it is text"));
  const Pipe zeros(folder / "zeros", std::string(1 << 16, '\0'), true);
  const std::string binary = BinaryError(zeros.path());
  EXPECT_TRUE(Contains(binary, zeros.path()) && Contains(binary, "its first byte is zero"));
  const Pipe more(folder / "more", std::string(1 << 16, '\0'), true);
  const std::string text = ErrorOf([&] { ReadNetParameter(more.path()); });
  EXPECT_TRUE(Contains(text, more.path()) && Contains(text, "it is binary"));
}

TEST(ProtoIoTest, MillionsOfEmptyLayersAreAnError) {
  const TemporaryFolder folder;
  for (const std::string layer : {std::string("\xa2\x06\0", 3), std::string("\x12\0", 2)}) {
    std::string bytes;
    for (int i = 0; i <= 1 << 17; ++i) bytes += layer;
    const std::string path = folder.Put("x.caffemodel", bytes);
    EXPECT_TRUE(Contains(BinaryError(path), path + ": it has more than 131072 layers"));
    EXPECT_TRUE(Contains(ErrorOf([&] { WeightsFile file(path); }), "more than 131072 layers"));
  }
}

// Files with holes, which have no bytes on the disk.
TEST(ProtoIoTest, LargeFilesOfAnotherKindAreNotReadWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.Put("x", std::string(2, '\0'));
  if (truncate(path.c_str(), 1000000000) != 0) GTEST_SKIP() << "no sparse files here";
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNetParameter(path); }), "it is binary"));
  EXPECT_TRUE(Contains(BinaryError(path), "its first byte is zero"));
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadNetParameter(path); }),
                       path + " has 1099511627776 bytes; at most 1073741824 are read"));
}

// A sparse file stands for weights beyond protobuf's limit.
TEST(ProtoIoTest, MoreThanTwoGigabytesIsAClearError) {
  TemporaryFolder folder;
  const std::string path = folder.Put("x.caffemodel", "x");
  if (truncate(path.c_str(), off_t{3} << 30) != 0) GTEST_SKIP() << "no sparse files here";
  const std::string error = BinaryError(path);
  EXPECT_TRUE(Contains(error, path) && Contains(error, "2 GiB")) << error;
}

std::string Delimited(int field, const std::string& bytes) {
  const int tag = field << 3 | 2;
  std::string out{static_cast<char>(tag | 0x80), static_cast<char>(tag >> 7)};
  size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) out.push_back(static_cast<char>(length | 0x80));
  out.push_back(static_cast<char>(length));
  return out + bytes;
}

// Intel's engine string has the number of the OpenCL fork's affinity_param.
TEST(ProtoIoTest, WeightsOfIntelCaffeLoad) {
  TemporaryFolder folder;
  for (const std::string engine : {"CAFFE", "MKLDNN", "MKL2017", "MKLDNN:CPU,DLA"}) {
    const std::string layer = WithBlob(300).layer(0).SerializeAsString() + Delimited(149, engine);
    const std::string path = folder.Put("x.caffemodel", Delimited(100, layer));
    ASSERT_FALSE(NetParameter().ParseFromString(folder.Get("x.caffemodel"))) << engine;
    const NetParameter net = ReadNetParameterBinary(path);
    EXPECT_EQ(net.layer(0).name(), "ip");
    EXPECT_EQ(net.layer(0).blobs(0).data_size(), 300);
  }
}

// NVIDIA's types (145 to 148) are numbers where messages are expected.
TEST(ProtoIoTest, WeightsOfNvidiaCaffeLoad) {
  TemporaryFolder folder;
  std::string layer = WithBlob(3).layer(0).SerializeAsString();
  for (const int field : {145, 146, 147, 148}) {
    const int tag = field << 3;
    layer += {static_cast<char>(tag | 0x80), static_cast<char>(tag >> 7), 2};
  }
  const NetParameter net =
      ReadNetParameterBinary(folder.Put("x.caffemodel", Delimited(100, layer)));
  EXPECT_EQ(net.layer(0).blobs(0).data_size(), 3);
  EXPECT_FALSE(net.layer(0).has_clip_param());
}

TEST(ProtoIoTest, MergeCropOfTheForkIsToldFromClip) {
  TemporaryFolder folder;
  MergeCropParameter crop;
  crop.set_operation(MergeCropParameter::ADD);
  crop.add_forward(true);
  crop.add_backward(false);
  LayerParameter layer;
  layer.set_type("MergeCrop");
  const NetParameter net = ReadNetParameterBinary(folder.Put(
      "x.caffemodel",
      Delimited(100, layer.SerializeAsString() + Delimited(148, crop.SerializeAsString()))));
  EXPECT_FALSE(net.layer(0).has_clip_param());
  EXPECT_EQ(net.layer(0).mergecrop_param().SerializeAsString(), crop.SerializeAsString());
}

}  // namespace
}  // namespace caffe
