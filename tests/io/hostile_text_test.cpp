// Unusual texts: each is read or refused, soon, with an error that is short.
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <ctime>

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/io/text_scan.hpp"
#include "caffe/io/unknown_names.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

bool Has(const std::string& type) { return type == "ReLU" || type == "Pooling"; }

// Reads a net as Net(path) does. Returns the error without its first words, or "".
std::string NetError(const std::string& text, std::vector<int>* lines = nullptr) {
  const TemporaryFolder folder;
  const std::string path = folder.Put("net.prototxt", text);
  std::vector<int> own_lines;
  std::vector<OptionalName> optional;
  const std::string error =
      ErrorOf([&] { ReadNetParameter(path, Has, lines ? lines : &own_lines, &optional); });
  const std::string begin = "Failed to parse NetParameter file: " + path + ": ";
  return error.starts_with(begin) ? error.substr(begin.size()) : error;
}

TEST(HostileTextTest, AMessageWithoutAName) {
  EXPECT_EQ(NetError("layer { {"), "line 1: Expected identifier, got: {");
  EXPECT_EQ(NetError("layer {\n name: 'a' { {"), "line 2: Expected identifier, got: {");
  for (const std::string text :
       {"layer { layer } {", "layer { a { layer } { } {", "layers { < layer {", "{ layer {",
        "layer } layer { {", "layer: [ { }, { {", "layer: [ ] {", "layer [ layer ] {", "}", "]",
        "layer: ", "layer { name: '", "layer { name: \"\\", "layer { #", "# layer { {"}) {
    SCOPED_TRACE(text);
    EXPECT_NO_FATAL_FAILURE(NetError(text + "\n"));
  }
}

TEST(HostileTextTest, AMessageWithoutANameIsNoLayer) {
  const std::vector<TextLayer> layers = FindLayers("layer { { { name: 'x' } } }");
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].end, 26u);
  EXPECT_EQ(layers[0].name, "");
}

TEST(HostileTextTest, LayersInAListHaveLines) {
  std::vector<int> lines;
  EXPECT_EQ(NetError("layer: [\n {name: 'a' relu_param {}}, {\nname: 'b'}, # c\n <\nname: 'c'>]\n"
                     "layer {name: 'd'}",
                     &lines),
            "");
  EXPECT_EQ(lines, (std::vector<int>{1, 2, 3, 6}));
  EXPECT_EQ(NetError("layer: [{name: 'a'},\n {name: 'b' colour: 1}]"),
            "line 2: layer b: LayerParameter has no field \"colour\"");
}

// protobuf counts a tab as up to 8 columns.
TEST(HostileTextTest, NamesAreFoundBehindTabsAndBesideComments) {
  EXPECT_EQ(NetError("layer {\n\t\t\tname:\t'p' pooling_param { pool: LP } # LP\n}\n# LP\n"),
            "line 2: layer p: PoolingParameter.pool has no value LP; it has MAX, AVE, STOCHASTIC");
  EXPECT_EQ(NetError("layer { name: 'LP' pooling_param { pool: LP # LP 'LP\n # LP\n } }"),
            "line 1: layer LP: PoolingParameter.pool has no value LP; it has MAX, AVE, STOCHASTIC");
  EXPECT_EQ(NetError("layer {\n\t\t\t\tcolour: 1\n}\nname: 'colour'\n"),
            "line 2: a layer: LayerParameter has no field \"colour\"");
}

TEST(HostileTextTest, OtherEncodingsAreNamed) {
  EXPECT_EQ(NetError(std::string("\xff\xfen\0a\0", 6)), "it is UTF-16: save it as UTF-8");
  EXPECT_EQ(NetError(std::string("\xfe\xff\0n\0a", 6)), "it is UTF-16: save it as UTF-8");
  EXPECT_TRUE(Contains(NetError(std::string("name: 'a\0'", 10)), "it is binary"));
  EXPECT_EQ(NetError("\xef\xbb\xbf"), "");
  EXPECT_EQ(NetError("\xef\xbb\xbflayer { {"), "line 1: Expected identifier, got: {");
}

