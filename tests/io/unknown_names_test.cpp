#include "caffe/io/unknown_names.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "caffe.pb.h"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/ignored_fields.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

// The error about a net, or "".
std::string NetError(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.Put("net.prototxt", text);
  const std::string error = ErrorOf([&] {
    ReadNetParameter(path, [](const std::string& type) {
      return type == "Convolution" || type == "Pooling" || type == "ReLU" || type == "Input";
    });
  });
  const std::string begin = "Failed to parse NetParameter file: " + path + ": ";
  return error.starts_with(begin) ? error.substr(begin.size()) : error;
}

TEST(UnknownNamesTest, OneMessageListsEverything) {
  EXPECT_EQ(NetError("name: 'ssd'\n"                                                     // 1
                     "layer { name: 'conv' type: 'Convolution'\n"                        // 2
                     "  convolution_param { num_ouput: 8 kernel_size: 3 } }\n"           // 3
                     "layer {\n"                                                         // 4
                     "  name: \"corr\" type: \"Correlation\"\n"                          // 5
                     "  correlation_param { pad: 4\n"                                    // 6
                     "               scale_filler { type: \"constant\" value: 20 } }\n"  // 7
                     "}\n"                                                               // 8
                     "layer { name: 'crf1' type: 'DenseCRF'\n"                           // 9
                     "  dense_crf_param { max_iter: 30 weight: [0.1, 0.2] } }\n"         // 10
                     "layer { name: 'crf2' type: 'DenseCRF' }\n"                         // 11
                     "layer { name: 'norm' type: 'MVN' }\n"                              // 12
                     "layer { name: 'odd' type: 'Whatsit' whatsit_param { a: 1 } }\n"    // 13
                     "layer { name: 'pool' type: 'Pooling'\n"                            // 14
                     "  pooling_param { pool: LP } }\n"                                  // 15
                     "colour: 'red'\n"),                                                 // 16
            "8 unknown names:\n"
            "  line 3: layer conv (Convolution): ConvolutionParameter has no field \"num_ouput\"; "
            "did you mean \"num_output\"?\n"
            "  line 4: layer corr (Correlation): unknown type with correlation_param\n"
            "  line 9: layer crf1 (DenseCRF): unknown type with dense_crf_param\n"
            "  line 11: layer crf2 (DenseCRF): unknown type\n"
            "  line 12: layer norm (MVN): unknown type\n"
            "  line 13: layer odd (Whatsit): unknown type with whatsit_param\n"
            "  line 15: layer pool (Pooling): PoolingParameter.pool has no value LP; it has MAX, "
            "AVE, STOCHASTIC\n"
            "  line 16: NetParameter has no field \"colour\"\n" +
                DescribeForeignLayer("Correlation") + "\n" + DescribeForeignLayer("DenseCRF") +
                "\n" + DescribeForeignLayer("MVN") +
                "\n`caffe layers` lists all types; write a missing one in Python (docs/python.md, "
                "\"Layers in Python\")");
}

TEST(UnknownNamesTest, ASingleOneIsOneLine) {
  EXPECT_EQ(NetError("layer {\n  name: \"c\"\n  convolution_param { kernel_sizes: 3 }\n}\n"),
            "line 3: layer c: ConvolutionParameter has no field \"kernel_sizes\"; did you mean "
            "\"kernel_size\"?");
  EXPECT_EQ(NetError("layer { type: 'Convolution'\n convolution_param { relu: true } }"),
            "line 2: a layer of type Convolution: ConvolutionParameter has no field \"relu\"; "
            "relu: a field of Intel Caffe, not in Cortado; write a ReLU layer after it");
  EXPECT_EQ(NetError("layer { name: 'p' type: 'DenseCRF'\n dense_crf_param { } }"),
            "line 1: layer p (DenseCRF): unknown type with dense_crf_param; DenseCRF: a layer of "
            "DeepLab, not in Cortado; write it as a layer in Python (docs/python.md, \"Layers in "
            "Python\")");
}

// The phase may leave such layers out, which is known later.
TEST(UnknownNamesTest, UnknownTypesAloneAreNoErrorOfTheFile) {
  EXPECT_EQ(NetError("layer { name: 'l' type: 'MVN' mvn_param { eps: 2 } }"), "");
}

// Without a list of types, types of the program's own layers would look unknown.
TEST(UnknownNamesTest, WithoutAListNoTypeIsUnknown) {
  NetParameter net;
  EXPECT_EQ(ErrorOf([&] {
              ParseTextProto("layer { name: 'l' type: 'MVN' }\nxyzzy_plugh: 1", "n", &net);
            }),
            "Failed to parse NetParameter file: n: line 2: NetParameter has no field "
            "\"xyzzy_plugh\"");
}

TEST(UnknownNamesTest, LayersOfNestedNetsAreNamed) {
  EXPECT_EQ(NetError("layer { name: 'outer' type: 'ReLU' moe_param { expert_net {\n"
                     "  layer { name: 'inner' type: 'ReLU' relu_param { slope: 1 } } } }\n"
                     "  relu_param { angle: 2 } }"),
            "2 unknown names:\n"
            "  line 2: layer inner (ReLU): ReLUParameter has no field \"slope\"\n"
            "  line 3: layer outer (ReLU): ReLUParameter has no field \"angle\"");
}

TEST(UnknownNamesTest, CommentsAndStringsAreNoLayers) {
  EXPECT_EQ(NetError("# layer { name: 'x'\nname: \"layer { type: 'MVN' }\"\n"
                     "layer: < type: 'ReLU' # MVN {\n name: 'r' >\nother: 1\n"),
            "line 5: NetParameter has no field \"other\"");
}

