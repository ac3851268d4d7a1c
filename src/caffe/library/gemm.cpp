#include "caffe/library/gemm.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

std::string GemmDescriptor::name() const {
  std::string text = in.name();
  if (!(in == out)) text += "/" + out.name();
  text += Concat(" ", trans_a ? "t" : "n", trans_b ? "t" : "n", " ", m, "x", n, "x", k);
  if (batch != 1) text += Concat(" batch ", batch);
  if (row_groups) text += Concat(" row groups ", row_groups);
  if (sums) text += " sums";
  return text + epilogue.name();
}

std::string GemmDescriptor::key() const {
  return Concat(name(), " ", row_a(), " ", row_b(), " ", row_c(), " ", batch_stride_a(), " ",
                batch_stride_b(), " ", batch_stride_c(), " ", static_cast<int>(weights()));
}

void GemmDescriptor::Check() const {
  constexpr int64_t kMax = INT32_MAX;
  CAFFE_CHECK(m > 0 && n > 0 && k >= 0 && batch > 0 && m <= kMax && n <= kMax && k <= kMax,
              "matrix product ", name(), ": sizes must be positive and below 2^31");
  CAFFE_CHECK(row_a() >= (trans_a ? m : k) && row_b() >= (trans_b ? k : n) && row_c() >= n,
              "matrix product ", name(), ": leading dimensions ", row_a(), ", ", row_b(), ", ",
              row_c(), " are smaller than the rows");
  CAFFE_CHECK(row_a() <= kMax && row_b() <= kMax && row_c() <= kMax, "matrix product ", name(),
              ": leading dimensions must be below 2^31");
  CAFFE_CHECK(stride_c != kShared || batch == 1, "matrix product ", name(),
              ": the products of a batch cannot share their result");
  epilogue.Check("matrix product " + name(), in);
  CAFFE_CHECK(batch == 1 || weights() == Weights::kNone ||
                  (weights() == Weights::kA ? batch_stride_a() : batch_stride_b()) == 0,
              "matrix product ", name(), ": the products of a batch must share their weights");
  CAFFE_CHECK(row_groups >= 0 && (row_groups == 0 || (batch == 1 && weights() == Weights::kB)),
              "matrix product ", name(), ": groups of rows need one product whose weights are B");
  CAFFE_CHECK(
      !sums || (in == kQuant8 && k <= kNarrowDepth && !row_groups && epilogue.stages.empty()),
      "matrix product ", name(), ": sums are those of codes of 8 bits, at most ", kNarrowDepth,
      " products each, and nothing follows them");
  if (quantized()) {
    CAFFE_CHECK(in == out || (in == kQuant8 && out == kFloat), "matrix product ", name(),
                ": sums of codes of type ", in.name(), " cannot be stored as ", out.name());
    CAFFE_CHECK(in == out || epilogue.stages.empty(), "matrix product ", name(),
                ": no stages follow sums of codes that are stored as float");
    CAFFE_CHECK(epilogue.bias != Epilogue::Bias::kNone, "matrix product ", name(),
                ": a quantized product needs a bias along its channels");
    return;
  }
  const bool half_kind = in == kHalf || in == kBfloat16 || in.is_custom();
  CAFFE_CHECK(half_kind ? out == in || out == kFloat : (in == kFloat || in == kDouble) && out == in,
              "matrix product ", name(), ": sums of type ", in.name(), " cannot be stored as ",
              out.name());
  if (epilogue.bias != Epilogue::Bias::kNone) {
    CAFFE_CHECK(epilogue.bias_type == (in == kDouble ? kDouble : kFloat), "matrix product ", name(),
                ": the bias is ", epilogue.bias_type.name(), "; it must be ",
                in == kDouble ? "double" : "float");
  }
}

void GemmOp::CheckMemory(const GemmArguments& arguments) const {
  CAFFE_CHECK(arguments.prepared || prepared_bytes() == 0, "matrix product ", descriptor_.name(),
              ": ", library(), " computes with prepared weights; call Prepare first");
  CAFFE_CHECK(arguments.workspace || workspace_bytes() == 0, "matrix product ", descriptor_.name(),
              ": ", library(), " needs ", workspace_bytes(), " bytes of workspace");
}

void GemmOp::Run(const GemmArguments& arguments) {
  CAFFE_CHECK(descriptor_.quantized() == (arguments.quant != nullptr), "matrix product ",
              descriptor_.name(), ": QuantArguments belong to quantized types, and to these only");
  const char* missing =
      descriptor_.epilogue.Missing(arguments.epilogue, descriptor_.quantized(),
                                   arguments.quant && arguments.quant->negative_multiplier);
  CAFFE_CHECK(!missing, "matrix product ", descriptor_.name(), ": the array of the ", missing,
              " is missing");
  CAFFE_CHECK(static_cast<bool>(arguments.offsets) == (descriptor_.row_groups > 0),
              "matrix product ", descriptor_.name(),
              ": offsets belong to groups of rows, and to these only");
  arguments.c.CheckWritable();
  DoRun(arguments);
}

}  // namespace caffe
