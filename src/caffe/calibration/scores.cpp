#include "caffe/calibration/scores.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/calibration/comparison.hpp"
#include "caffe/core/error.hpp"
#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/class_scores.hpp"

namespace caffe {
namespace {

struct Reader {
  int layer;
  std::string bottom;
  std::string top;  // that has the classes, too; empty: none
  std::string labels;
  std::optional<int> ignore_label;
  bool ties_above = false;
  bool output = false;  // it makes an output of the net
};

bool IsOutput(const Net& net, int blob) {
  const std::vector<int>& outputs = net.output_blob_indices();
  return std::find(outputs.begin(), outputs.end(), blob) != outputs.end();
}

// The layers that read scores of classes; `other` gets the last loss that reads something else.
std::vector<Reader> Readers(const Net& net, std::string* other) {
  std::vector<Reader> readers;
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    const LayerBase& layer = *net.layers()[i];
    const auto* const has = dynamic_cast<const HasClassScores*>(&layer);
    const std::vector<int>&bottoms = net.bottom_ids(i), &tops = net.top_ids(i);
    if (!has || bottoms.empty() || tops.empty()) continue;
    const std::optional<ClassScores> scores = has->class_scores();
    if (!scores) {
      *other = Concat("layer '", layer.name(), "' (", layer.type(), ") does not compare classes");
      continue;
    }
    const auto name = [&](int blob) { return net.blob_names()[blob]; };
    const bool same = net.blobs()[tops[0]]->shape() == net.blobs()[bottoms[0]]->shape();
    Reader& reader = readers.emplace_back(Reader{i, name(bottoms[0]), same ? name(tops[0]) : "", "",
                                                 scores->ignore_label, scores->ties_above,
                                                 IsOutput(net, tops[0])});
    if (scores->labels && bottoms.size() > 1) reader.labels = name(bottoms[1]);
  }
  return readers;
}

Scores ScoresOf(const Reader& reader, const std::string& blob, const std::vector<Reader>& all) {
  Scores scores{blob, reader.labels, "", reader.ignore_label, reader.ties_above, reader.layer, 1};
  for (const Reader& other : all) {  // a loss and an Accuracy that read the same
    const bool same = other.bottom == reader.bottom && other.labels == reader.labels;
    if (!same) continue;
    if (!scores.ignore_label) scores.ignore_label = other.ignore_label;
    scores.ties_above |= other.ties_above;
  }
  return scores;
}

int DefaultAxis(const Net& net, const BlobBase& blob) {
  const auto sequences = Sequences(net);
  return sequences && blob.num_axes() > 2 && blob.shape(0) == sequences->first &&
                 blob.shape(1) == sequences->second
             ? 2
             : 1;
}

bool HasClasses(const BlobBase& blob, int axis) {
  return blob.num_axes() > axis && blob.shape(axis) > 1;
}

Scores Wanted(const Net& net, const std::vector<Reader>& readers, const std::string& wanted) {
  CAFFE_CHECK(net.has_blob(wanted), "scores: the net has no blob '", wanted, "'");
  const Reader* best = nullptr;
  for (const Reader& reader : readers) {
    const bool reads = reader.bottom == wanted || (reader.labels.empty() && reader.top == wanted);
    if (reads && (!best || best->labels.empty() || !reader.labels.empty())) best = &reader;
  }
  if (best) return ScoresOf(*best, wanted, readers);
  const BlobBase& blob = *net.BlobByName(wanted);
  const int axis = DefaultAxis(net, blob);
  CAFFE_CHECK(HasClasses(blob, axis), "scores: blob '", wanted, "' of shape ", blob.shape_string(),
              " does not have several classes along axis ", axis);
  return {wanted, "", "", std::nullopt, false, -1, axis};
}

std::string LabelText(const Shape& shape, size_t count) {
  return shape.empty() ? Concat(count) : Concat(count, " of shape ", ShapeString(shape));
}

}  // namespace

std::optional<std::pair<int64_t, int64_t>> Sequences(const Net& net) {
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    const LayerBase& layer = *net.layers()[i];
    if (!layer.layer_param().has_recurrent_param() || net.bottom_ids(i).empty()) continue;
    const BlobBase& x = *net.blobs()[net.bottom_ids(i)[0]];
    if (x.num_axes() > 1) return std::pair{x.shape(0), x.shape(1)};
  }
  return std::nullopt;
}

