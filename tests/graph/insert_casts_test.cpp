#include <gtest/gtest.h>

#include <set>

#include "caffe/core/type_registry.hpp"
#include "caffe/core/value_table.hpp"
#include "caffe/graph/passes.hpp"
#include "graph/graph_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string Cast(const std::string& text) {
  return Wiring(InsertCasts(AssignTypes(ParseNet(text))));
}

const char* const kData = "layer { name: 'data' type: 'Input' top: 'data' } ";

TEST(InsertCastsTest, OneTypeNeedsNone) {
  const std::string net =
      std::string(kData) + "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } ";
  EXPECT_EQ(Cast("data_type: CAFFE_HALF " + net),
            "data (Input) -> data half\n"
            "ip (InnerProduct) data -> ip half\n");
}

TEST(InsertCastsTest, ReadersOfOneTypeShareACast) {
  EXPECT_EQ(
      Cast(std::string(kData) + "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
                                "        compute_data_type: CAFFE_HALF } "
                                "layer { name: 'b' type: 'InnerProduct' bottom: 'data' top: 'b' "
                                "        compute_data_type: CAFFE_HALF } "
                                "layer { name: 'c' type: 'InnerProduct' bottom: 'data' top: 'c' "
                                "        compute_data_type: CAFFE_DOUBLE }"),
      "data (Input) -> data\n"
      "data_as_half (Quantizer) data -> data_as_half float/float/half\n"
      "a (InnerProduct) data_as_half -> a half\n"
      "b (InnerProduct) data_as_half -> b half\n"
      "data_as_double (Quantizer) data -> data_as_double double/float/double\n"
      "c (InnerProduct) data_as_double -> c double\n");
}

TEST(InsertCastsTest, ALossReadsItsScoresCastAndItsLabelsAsTheyAre) {
  EXPECT_EQ(Cast("layer { name: 'data' type: 'Input' top: 'data' top_data_type: CAFFE_HALF } "
                 "layer { name: 'label' type: 'Input' top: 'label' } "
                 "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                 "        compute_data_type: CAFFE_HALF } "
                 "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
                 "        top: 'loss' }"),
            "data (Input) -> data half\n"
            "label (Input) -> label\n"
            "ip (InnerProduct) data -> ip half\n"
            "ip_as_float (Quantizer) ip -> ip_as_float float/half/float\n"
            "loss (SoftmaxWithLoss) ip_as_float, label -> loss\n");
}

TEST(InsertCastsTest, ALabelIsCastForThoseWhoReadItAsNumbers) {
  EXPECT_EQ(Cast("data_type: CAFFE_BFLOAT16 "
                 "layer { name: 'data' type: 'Input' top: 'x' top: 'y' } "
                 "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' } "
                 "layer { name: 'target' type: 'EuclideanLoss' bottom: 'x' bottom: 'y' }"),
            "data (Input) -> x, y:float bfloat16\n"
            "loss (SoftmaxWithLoss) x, y -> bfloat16\n"
            "y_as_bfloat16 (Quantizer) y -> y_as_bfloat16 float/float/bfloat16\n"
            "target (EuclideanLoss) x, y_as_bfloat16 -> bfloat16\n");
}

TEST(InsertCastsTest, LabelsOfASourceAreMadeAsTheyAre) {
  EXPECT_EQ(Cast("layer { name: 'data' type: 'Data' top: 'x' top: 'y' "
                 "        compute_data_type: CAFFE_HALF top_data_type: CAFFE_BFLOAT16 } "
                 "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' "
                 "        compute_data_type: CAFFE_BFLOAT16 }"),
            "data (Data) -> x, y:float bfloat16\n"
            "loss (SoftmaxWithLoss) x, y -> bfloat16\n");
}

TEST(InsertCastsTest, ATopOfAnotherTypeIsCastBehindTheLayer) {
  EXPECT_EQ(Cast(std::string(kData) +
                 "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                 "        compute_data_type: CAFFE_FLOAT top_data_type: CAFFE_HALF } "
                 "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'out' "
                 "        compute_data_type: CAFFE_HALF }"),
            "data (Input) -> data\n"
            "ip (InnerProduct) data -> ip_in_float\n"
            "ip_from_ip_in_float (Quantizer) ip_in_float -> ip float/float/half\n"
            "relu (ReLU) ip -> out half\n");
}

