#include "builtin_passes.hpp"

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/type_registry.hpp"

namespace caffe {
namespace {

DataType RoundedType(const TransformOptions& options) {
  return options.type.empty() ? kHalf : DataTypeByName(options.type);
}

DataType CodeType(const TransformOptions& options) {
  return options.type == "int16" ? kQuant16 : kQuant8;
}

// A pass that has no options.
PassFunction Plain(NetParameter (*pass)(NetParameter, TransformNotes*)) {
  return [pass](NetParameter model, const TransformOptions&, TransformNotes* notes) {
    return pass(std::move(model), notes);
  };
}

}  // namespace

std::vector<PassEntry> BuiltInPasses() {
  std::vector<PassEntry> passes;
  const auto add = [&](const char* name, bool in_all, PassFunction run) {
    passes.push_back({name, std::move(run), true, in_all});
  };
  add("strip", true,
      [](NetParameter model, const TransformOptions& options, TransformNotes* notes) {
        return StripForInference(std::move(model), options.strip, notes);
      });
  add("fold", true, Plain(FoldChannelMaps));
  add("constants", true, Plain(FoldConstants));
  add("casts", true, Plain(RemoveCasts));
  add("duplicates", false, Plain(MergeDuplicates));
  add("strides", false, Plain(MoveStrides));
  add("round", false,
      [](NetParameter model, const TransformOptions& options, TransformNotes* notes) {
        return RoundWeights(std::move(model), RoundedType(options), notes);
      });
  add("round_levels", false,
      [](NetParameter model, const TransformOptions& options, TransformNotes* notes) {
        return RoundToLevels(std::move(model), options.levels, notes);
      });
  add("quantize_weights", false,
      [](NetParameter model, const TransformOptions& options, TransformNotes* notes) {
        return QuantizeWeights(std::move(model), CodeType(options), notes);
      });
  return passes;
}

}  // namespace caffe
