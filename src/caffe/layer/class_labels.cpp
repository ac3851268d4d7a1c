#include "caffe/layer/class_labels.hpp"

#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

bool IsInteger(double value) { return std::isfinite(value) && value == std::floor(value); }

}  // namespace

void CheckClassLabel(const ClassLabels& labels, double value, int64_t index) {
  if (IsInteger(value) && value >= 0 && value < static_cast<double>(labels.classes)) return;
  std::string item = Concat(" of item ", index / labels.inner);
  if (labels.inner > 1) item += Concat(" at position ", index % labels.inner);
  const std::string classes = Concat(labels.classes, " classes (0 to ", labels.classes - 1, ")");
  CAFFE_CHECK(IsInteger(value), labels.where, ": label ", value, item,
              " is not an integer; it must be one of ", classes);
  // A value beyond int32 cannot be an ignore_label: print it without advice.
  const bool small = std::abs(value) <= std::numeric_limits<int32_t>::max();
  CAFFE_CHECK(small, labels.where, ": label ", value, item, " is not one of ", classes);
  const int64_t label = static_cast<int64_t>(value);
  std::string cure;
  if (label >= 0) {
    cure = Concat("; set num_output of the layer that makes the scores to at least ", label + 1);
  }
  if (!labels.ignore_field.empty()) {
    cure += Concat(cure.empty() ? "; " : ", or ", "ignore such items with ", labels.ignore_field,
                   " { ignore_label: ", label, " }");
  }
  CAFFE_THROW(labels.where, ": label ", label, item, " is not one of ", classes, cure);
}

void CheckClassLabels(const ClassLabels& labels, TermSum* sum) {
  if (const auto invalid = sum->TakeInvalid()) {
    CheckClassLabel(labels, invalid->value, invalid->index);
  }
}

}  // namespace caffe