// quant8 -> float -> quant8 is nothing; so are half -> float -> half and the like.
TEST(InsertCastsTest, APairThatCancelsIsLeftOut) {
  const auto chain = [](const std::string& type, const std::string& layer = "InnerProduct") {
    return std::string(kData) + "layer { name: 'a' type: '" + layer +
           "' bottom: 'data' top: 'a' compute_data_type: " + type +
           " top_data_type: CAFFE_FLOAT } " +
           "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' compute_data_type: " +
           type + " bottom_data_type: CAFFE_FLOAT } " +
           "layer { name: 'c' type: 'Softmax' bottom: 'a' top: 'c' compute_data_type: CAFFE_FLOAT "
           "}";
  };
  EXPECT_EQ(Cast(chain("CAFFE_INT16_QUANTIZED")),
            "data (Input) -> data\n"
            "data_as_quant16 (Quantizer) data -> data_as_quant16 float/float/quant16\n"
            "a (InnerProduct) data_as_quant16 -> a_in_quant16 quant16\n"
            "a_from_a_in_quant16 (Quantizer) a_in_quant16 -> a float/quant16/float\n"
            "b (InnerProduct) a_in_quant16 -> b quant16\n"
            "c (Softmax) a -> c\n");
  // Inner products of 8 bits store float themselves.
  EXPECT_EQ(Cast(chain("CAFFE_INT8_QUANTIZED")),
            "data (Input) -> data\n"
            "data_as_quant8 (Quantizer) data -> data_as_quant8 float/float/quant8\n"
            "a (InnerProduct) data_as_quant8 -> a quant8/quant8/float\n"
            "a_as_quant8 (Quantizer) a -> a_as_quant8 float/float/quant8\n"
            "b (InnerProduct) a_as_quant8 -> b quant8\n"
            "c (Softmax) a -> c\n");
  EXPECT_TRUE(
      Holds(Cast(chain("CAFFE_HALF", "Softmax")), "b (InnerProduct) a_in_half -> b half\n"));
}

TEST(InsertCastsTest, APairThatLosesDigitsStays) {
  EXPECT_TRUE(
      Holds(Cast(std::string(kData) +
                 "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
                 "        compute_data_type: CAFFE_FLOAT top_data_type: CAFFE_INT8_QUANTIZED } "
                 "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
                 "        compute_data_type: CAFFE_FLOAT }"),
            "a_as_float (Quantizer) a -> a_as_float float/quant8/float\n"
            "b (InnerProduct) a_as_float -> b\n"));
}

// A blob that a layer changes in place is no longer the one that was cast.
TEST(InsertCastsTest, AnInPlaceWriterEndsAPair) {
  EXPECT_TRUE(
      Holds(Cast(std::string(kData) +
                 "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
                 "        compute_data_type: CAFFE_INT8_QUANTIZED top_data_type: CAFFE_FLOAT } "
                 "layer { name: 'relu' type: 'ReLU' bottom: 'a' top: 'a' } "
                 "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
                 "        compute_data_type: CAFFE_INT8_QUANTIZED }"),
            "a_as_quant8 (Quantizer) a -> a_as_quant8 float/float/quant8\n"
            "b (InnerProduct) a_as_quant8 -> b quant8\n"));
}

// A cast is of one version of a blob.
TEST(InsertCastsTest, AnInPlaceWriterMakesCastsStale) {
  // Two casts with different names: one name would be two tops.
  const TypedNet net = InsertCasts(
      AssignTypes(ParseNet(std::string(kData) +
                           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' } "
                           "layer { name: 'before' type: 'InnerProduct' bottom: 'ip' top: 'before' "
                           "        compute_data_type: CAFFE_HALF } "
                           "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
                           "layer { name: 'after' type: 'InnerProduct' bottom: 'ip' top: 'after' "
                           "        compute_data_type: CAFFE_HALF }")));
  const std::string wiring = Wiring(net);
  std::set<std::string> casts;
  int count = 0;
  for (const TypedLayer& typed : net.layers) {
    const LayerParameter& layer = typed.layer;
    if (!typed.added) continue;
    EXPECT_EQ(layer.type(), "Quantizer");
    ++count;
    casts.insert(layer.name());
    casts.insert(layer.top(0));
    EXPECT_EQ(layer.bottom(0), "ip");
  }
  EXPECT_EQ(count, 2) << wiring;
  EXPECT_EQ(casts.size(), 2u) << wiring;
}

TEST(InsertCastsTest, InPlaceOnABlobOfAnotherTypeIsAnError) {
  const std::string message = MessageOf([] {
    Cast(std::string(kData) +
         "layer { name: 'relu' type: 'ReLU' bottom: 'data' top: 'data' "
         "        compute_data_type: CAFFE_HALF }");
  });
  for (const char* part : {"relu (ReLU)", "blob data", "float", "half", "a top of its own"}) {
    EXPECT_TRUE(Holds(message, part));
  }
}

TEST(InsertCastsTest, AUsersQuantizerIsTheUsers) {
  const TypedNet net =
      InsertCasts(TypedOf(std::string(kData) +
                          "layer { name: 'mine' type: 'Quantizer' bottom: 'data' top: 'half' "
                          "        top_data_type: CAFFE_HALF } "
                          "layer { name: 'relu' type: 'ReLU' bottom: 'half' top: 'relu' "
                          "        compute_data_type: CAFFE_DOUBLE }"));
  ASSERT_EQ(net.layers.size(), 4u) << Wiring(net);
  EXPECT_FALSE(net.layers[1].added);
  EXPECT_TRUE(net.layers[2].added);
}

