#include "caffe/calibration/quantize_net.hpp"

#include <google/protobuf/text_format.h>

#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"
#include "quantization.hpp"

namespace caffe {

QuantizedNet QuantizeNet(const NetParameter& model, const NetParameter& weights,
                         const BatchReader& read, const QuantizeOptions& options) {
  return Quantization(model, weights, read, options).Run();
}

std::vector<std::string> QuantizedNetExtensions() {
  return {".caffemodel", ".prototxt", ".json", ".html"};
}

void WriteQuantizedNet(const QuantizedNet& net, const std::string& prefix) {
  AtomicFile weights(prefix + ".caffemodel"), model(prefix + ".prototxt"), json(prefix + ".json"),
      html(prefix + ".html");
  weights.Write(net.weights->SerializeAsString());
  std::string text;
  CAFFE_CHECK(google::protobuf::TextFormat::PrintToString(*net.model, &text), "cannot write ",
              prefix, ".prototxt: the net cannot be printed as text");
  model.Write(text);
  json.Write(ReportJson(net.report));
  html.Write(ReportHtml(net.report));
  AtomicFile::CommitTogether({&weights, &model, &json, &html});
}

}  // namespace caffe