TEST(HostileTextTest, AnErrorIsNotAsLongAsTheFile) {
  const std::string name(200000, '9');
  for (const std::string& text : {"name: " + name, "layer { name: '" + name + "' colour: 1 }",
                                  "x" + name + ": 1", "layer { type: 'X' x" + name + ": 1 }",
                                  "layer { pooling_param { pool: X" + name + " } }"}) {
    const std::string error = NetError(text);
    EXPECT_GT(error.size(), 100u);
    EXPECT_LT(error.size(), 3000u) << error.substr(0, 100);
  }
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "x: 1\n";
  const std::string error = NetError(many);
  EXPECT_TRUE(error.starts_with("5000 unknown names:\n  line 1: ")) << error.substr(0, 100);
  EXPECT_TRUE(Contains(error, "\n  line 100: ")) << error;
  EXPECT_TRUE(error.ends_with("\n  and 4900 more")) << error;
}

// A megabyte of each is read or refused in much less than this; what is quadratic takes minutes.
TEST(HostileTextTest, AMegabyteOfAnythingEndsSoon) {
  constexpr size_t kBytes = 1 << 20;
  constexpr double kMostSeconds = 3;
  const struct {
    std::string begin, repeated, end;
  } cases[] = {{"", "{", ""},
               {"", "{ ] ", ""},
               {"", "layer {] ", ""},
               {"", "layer{}", ""},
               {"", "layers{}", ""},
               {"layer: [", "{name:'a'},", "{}]"},
               {"", "a:1 ", ""},
               {"", "a:1\n", ""},
               {"", "a:1\t", ""},
               {"", "layer{a:1}\n", ""},
               {"", "layer{include{} a:1} ", ""},
               {"", "layer{type:'X'} ", "a:1"},
               {"", "layer{type:'X' a:1}\n", ""},
               {"layer{type:'X' ", "a:1 ", "}"},
               {"", "layer{engine:'X'}\n", ""},
               {"", "layer{pooling_param{pool:A}}\n", ""},
               {"", "layer{include{} pooling_param{pool:A}} ", ""},
               {"layer{pooling_param{pool: A ", "\n#AAAA", "\n}}"},
               {"layer{pooling_param{pool: A ", "#AAAA", "\n}}"},
               {"name:", "'a'", ""},
               {"name: '", "\\033[31m", "'"},
               {"", "'\n", ""},
               {"", "\n", ""},
               {"", "a\n", ""},
               {"", "}\n", ""},
               {"", "[a.b]:1\n", ""},
               {"layer{pooling_param{", "kernel_size:1 ", "}}"},
               {"", "pooling_param{]kernel_size:[]", ""},
               {"", "input:'a' input_dim:1 input_dim:1 input_dim:1 input_dim:1 ", ""},
               {"", "layers{type:RELU}\n", ""},
               {"", "layers{layer{type:'relu'}}\n", ""},
               {"", "layers{layer{type:'padding'}}\n", ""},
               {"name: ", "9", ""}};
  for (const auto& [begin, repeated, end] : cases) {
    std::string text = begin;
    while (text.size() < kBytes) text += repeated;
    const std::clock_t start = std::clock();
    NetError(text + end);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, kMostSeconds) << begin << repeated << end;
  }
}

// The same for a message: a long name with many messages and unknown fields inside.
TEST(HostileTextTest, AMessageOfUnknownFieldsEndsSoon) {
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name(std::string(1 << 20, 'n'));
  for (int i = 0; i < 100000; ++i) layer->add_blobs();
  for (int i = 0; i < 100000; ++i) {
    net.GetReflection()->MutableUnknownFields(&net)->AddVarint(1000000 + i, 1);
    layer->GetReflection()->MutableUnknownFields(layer)->AddVarint(1000000 + i, 1);
  }
  const std::clock_t start = std::clock();
  const std::string error = ErrorOf([&] { ParseNetParameter(net.SerializeAsString(), "n"); });
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 3);
  EXPECT_TRUE(error.starts_with("n: 200000 unknown names:")) << error.substr(0, 100);
  EXPECT_LT(error.size(), 200000u);
}

}  // namespace
}  // namespace caffe