// Element-wise layers load and store float kinds themselves, and products store float.
TEST(InsertCastsTest, EdgesOfLayersNeedNoCast) {
  const std::string body =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "        compute_data_type: CAFFE_HALF top_data_type: CAFFE_FLOAT } "
      "layer { name: 'narrow' type: 'ReLU' bottom: 'ip' top: 'narrow' "
      "        bottom_data_type: CAFFE_FLOAT top_data_type: CAFFE_HALF } "
      "layer { name: 'wide' type: 'TanH' bottom: 'narrow' top: 'wide' } "
      "layer { name: 'between' type: 'TanH' bottom: 'narrow' top: 'between' "
      "        top_data_type: CAFFE_BFLOAT16 } "
      "layer { name: 'double' type: 'TanH' bottom: 'narrow' top: 'double' "
      "        compute_data_type: CAFFE_DOUBLE } ";
  const TypedNet net = InsertCasts(TypedOf(std::string(kData) + body));
  EXPECT_EQ(Wiring(net),
            "data (Input) -> data\n"
            "data_as_half (Quantizer) data -> data_as_half float/float/half\n"
            "ip (InnerProduct) data_as_half -> ip half/half/float\n"
            "narrow (ReLU) ip -> narrow float/float/half\n"
            "wide (TanH) narrow -> wide float/half/float\n"
            "narrow_as_bfloat16 (Quantizer) narrow -> narrow_as_bfloat16 float/half/bfloat16\n"
            "between (TanH) narrow_as_bfloat16 -> between bfloat16\n"
            "narrow_as_double (Quantizer) narrow -> narrow_as_double double/half/double\n"
            "double (TanH) narrow_as_double -> double double\n");
  // Without them: after ip, after narrow, and before wide.
  EXPECT_EQ(net.casts_omitted, 3);
  // Backward passes need equal types.
  const std::string training =
      Wiring(InsertCasts(TypedOf("force_backward: true " + std::string(kData) + body)));
  EXPECT_TRUE(Holds(training, "ip (InnerProduct) data_as_half -> ip_in_half half\n"));
  EXPECT_TRUE(Holds(training, "narrow (ReLU) ip -> narrow_in_float\n"));
}

// Two types of one number in caffe.proto are two types.
TEST(InsertCastsTest, TypesThatAUserAddedAreCast) {
  const auto add = [](const char* name) {
    TypeInfo info;
    info.name = name;
    info.kind = TypeKind::kCustom;
    info.bits = 8;
    info.to_float = info.from_float = "v";
    info.make_table = [] { return nullptr; };  // not called here
    return AddDataType(info);
  };
  const DataType wide = add("casts_wide"), narrow = add("casts_narrow");
  ASSERT_NE(wide, narrow);
  EXPECT_EQ(
      Cast(std::string(kData) + "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
                                "        compute_data_type: CAFFE_CUSTOM "
                                "        compute_data_type_name: 'casts_wide' } "
                                "layer { name: 'b' type: 'ReLU' bottom: 'a' top: 'b' "
                                "        compute_data_type: CAFFE_CUSTOM "
                                "        compute_data_type_name: 'casts_narrow' "
                                "        top_data_type: CAFFE_HALF } "
                                "layer { name: 'c' type: 'ReLU' bottom: 'a' top: 'c' "
                                "        compute_data_type: CAFFE_CUSTOM "
                                "        compute_data_type_name: 'casts_wide' }"),
      "data (Input) -> data\n"
      "data_as_casts_wide (Quantizer) data -> data_as_casts_wide float/float/casts_wide\n"
      "a (InnerProduct) data_as_casts_wide -> a casts_wide\n"
      "a_as_casts_narrow (Quantizer) a -> a_as_casts_narrow "
      "float/casts_wide/casts_narrow\n"
      "b (ReLU) a_as_casts_narrow -> b_in_casts_narrow casts_narrow\n"
      "b_from_b_in_casts_narrow (Quantizer) b_in_casts_narrow -> b "
      "float/casts_narrow/half\n"
      "c (ReLU) a -> c casts_wide\n");
  // Two readers: the split has the type, too.
  const TypedNet split = InsertSplits(InsertCasts(
      TypedOf("data_type: CAFFE_CUSTOM data_type_name: 'casts_wide' " + std::string(kData) +
              "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' } "
              "layer { name: 'b' type: 'ReLU' bottom: 'data' top: 'b' }")));
  ASSERT_EQ(split.layers.size(), 4u) << Wiring(split);
  EXPECT_EQ(split.layers[1].types, TypeTriple::Equal(wide));
}

}  // namespace
}  // namespace caffe
