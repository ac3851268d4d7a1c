#include "moe_net.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "grouped_form.hpp"

namespace caffe {

MOENet::MOENet(const LayerParameter& layer, DataType real, Device* device)
    : layer_(layer), parameter_(layer.moe_param()), real_(real), device_(device) {}

std::string MOENet::Where() const { return Concat(layer_.name(), " (", layer_.type(), ")"); }

SubNet MOENet::Build(int bottoms, int tops) {
  CAFFE_CHECK(parameter_.has_gating_net(), Where(), ": moe_param has no gating_net");
  CAFFE_CHECK(!parameter_.has_experts(), Where(), ": the number of experts is that of ",
              "expert_instances; experts is a field of the layers that compute this one");
  sub_.net->set_data_type(static_cast<DataTypeProto>(real_.info().proto));
  for (int i = 0; i < bottoms; ++i) sub_.inputs.push_back(Concat("bottom", i));
  const std::vector<std::string> inputs = InputsOf(MOEParameter::EXPERT, bottoms);
  ReadExperts(inputs);
  const NestedLayers gating(parameter_.gating_net(), layer_, real_, "gating_net",
                            InputsOf(MOEParameter::GATING, bottoms));
  const std::string why = parameter_.full_forward() ? "full_forward is set" : WhyAll();
  all_ = !why.empty();
  if (all_) log::Info(Concat(Where(), ": each expert computes all items, because ", why));
  if (layer_.phase() == TRAIN && parameter_.select_experts() == 1 && experts_ > 1 &&
      parameter_.normalize_weights()) {
    log::Warning(
        Concat(Where(), ": with select_experts: 1 the weight of an expert is p / p = 1, so ",
               "that the loss has no gradient for the gate; set normalize_weights: false, ",
               "and the weight is p"));
  }
  const std::string gate = AddGate(gating);
  if (layer_.phase() == TRAIN) AddLosses(gating, gate);
  all_ ? AddAllExperts() : AddGroupedExperts(inputs);
  if (parameter_.balance_rate() != 0) sub_.parameters.push_back({"route", 0});
  AddOutputs(gating, tops);
  return std::move(sub_);
}

std::vector<std::string> MOENet::InputsOf(MOEParameter::BottomMapping net, int bottoms) const {
  const int given = parameter_.map_bottom_size();
  CAFFE_CHECK(given == 0 || given == bottoms, Where(), ": map_bottom has ", given, " entries for ",
              bottoms, " bottoms");
  std::vector<std::string> inputs;
  for (int i = 0; i < bottoms; ++i) {
    if (given == 0 || (parameter_.map_bottom(i) & net)) inputs.push_back(sub_.inputs[i]);
  }
  return inputs;
}

void MOENet::ReadExperts(const std::vector<std::string>& inputs) {
  const int nets = parameter_.expert_net_size(), given = parameter_.expert_instances_size();
  CAFFE_CHECK(nets > 0, Where(), ": moe_param has no expert_net");
  CAFFE_CHECK(given == 0 || given == nets, Where(), ": expert_instances has ", given,
              " entries for ", nets, " expert_net");
  for (int i = 0; i < nets; ++i) {
    const int64_t instances = given ? parameter_.expert_instances(i) : 1;
    CAFFE_CHECK(instances >= 1, Where(), ": expert_instances ", instances, " is not positive");
    nets_.insert(nets_.end(), instances,
                 std::make_shared<NestedLayers>(parameter_.expert_net(i), layer_, real_,
                                                Concat("expert_net ", i), inputs));
  }
  experts_ = static_cast<int64_t>(nets_.size());
  const size_t outputs = nets_[0]->outputs().size();
  CAFFE_CHECK(outputs > 0, Where(), ": expert_net 0 has no output");
  for (const auto& net : nets_) {
    CAFFE_CHECK(net->outputs().size() == outputs, Where(), ": an expert net has ", outputs,
                " outputs, another one ", net->outputs().size());
  }
}

std::string MOENet::WhyAll() const {
  for (const auto& net : nets_) {
    if (net != nets_[0] && !net->EqualTo(*nets_[0])) return "the expert nets have different layers";
    if (net->SharesParameters()) return "layers of an expert net share parameters";
  }
  const std::string why = WhyNotGrouped(nets_[0]->layers());
  return why.empty() && !device_->host_accessible() ? WhyAllOnDevice() : why;
}

std::string MOENet::WhyAllOnDevice() const {
  if (layer_.phase() == TRAIN) return "on devices grouped layers have no backward pass";
  for (const LayerParameter& layer : nets_[0]->layers()) {
    const std::string why = WhyNoJointOp(layer, real_, device_);
    if (!why.empty()) return why;
  }
  return "";
}

LayerParameter* MOENet::Add(const std::string& name, const std::string& type,
                            const std::vector<std::string>& bottoms,
                            const std::vector<std::string>& tops) {
  LayerParameter* const layer = sub_.net->add_layer();
  layer->set_name(name);
  layer->set_type(type);
  layer->mutable_bottom()->Assign(bottoms.begin(), bottoms.end());
  layer->mutable_top()->Assign(tops.begin(), tops.end());
  return layer;
}

void MOENet::AddParameters(const LayerParameter& layer) {
  *sub_.net->add_layer() = layer;
  sub_.parameters.push_back({layer.name(), SubNet::Parameter::kAll});
}

std::string MOENet::AddGate(const NestedLayers& gating) {
  for (const LayerParameter& layer : gating.WithPrefix("gating")) AddParameters(layer);
  CAFFE_CHECK(!gating.outputs().empty(), Where(), ": gating_net has no output");
  // BVLC's order of outputs is alphabetical. With several outputs the one of a Softmax is meant.
  const auto softmax = [&](const std::string& blob) {
    return TraitsOf(gating.Producer(blob)->type()).probabilities;
  };
  const auto found = std::find_if(gating.outputs().begin(), gating.outputs().end(), softmax);
  const std::string gate =
      gating.Blob(found != gating.outputs().end() ? *found : gating.outputs().front(), "gating");
  LayerParameter* const route = Add(
      "route", "MOERoute", {gate}, {"observed", "expected", "weights", "slots", "rows", "offsets"});
  for (auto set : {&LayerParameter::set_compute_data_type, &LayerParameter::set_bottom_data_type,
                   &LayerParameter::set_top_data_type}) {
    (route->*set)(static_cast<DataTypeProto>(real_.info().proto));
  }
  MOEParameter* const parameter = route->mutable_moe_param();
  parameter->set_experts(experts_);
  if (parameter_.has_select_experts()) parameter->set_select_experts(parameter_.select_experts());
  parameter->set_full_forward(all_);
  parameter->set_balance_rate(parameter_.balance_rate());
  parameter->set_capacity_factor(parameter_.capacity_factor());
  parameter->set_normalize_weights(parameter_.normalize_weights());
  return gate;
}

void MOENet::AddLosses(const NestedLayers& gating, const std::string& gate) {
  if (parameter_.usage_loss_weight() != 0) {
    Add("usage_loss", "EuclideanLoss", {"observed", "expected"}, {"usage_loss"})
        ->add_loss_weight(parameter_.usage_loss_weight());
  }
  if (parameter_.load_balance_loss_weight() == 0 && parameter_.z_loss_weight() == 0) return;
  std::vector<std::string> bottoms{gate, "observed"};
  if (parameter_.z_loss_weight() != 0) {
    const std::string own = gate.substr(std::string("gating/").size());
    const LayerParameter* const producer = gating.Producer(own);
    CAFFE_CHECK(producer && TraitsOf(producer->type()).probabilities, Where(),
                ": z_loss_weight needs a gating net that ends in a Softmax layer");
    CAFFE_CHECK(producer->bottom(0) != producer->top(0), Where(), ": z_loss_weight needs a ",
                "Softmax layer that does not work in place");
    bottoms.push_back(gating.Blob(producer->bottom(0), "gating"));
  }
  MOEParameter* const parameter =
      Add("gate_loss", "MOELoss", bottoms, {"gate_loss"})->mutable_moe_param();
  if (parameter_.has_select_experts()) parameter->set_select_experts(parameter_.select_experts());
  parameter->set_load_balance_loss_weight(parameter_.load_balance_loss_weight());
  parameter->set_z_loss_weight(parameter_.z_loss_weight());
}

void MOENet::AddAllExperts() {
  for (size_t e = 0; e < nets_.size(); ++e) {
    for (const LayerParameter& layer : nets_[e]->WithPrefix(Concat("expert", e))) {
      AddParameters(layer);
    }
  }
  for (size_t o = 0; o < nets_[0]->outputs().size(); ++o) {
    std::vector<std::string> parts;
    for (size_t e = 0; e < nets_.size(); ++e) {
      parts.push_back(nets_[e]->Blob(nets_[e]->outputs()[o], Concat("expert", e)));
    }
    LayerParameter* const concat =
        Add(Concat("concat", o), "Concat", parts, {Concat("experts", o)});
    concat->mutable_concat_param()->set_axis(0);
    concat->set_compute_data_type(static_cast<DataTypeProto>(real_.info().proto));
    Add(Concat("combine", o), "MOECombine", {Concat("experts", o), "weights", "slots", "rows"},
        {Concat("combined", o)});
  }
}

void MOENet::AddGroupedExperts(const std::vector<std::string>& inputs) {
  std::vector<std::string> gathered;
  for (size_t i = 0; i < inputs.size(); ++i) {
    gathered.push_back(Concat("gathered", i));
    Add(Concat("gather", i), "MOEGather", {inputs[i], "rows", "slots"}, {gathered[i]});
  }
  const int64_t select = parameter_.has_select_experts() ? parameter_.select_experts() : experts_;
  const NestedLayers& net = *nets_[0];
  std::vector<LayerParameter> layers = net.WithPrefix("expert");
  std::vector<int> blobs;  // of each expert
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerParameter& layer = layers[i];
    for (std::string& bottom : *layer.mutable_bottom()) {
      const auto input = std::find(inputs.begin(), inputs.end(), bottom);
      if (input != inputs.end()) bottom = gathered[input - inputs.begin()];
    }
    std::vector<const LayerParameter*> of_experts;
    for (const auto& other : nets_) of_experts.push_back(&other->layers()[i]);
    blobs.push_back(MakeGrouped(of_experts, select, "offsets", &layer));
    *sub_.net->add_layer() = layer;
  }
  for (int e = 0; e < static_cast<int>(experts_); ++e) {
    for (size_t i = 0; i < layers.size(); ++i) {
      for (int b = 0; b < blobs[i]; ++b) {
        sub_.parameters.push_back({layers[i].name(), e * blobs[i] + b});
      }
    }
  }
  for (size_t o = 0; o < net.outputs().size(); ++o) {
    Add(Concat("combine", o), "MOECombine",
        {net.Blob(net.outputs()[o], "expert"), "weights", "slots", "rows"},
        {Concat("combined", o)});
  }
}

void MOENet::AddOutputs(const NestedLayers& gating, int tops) {
  const int outputs = static_cast<int>(nets_[0]->outputs().size());
  const int all = outputs + 2 + parameter_.gate_top_size();
  CAFFE_CHECK(tops == all || (tops == outputs && parameter_.gate_top_size() == 0), Where(),
              ": has ", tops, " tops, but needs ", all, ": ", outputs,
              " outputs of an expert, the observed ", "and the expected usage",
              parameter_.gate_top_size() ? ", and each gate_top" : "");
  for (int o = 0; o < outputs; ++o) sub_.outputs.push_back(Concat("combined", o));
  if (tops == outputs) return;
  sub_.outputs.insert(sub_.outputs.end(), {"observed", "expected"});
  for (const std::string& blob : parameter_.gate_top()) {
    sub_.outputs.push_back(gating.Blob(blob, "gating"));
  }
}

}  // namespace caffe