Scores FindScores(const Net& net, const std::string& wanted) {
  std::string other;
  const std::vector<Reader> readers = Readers(net, &other);
  if (!wanted.empty()) return Wanted(net, readers, wanted);
  for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
    if (!reader->labels.empty()) return ScoresOf(*reader, reader->bottom, readers);
  }
  for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
    if (!reader->output) continue;
    return ScoresOf(*reader, reader->top.empty() ? reader->bottom : reader->top, readers);
  }
  Scores none;
  none.why = other.empty() ? "no output has several elements along axis 1" : other;
  if (!other.empty()) return none;
  const std::vector<int>& outputs = net.output_blob_indices();
  for (auto output = outputs.rbegin(); output != outputs.rend(); ++output) {
    const BlobBase& blob = *net.blobs()[*output];
    const int axis = DefaultAxis(net, blob);
    if (HasClasses(blob, axis))
      return {net.blob_names()[*output], "", "", std::nullopt, false, -1, axis};
  }
  return none;
}

Positions PositionsOf(const Net& net, const Scores& scores, int64_t items) {
  const BlobBase& blob = *net.BlobByName(scores.blob);
  Positions positions;
  if (scores.layer >= 0) {
    const auto found =
        dynamic_cast<const HasClassScores&>(*net.layers()[scores.layer]).class_scores();
    positions.classes = found->classes;
    positions.inner = found->inner;
  } else {
    positions.classes = blob.shape(scores.axis);
    positions.inner = blob.count(scores.axis + 1);
  }
  const int64_t all = blob.count() / std::max<int64_t>(positions.classes, 1);
  positions.count = all;
  if (Sequences(net)) return positions;  // batches are whole
  int64_t batch = items;
  for (const int index : net.input_blob_indices()) {
    if (net.blobs()[index]->num_axes() == 0) continue;
    batch = net.blobs()[index]->shape(0);
    break;
  }
  if (batch > 0 && all % (batch * positions.inner) == 0) {
    positions.per_item = all / batch;
    positions.count = items * positions.per_item;
    return positions;
  }
  CAFFE_CHECK(items == batch, "scores '", scores.blob, "' of shape ", blob.shape_string(),
              " have no axis of the ", batch, " items, so that a batch of ", items,
              " items cannot be compared; give whole batches");
  return positions;
}

std::vector<Answer> AnswersOf(const Net& net, const Scores& scores, const Positions& positions) {
  const std::vector<float> values = RealValues(*net.BlobByName(scores.blob));
  std::vector<Answer> answers(positions.count);
  for (int64_t p = 0; p < positions.count; ++p) {
    const int64_t outer = p / positions.inner, inner = p % positions.inner;
    const float* const first = values.data() + outer * positions.classes * positions.inner + inner;
    Answer answer{0, true};
    float largest = first[0];
    bool finite = !std::isnan(largest);
    for (int c = 1; c < positions.classes; ++c) {
      const float score = first[c * positions.inner];
      finite = finite && !std::isnan(score);
      if (score > largest) {
        answer = {c, true};
        largest = score;
      } else if (score == largest) {
        answer.alone = false;
      }
    }
    if (finite) answers[p] = answer;
  }
  return answers;
}

std::vector<float> LabelsOf(const Net& net, const Scores& scores, const Positions& positions,
                            const Batch& batch, int64_t index) {
  const bool given = !batch.labels.empty();
  if (!given && scores.labels.empty()) return {};
  std::vector<float> labels = given ? batch.labels : RealValues(*net.BlobByName(scores.labels));
  const auto count = static_cast<int64_t>(labels.size());
  const std::string where = Concat("batch ", index);
  if (given) {
    const Shape& shape = batch.labels_shape;
    const std::string text = Concat(where, ": there are ", LabelText(shape, labels.size()),
                                    " labels, but the scores '", scores.blob, "' have ");
    CAFFE_CHECK(count == positions.count || count != positions.count * positions.classes ||
                    shape.size() < 2,
                text, positions.count, " positions of ", positions.classes,
                " classes; give one label for each of them, such as labels.argmax(axis=",
                shape.back() == positions.classes ? static_cast<int>(shape.size()) - 1 : 1, ")");
    CAFFE_CHECK(count == positions.count, text, positions.count,
                positions.per_item == 1
                    ? " items; give one label for each item"
                    : Concat(" positions, ", positions.per_item,
                             " for each item; give one label for each position"));
  }
  labels.resize(std::min<int64_t>(count, positions.count));
  const ClassLabels checked{where, positions.classes, positions.per_item, ""};
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    if (scores.ignore_label && label == static_cast<float>(*scores.ignore_label)) continue;
    if (given && label == kUnknownLabel) continue;
    try {
      CheckClassLabel(checked, label, static_cast<int64_t>(i));
    } catch (const Error& error) {
      CAFFE_THROW(error.what(), given ? "; -1 is an unknown label" : "");
    }
  }
  return labels;
}

}  // namespace caffe
