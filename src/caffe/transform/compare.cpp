#include <algorithm>
#include <cmath>
#include <random>

#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/net/input_shape.hpp"
#include "caffe/net/net.hpp"
#include "flow.hpp"

namespace caffe {
namespace {

// Uniform in [-1, 1), the same numbers everywhere.
std::vector<double> RandomValues(int64_t count, std::mt19937_64* random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>((*random)() >> 11) * 0x1p-52 - 1;
  return values;
}

NetParameter Runnable(const NetParameter& model, const TransformOptions& options) {
  TransformNotes notes;
  std::vector<BlobUse> wanted;
  StripOptions strip = options.strip;
  strip.outputs.clear();
  NetParameter runnable = WithoutRemovedLayers(MakeRunnable(model, strip, &notes, &wanted));
  return runnable;
}

OutputDifference Compare(const std::string& name, const BlobBase& first, const BlobBase& second) {
  CAFFE_CHECK(first.shape() == second.shape(), "output ", name, " had shape ", first.shape_string(),
              " and has shape ", second.shape_string(), " now");
  const std::vector<double> a = first.DataAsDouble(), b = second.DataAsDouble();
  OutputDifference difference;
  difference.blob = name;
  difference.count = first.count();
  difference.items = first.num_axes() > 1 ? first.shape()[0] : 1;
  double dot = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++difference.not_finite;
      continue;
    }
    difference.largest = std::max(difference.largest, std::abs(a[i]));
    difference.largest_difference = std::max(difference.largest_difference, std::abs(a[i] - b[i]));
    dot += a[i] * b[i];
    square_a += a[i] * a[i];
    square_b += b[i] * b[i];
  }
  if (difference.not_finite == difference.count) {
    difference.largest = difference.largest_difference = NAN;
  }
  difference.relative =
      difference.largest_difference == 0 ? 0 : difference.largest_difference / difference.largest;
  const bool equal = square_a == square_b && dot == square_a;
  const bool compared = difference.not_finite < difference.count;
  difference.cosine = !compared ? NAN : equal ? 1 : dot / std::sqrt(square_a * square_b);
  const size_t size = difference.items > 0 ? a.size() / difference.items : 0;
  for (int64_t item = 0; item < difference.items; ++item) {
    // -1 if the item has a NaN.
    const auto largest = [&](const std::vector<double>& values) {
      const auto start = values.begin() + static_cast<int64_t>(item * size),
                 end = start + static_cast<int64_t>(size);
      if (std::any_of(start, end, [](double value) { return std::isnan(value); }))
        return int64_t{-1};
      return static_cast<int64_t>(std::max_element(start, end) - start);
    };
    difference.same_argmax += largest(a) >= 0 && largest(a) == largest(b);
  }
  return difference;
}

}  // namespace

std::vector<OutputDifference> CompareOutputs(const NetParameter& first, const NetParameter& second,
                                             const TransformOptions& options) {
  const auto a = MakeNet(Runnable(first, options), options.device);
  const auto b = MakeNet(Runnable(second, options), options.device);
  std::mt19937_64 random(options.seed);
  for (const int index : a->input_blob_indices()) {
    const std::string& name = a->blob_names()[index];
    BlobBase* input = a->blobs()[index].get();
    std::vector<double> values = RandomValues(input->count(), &random);
    const auto given = options.inputs.find(name);
    if (given != options.inputs.end()) {
      const auto shape = options.input_shapes.find(name);
      CAFFE_CHECK(shape == options.input_shapes.end() || shape->second == input->shape(),
                  InputShapeFault(name, shape->second, input->shape(), InputUser::kBatch));
      CAFFE_CHECK(static_cast<int64_t>(given->second.size()) == input->count(), "input ", name,
                  " has ", input->count(), " elements, but ", given->second.size(),
                  " values are given");
      values.assign(given->second.begin(), given->second.end());
    }
    input->SetData(values);
    if (b->has_blob(name)) {
      BlobBase* other = b->BlobByName(name).get();
      CAFFE_CHECK(other->shape() == input->shape(), "input ", name, " had shape ",
                  input->shape_string(), " and has shape ", other->shape_string(), " now");
      other->SetData(values);
    }
  }
  for (const auto& [name, values] : options.inputs) {
    const auto& inputs = a->input_blob_indices();
    CAFFE_CHECK(
        std::any_of(inputs.begin(), inputs.end(),
                    [&, &wanted = name](int index) { return a->blob_names()[index] == wanted; }),
        NetLabel(a->name()), " has no input '", name, "'");
  }
  a->Forward();
  b->Forward();
  std::vector<OutputDifference> differences;
  for (const int index : b->output_blob_indices()) {
    const std::string& name = b->blob_names()[index];
    if (!a->has_blob(name)) continue;
    differences.push_back(Compare(name, *a->BlobByName(name), *b->BlobByName(name)));
  }
  return differences;
}

}  // namespace caffe
