#include "caffe/io/input_files.hpp"

#include <algorithm>
#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/text_lines.hpp"

namespace caffe {
namespace {

namespace fs = std::filesystem;

// The list of an HDF5Data layer has a path in each line.
void AddListed(const std::string& list, std::vector<std::string>* files) {
  std::error_code error;
  if (!fs::is_regular_file(list, error)) return;  // the layer names the fault
  for (const TextLine& line : ReadTextLines(list)) files->push_back(line.text);
}

void AddFiles(const google::protobuf::Message& message, std::vector<std::string>* files) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->name() == "blobs") continue;  // large, and without names
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        AddFiles(reflection.GetMessage(message, field), files);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        AddFiles(reflection.GetRepeatedMessage(message, field, i), files);
      }
    } else if (field->name() == "source" || field->name() == "mean_file") {
      files->push_back(reflection.GetString(message, field));
    }
  }
}

}  // namespace

std::vector<std::string> InputFiles(const NetParameter& net) {
  std::vector<std::string> files;
  for (const LayerParameter& layer : net.layer()) {
    AddFiles(layer, &files);
    if (layer.has_hdf5_data_param()) AddListed(layer.hdf5_data_param().source(), &files);
  }
  return files;
}

void CheckKeepsInputs(const std::vector<std::string>& outputs,
                      const std::vector<std::string>& inputs) {
  std::error_code error;
  for (const std::string& output : outputs) {
    for (const std::string& input : inputs) {
      CAFFE_CHECK(!fs::is_regular_file(input, error) || !fs::equivalent(input, output, error),
                  "the result ", output, " would replace the input ", input,
                  "; give the results another name");
    }
  }
}

void CheckResults(const std::string& prefix, const std::vector<std::string>& extensions,
                  const std::vector<std::string>& inputs) {
  std::vector<std::string> outputs;
  for (const std::string& extension : extensions) outputs.push_back(prefix + extension);
  CheckKeepsInputs(outputs, inputs);
  for (const std::string& output : outputs) const AtomicFile file(output);
}

}  // namespace caffe
