#include "caffe/library/onednn/problem.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/onednn/invalid_flags.hpp"
#include "caffe/library/onednn/onednn_call.hpp"

namespace caffe::onednn {
namespace {

Dims With(int64_t first, int64_t second, const Shape& axes) {
  Dims dims{first, second};
  dims.insert(dims.end(), axes.begin(), axes.end());
  return dims;
}

bool PadsCopy(const ConvDescriptor& d, Element inner) {
  const ConvGeometry& g = d.geometry;
  if (inner != Element::bf16 || d.backward_data || d.backward_weights || d.group > 1) {
    return false;
  }
  const auto all = [](const Shape& extents, int64_t value) {
    return std::all_of(extents.begin(), extents.end(), [&](int64_t e) { return e == value; });
  };
  return g.axes() == 2 && all(g.kernel, 1) && all(g.stride, 1) && !all(g.pad, 0);
}

bool StoresBfloat16(const ConvDescriptor& d, Element inner) {
  return d.out == kBfloat16 && inner == Element::bf16;
}

bool HasBias(const ConvDescriptor& d) { return d.epilogue.bias != Epilogue::Bias::kNone; }

dnnl::primitive_attr ForwardAttributes(const ConvDescriptor& d, Element inner, bool relu) {
  dnnl::primitive_attr attributes = Attributes();
  dnnl::post_ops stages;
  if (AddsToY(d, inner)) stages.append_sum();
  if (relu) AppendReLU(&stages);
  if (stages.len() > 0) attributes.set_post_ops(stages);
  return attributes;
}

// A ReLU alone follows the convolution. Parts of a larger array are written by a pass, and so are
// half kinds that oneDNN does not store.
bool EndsWithReLU(const ConvDescriptor& d, Element inner) {
  const EpilogueStages rest(Rest(d, inner));
  const bool relu = rest.bounds() && rest.a() == 0 && std::isinf(rest.b());
  return relu && d.y_pitch == 0 && (d.out == kFloat || Stored(d, inner) == Element::bf16);
}

}  // namespace

Problem::Problem(const ConvDescriptor& d, Element inner)
    : element(inner),
      pads_copy(PadsCopy(d, inner)),
      x_dims(With(d.batch, d.in_channels, d.geometry.input)),
      y_dims(With(d.batch, d.out_channels, d.geometry.output())) {
  const ConvGeometry& g = d.geometry;
  const int axes = g.axes();
  const int64_t in = d.in_channels / d.group, out = d.out_channels / d.group;
  weight_dims = With(out, in, g.kernel);
  if (d.group > 1) weight_dims.insert(weight_dims.begin(), d.group);
  const Shape output = g.output();
  for (int i = 0; i < axes; ++i) {
    stride.push_back(g.stride[i]);
    dilation.push_back(g.dilation[i] - 1);
    left.push_back(g.pad[i]);
    const int64_t reach = (output[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1;
    right.push_back(reach - g.input[i] - g.pad[i]);
  }
  padded_dims = x_dims;
  if (!pads_copy) return;
  for (int i = 0; i < axes; ++i) padded_dims[i + 2] += left[i] + right[i];
}

Desc Problem::Weights(Element type) const {
  if (static_cast<int>(weight_dims.size()) == axes() + 2) {
    return Desc(weight_dims, type, axes() == 1 ? Tag::oiw : axes() == 2 ? Tag::oihw : Tag::oidhw);
  }
  return Desc(weight_dims, type, axes() == 1 ? Tag::goiw : axes() == 2 ? Tag::goihw : Tag::goidhw);
}

Description Problem::Describe(Element y_type, Element weight_type, bool bias) const {
  Description c;
  c.x = Desc(padded_dims, element, Plain(Layout::kNHWC, axes()));
  c.y = Y(y_type, Layout::kNHWC);
  c.weights = AnyWeights(weight_type);
  c.has_bias = bias;
  if (bias) c.bias = Desc({y_dims[1]}, Element::f32, Tag::x);
  c.stride = stride;
  c.dilation = dilation;
  c.pad_left = pads_copy ? Dims(left.size(), 0) : left;
  c.pad_right = pads_copy ? Dims(right.size(), 0) : right;
  return c;
}

bool AddsToY(const ConvDescriptor& d, Element inner) {
  const EpilogueStages stages(d.epilogue);
  return StoresBfloat16(d, inner) && d.y_layout == Layout::kNHWC && d.y_pitch == 0 &&
         stages.sums_first() && d.epilogue.sum()->coefficient == 1 && stages.clips();
}

Epilogue Rest(const ConvDescriptor& d, Element inner) {
  Epilogue rest = d.epilogue;
  rest.bias = Epilogue::Bias::kNone;
  if (AddsToY(d, inner)) {
    std::erase_if(rest.stages, [](const Epilogue::Stage& stage) {
      return std::holds_alternative<ResidualSum>(stage);
    });
  }
  return rest;
}

Element Stored(const ConvDescriptor& d, Element inner) {
  // Rounding does not change the order of numbers: bounds are exact after it.
  return StoresBfloat16(d, inner) && EpilogueStages(Rest(d, inner)).bounds() ? Element::bf16
                                                                             : Element::f32;
}

Plans PlanAll(const ConvDescriptor& d, const Problem& p) {
  const bool bias = HasBias(d);
  const auto attributes = Attributes();
  Plans plans;
  if (d.forward) {
    plans.forward = PlanForward(Engine(), p.Describe(Stored(d, p.element), p.element, bias), false,
                                ForwardAttributes(d, p.element, false));
  }
  if (!d.backward_data && !d.backward_weights) return plans;
  const auto hint =
      PlanForward(Engine(), p.Describe(p.element, p.element, false), true, attributes);
  if (d.backward_data) {
    plans.data =
        PlanBackwardData(Engine(), p.Describe(p.element, p.element, false), hint, attributes);
  }
  if (d.backward_weights) {
    plans.weights =
        PlanBackwardWeights(Engine(), p.Describe(p.element, Element::f32, false), hint, attributes);
  }
  return plans;
}

std::optional<ForwardPlan> PlanReLU(const ConvDescriptor& d, const Problem& p,
                                    const ForwardPlan& plain) {
  if (!kHasInvalidFlags || !EndsWithReLU(d, p.element)) return std::nullopt;
  Description description = p.Describe(Stored(d, p.element), p.element, HasBias(d));
  description.weights = plain.weights_desc();
  try {
    ForwardPlan plan =
        PlanForward(Engine(), description, false, ForwardAttributes(d, p.element, true));
    const bool same = std::string_view(plan.impl_info_str()) == plain.impl_info_str();
    if (same) return plan;
  } catch (const dnnl::error&) {
    // Computed by `plain` and a pass.
  }
  return std::nullopt;
}

}  // namespace caffe::onednn
