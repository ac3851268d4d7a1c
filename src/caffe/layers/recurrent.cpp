#include "recurrent.hpp"

#include <cmath>
#include <map>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "carried_state_layer.hpp"
#include "stored_state_layer.hpp"

namespace caffe {
namespace {

constexpr int64_t kMostSteps = 1 << 17;

}  // namespace

Recurrent::Builder::Builder(NetParameter* net, const LayerBase& layer) : net_(net), layer_(layer) {}

LayerParameter* Recurrent::Builder::Add(const std::string& type, const std::string& name,
                                        const std::vector<std::string>& bottoms,
                                        const std::vector<std::string>& tops) {
  LayerParameter* layer = net_->add_layer();
  layer->set_type(type);
  layer->set_name(name);
  for (const std::string& bottom : bottoms) layer->add_bottom(bottom);
  for (const std::string& top : tops) layer->add_top(top);
  return layer;
}

void Recurrent::Builder::Product(const std::string& name, const std::string& bottom,
                                 const std::string& top, int axis, int64_t outputs,
                                 const std::string& parameter, const std::string& bias) {
  LayerParameter* layer = Add("InnerProduct", name, {bottom}, {top});
  layer->add_param()->set_name(parameter);
  if (const DataType type = layer_.types().compute; type.is_quantized()) {
    layer->set_compute_data_type_name(type.name());
    layer->set_bottom_data_type_name(type.name());
    layer->set_top_data_type_name(kFloat.name());
  }
  InnerProductParameter* product = layer->mutable_inner_product_param();
  product->set_num_output(static_cast<uint32_t>(outputs));
  product->set_axis(axis);
  product->set_bias_term(!bias.empty());
  const RecurrentParameter& recurrent = layer_.layer_param().recurrent_param();
  *product->mutable_weight_filler() = recurrent.weight_filler();
  if (bias.empty()) return;
  layer->add_param()->set_name(bias);
  *product->mutable_bias_filler() = recurrent.bias_filler();
}

void Recurrent::Builder::Steps(const std::string& blob, int64_t steps, const std::string& type) {
  LayerParameter* slice = Add("Slice", blob + "_slice", {blob}, {});
  slice->mutable_slice_param()->set_axis(0);
  if (!type.empty()) slice->set_compute_data_type_name(type);
  for (int64_t t = 1; t <= steps; ++t) {
    slice->add_top(Concat(blob, "_", t));
    if (t < steps) slice->mutable_slice_param()->add_slice_point(static_cast<uint32_t>(t));
  }
}

LayerTraits Recurrent::Traits(int states) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = 3 + states;
  traits.max_top = 1 + states;
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.types.push_back(kQuant8);
  traits.float_ends = true;
  return traits;
}

void Recurrent::AppendParameters(std::vector<SubNet::Parameter>* parameters) const {
  parameters->push_back({joins_steps() ? "steps" : "transform_1", 0});
}

int64_t Recurrent::hidden() const { return layer_param().recurrent_param().num_output(); }

bool Recurrent::exposes_hidden() const { return layer_param().recurrent_param().expose_hidden(); }

bool Recurrent::debug_info() const { return layer_param().recurrent_param().debug_info(); }

SubNet Recurrent::Expand(const BlobVec& bottom, int tops) {
  const std::vector<std::string> names = StateNames();
  const int states = exposes_hidden() ? static_cast<int>(names.size()) : 0;
  const int inputs = static_cast<int>(bottom.size()) - states;
  CAFFE_CHECK(hidden() > 0, Where(), ": num_output of recurrent_param must be given and positive");
  CAFFE_CHECK(inputs == 2 || inputs == 3, Where(), ": takes x, cont and optionally static input",
              states > 0 ? Concat(", and ", states, " first states because of expose_hidden") : "",
              "; the net gives ", bottom.size(), " bottoms");
  CAFFE_CHECK(tops == 1 + states, Where(), ": has ", 1 + states, " tops, but the net names ", tops);
  CAFFE_CHECK(bottom[0]->num_axes() >= 2 && bottom[0]->shape(0) > 0, Where(),
              ": x must have the axes T, N, …; it has shape ", bottom[0]->shape_string());
  steps_ = bottom[0]->shape(0);
  CAFFE_CHECK(steps_ <= kMostSteps, Where(), ": x has ", steps_, " time steps, its shape is ",
              bottom[0]->shape_string(), "; at most ", kMostSteps,
              " are supported, because each becomes layers of its own");
  CheckShapes(bottom);
  joins_steps_ = JoinsSteps(bottom);
  SubNet sub;
  if (computes_codes()) sub.net->set_data_type_name(kFloat.name());
  sub.inputs = {"x", "cont"};
  if (inputs == 3) sub.inputs.push_back("x_static");
  Builder net(sub.net.get(), *this);
  if (states == 0) {
    for (const std::string& name : names) {
      net.Add("CarriedState", name + "_0", {"cont"}, {name + "_0"})
          ->mutable_recurrent_param()
          ->set_num_output(static_cast<uint32_t>(hidden()));
    }
  } else {
    for (const std::string& name : names) sub.inputs.push_back(name + "_0");
  }
  AddInput(&net, inputs == 3, steps_);
  for (LayerParameter& layer : *sub.net->mutable_layer()) layer.set_recompute(false);
  if (joins_steps_) AddAllSteps(&net);
  const auto every = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(steps_))));
  for (int64_t t = 1; t <= steps_ && !joins_steps_; ++t) {
    AddStep(&net, t);
    if (t % every == 0) sub.net->mutable_layer(sub.net->layer_size() - 1)->set_recompute(false);
  }
  AddStates(&net, names, steps_, &sub);
  sub.parameters = {{"x_transform", 0}, {"x_transform", 1}};
  if (inputs == 3) sub.parameters.push_back({"x_static_transform", 0});
  AppendParameters(&sub.parameters);
  return sub;
}

