// A library with a pass of a user, as docs/command_line.md shows one.
#include "caffe.pb.h"
#include "caffe/transform/pass_registry.hpp"

extern "C" void RegisterCaffePasses() {
  caffe::RegisterRewrite(
      "no_sigmoid", {{"Sigmoid", nullptr}},
      [](caffe::NetParameter* model, const std::vector<int>& layers, caffe::TransformNotes* notes) {
        const std::string name = model->layer(layers[0]).name();
        const std::string why = caffe::RemoveCopy(model, layers[0]);
        notes->push_back(name + (why.empty() ? " is removed" : " stays: " + why));
      });
}
