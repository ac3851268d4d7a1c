#include "caffe/layer/operator_layer.hpp"

#include <utility>

namespace caffe {

std::shared_ptr<OperatorWeights> OperatorLayer::MakeWeights(OperatorWeights::Source source,
                                                            const WorkRequest& request) const {
  source.maps = request.maps;
  for (const Epilogue::Stage& stage : request.stages) {
    if (const auto* activation = std::get_if<ElementFunction>(&stage))
      source.activation = *activation;
  }
  source.slopes = request.slopes;
  return std::make_shared<OperatorWeights>(std::move(source), types().compute, device());
}

Epilogue OperatorLayer::EpilogueOf(const WorkRequest& request) {
  Epilogue epilogue;
  epilogue.stages = request.stages;
  if (request.slopes && request.slopes->count() > 1) epilogue.slopes = Epilogue::Bias::kPerRow;
  return epilogue;
}

void OperatorLayer::SetRanges(const WorkRequest& request, OperatorWeights* weights) const {
  const auto top = [this](const NodeRanges& of) { return Observed(types().out, of.top, 0, "top"); };
  const auto summand = [&](int bottom) {
    return Observed(types().out, request.sum->bottom, bottom, "bottom");
  };
  const QuantRange in = BottomRange(0), out = top(*request.last);
  for (const Epilogue::Stage& stage : request.stages) {
    const auto* sum = std::get_if<ResidualSum>(&stage);
    if (!sum) continue;
    const QuantRange own = summand(1 - request.residual_bottom);
    weights->SetSum(CodeSum::Make(own, summand(request.residual_bottom), sum->coefficient,
                                  top(*request.sum), out));
    weights->SetRanges(in, own);
    return;
  }
  weights->SetRanges(in, out);
}

Epilogue OperatorLayer::Completed(Epilogue epilogue, Epilogue::Bias axis,
                                  const OperatorWeights& weights) const {
  epilogue.bias = weights.has_bias() ? axis : Epilogue::Bias::kNone;
  epilogue.bias_type = master_type();
  if (epilogue.slopes != Epilogue::Bias::kNone) epilogue.slopes = axis;
  return epilogue;
}

}  // namespace caffe