// All time steps in one product.
void Recurrent::AddInput(Builder* net, bool has_static, int64_t steps) const {
  const InputProduct input = InputOfGates();
  const std::string products = has_static ? "x_only_gates" : "x_gates";
  net->Product("x_transform", "x", products, 2, input.outputs, input.weights, input.bias);
  if (has_static) {
    net->Product("x_static_transform", "x_static", "x_static_gates", 1, input.outputs,
                 input.static_weights);
    net->Add("Bias", "x_static_sum", {products, "x_static_gates"}, {"x_gates"})
        ->mutable_bias_param()
        ->set_axis(1);
  }
  if (joins_steps_) return;
  net->Steps("x_gates", steps);
  net->Steps("cont", steps, ConvertsCont() && !computes_codes() ? types().compute.name() : "");
}

void Recurrent::AddStates(Builder* net, const std::vector<std::string>& names, int64_t steps,
                          SubNet* sub) const {
  if (!joins_steps_) {
    std::vector<std::string> all;
    for (int64_t t = 1; t <= steps; ++t) all.push_back(Concat("h_", t));
    net->Add("Concat", "h_concat", all, {"h"})->mutable_concat_param()->set_axis(0);
  }
  sub->outputs = {AddOutput(net)};
  for (const std::string& name : names) {
    const std::string last = joins_steps_ ? name + "_last" : Concat(name, "_", steps);
    if (!exposes_hidden()) {
      net->Add("StoredState", name + "_store", {last}, {});
      continue;
    }
    // The top is a copy: with one step, h would be the same memory.
    if (!joins_steps_) net->Add("Power", name + "_last", {last}, {name + "_last"});
    sub->outputs.push_back(name + "_last");
  }
}

void Recurrent::Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) {
  std::vector<std::shared_ptr<CarriedState>> states;
  size_t next = 0;
  // By the names of the weights: the first layer that has them.
  std::map<std::string, std::shared_ptr<WeightedLayer>> first;
  bool exposed = computes_codes() && exposes_hidden();
  for (const auto& layer : nested) {
    // The codes of a first state have a range of their own.
    if (exposed && layer->name().ends_with("/transform_1")) {
      exposed = false;
      continue;
    }
    if (auto weighted = std::dynamic_pointer_cast<WeightedLayer>(layer)) {
      const auto& param = layer->layer_param().param();
      const auto owner = first.emplace(param.empty() ? layer->name() : param[0].name(), weighted);
      if (!owner.second) weighted->ShareOperators(owner.first->second);
    }
    if (auto state = std::dynamic_pointer_cast<CarriedState>(layer)) states.push_back(state);
    if (auto* store = dynamic_cast<StoredState*>(layer.get())) {
      store->set_state(states.at(next++));
    }
  }
  if (!states.empty()) states[0]->set_bounded();  // h
}

void Recurrent::CheckShapes(const BlobVec& bottom) const {
  const Shape& x = bottom[0]->shape();
  const std::string where = Where();
  CAFFE_CHECK(x.size() >= 2 && x[0] == steps_, where, ": was set up for ", steps_,
              " time steps, but x has shape ", ShapeString(x),
              "; T, the extent of axis 0, is constant, and N may change");
  CAFFE_CHECK(bottom[1]->shape() == Shape({x[0], x[1]}), where, ": cont must have the shape ", x[0],
              " ", x[1], ", one number for each step of each sequence; it has shape ",
              bottom[1]->shape_string());
  const size_t states = exposes_hidden() ? StateNames().size() : 0;
  for (size_t b = 2; b < bottom.size(); ++b) {
    const Shape& shape = bottom[b]->shape();
    if (b < bottom.size() - states) {
      CAFFE_CHECK(!shape.empty() && shape[0] == x[1], where, ": static input must have N = ", x[1],
                  " items; it has shape ", ShapeString(shape));
    } else {
      CAFFE_CHECK(shape == Shape({1, x[1], hidden()}), where,
                  ": a first state must have the shape ", "1 ", x[1], " ", hidden(), "; blob ",
                  bottom[b]->name(), " has shape ", ShapeString(shape));
    }
  }
}

}  // namespace caffe