TEST(UnknownNamesTest, ValuesOfEnumerations) {
  EXPECT_EQ(NetError("layer { name: 'p' pooling_param { pool: MAXX } }"),
            "line 1: layer p: PoolingParameter.pool has no value MAXX; it has MAX, AVE, "
            "STOCHASTIC; did you mean MAX?");
  EXPECT_EQ(NetError("layers { name: 'p'\n type: CONVOLUTOIN }"),
            "line 2: layer p (CONVOLUTOIN): V1LayerParameter.type has no value CONVOLUTOIN; did "
            "you mean CONVOLUTION?");
  EXPECT_EQ(NetError("layer { name: 'l'\n loss_param { normalization: 7 } }\nstate { phase: RUN }"),
            "2 unknown names:\n"
            "  line 2: layer l: LossParameter.normalization has no value 7; it has FULL, VALID, "
            "BATCH_SIZE, NONE, PRE_FIXED\n"
            "  line 3: NetState.phase has no value RUN; it has TRAIN, TEST");
}

TEST(UnknownNamesTest, AnErrorOfSyntaxComesLast) {
  EXPECT_EQ(NetError("layer { name: 'c' colour: 1 }\nlayer { name: }\n"),
            "line 1: layer c: LayerParameter has no field \"colour\"\n"
            "line 2: Expected string, got: }");
}

TEST(UnknownNamesTest, SolversAreNoNetsAndNetsAreNoSolvers) {
  EXPECT_TRUE(Contains(NetError("net: 'a.prototxt'\nbase_lr: 0.1\nlr_policy: 'fixed'"),
                       "it is a solver file, but a net is expected here"));
  SolverParameter solver;
  const std::string error = ErrorOf([&] {
    ParseTextProto("name: 'x' layer { name: 'd' type: 'Input' }", "net.prototxt", &solver);
  });
  EXPECT_TRUE(Contains(error, "it is a net, but a solver file is expected here")) << error;
}

TEST(UnknownNamesTest, FieldsOfSolvers) {
  SolverParameter solver;
  const auto error = [&](const std::string& text) {
    return ErrorOf([&] { ParseTextProto(text, "solver.prototxt", &solver); });
  };
  EXPECT_TRUE(Contains(error("net: 'n'\nbase_rl: 1"),
                       "line 2: SolverParameter has no field \"base_rl\"; did you mean "
                       "\"base_lr\"?"))
      << error("net: 'n'\nbase_rl: 1");
  EXPECT_TRUE(Contains(error("warmup_iter: 5"), "warmup_iter: a field of Intel Caffe"));
  EXPECT_TRUE(Contains(error("snapshot_format: HDF"), "it has HDF5, BINARYPROTO"));
}

// Rows of the table.

TEST(ForeignNamesTest, LayersAreNotInTheRegistry) {
  std::set<std::string_view> types;
  for (const ForeignLayer& layer : ForeignLayers()) {
    EXPECT_FALSE(LayerRegistry::Get().Has(std::string(layer.type)))
        << layer.type << " is here now: take its row out of foreign_names.cpp, and its name out of "
        << "docs/differences.md";
    EXPECT_TRUE(types.insert(layer.type).second) << layer.type << " has two rows";
    EXPECT_FALSE(layer.origin.empty() || layer.advice.empty()) << layer.type;
    EXPECT_EQ(LayerParameter::descriptor()->FindFieldByName(std::string(layer.field)), nullptr)
        << layer.field << " parses";
  }
}

// The lists of missing layers in docs/differences.md are the rows of their origins.
TEST(ForeignNamesTest, TheDocumentsListThem) {
  const std::string page = ReadFile(CAFFE_SOURCE_DIR "/docs/differences.md");
  for (const auto& [title, origin] : std::map<std::string, std::string>{
           {"* Layers of BVLC Caffe: ", "BVLC Caffe"},
           {"* Layers of the OpenCL fork: ", "the OpenCL fork of Caffe"},
           {"* Layers of SSD: ", "SSD"}}) {
    const size_t begin = page.find(title);
    ASSERT_NE(begin, page.npos) << title;
    const std::string line = page.substr(begin, page.find_first_of(".;", begin) - begin);
    std::set<std::string> said, known;
    for (size_t at = line.find('`'); at != line.npos; at = line.find('`', at + 1)) {
      const size_t end = line.find('`', at + 1);
      said.insert(line.substr(at + 1, end - at - 1));
      at = end;
    }
    for (const ForeignLayer& layer : ForeignLayers()) {
      if (layer.origin == origin) known.emplace(layer.type);
    }
    EXPECT_EQ(said, known) << title;
  }
}

// The section that the advice names exists.
TEST(ForeignNamesTest, TheAdviceLeadsSomewhere) {
  EXPECT_NE(ReadFile(CAFFE_SOURCE_DIR "/docs/python.md").find("\n## Layers in Python\n"),
            std::string::npos);
}

TEST(ForeignNamesTest, FieldsAreUnknownOnesThatAreNotIgnored) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const ForeignField& field : ForeignFields()) {
    const auto* message = pool->FindMessageTypeByName(std::string(field.message));
    ASSERT_NE(message, nullptr) << field.message;
    EXPECT_EQ(message->FindFieldByName(std::string(field.field)), nullptr)
        << field.message << "." << field.field;
    EXPECT_EQ(IgnoredFieldNote(field.message, field.field), "")
        << field.message << "." << field.field;
  }
}

}  // namespace
}  // namespace caffe
