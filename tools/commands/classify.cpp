#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "caffe.pb.h"
#include "caffe/calibration/comparison.hpp"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/calibration/random_batch.hpp"
#include "caffe/calibration/scores.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/less_log.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/core/progress_bar.hpp"
#include "caffe/io/file.hpp"
#include "caffe/io/input_files.hpp"
#include "caffe/io/text_lines.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/net/net.hpp"
#include "caffe/net/net_file.hpp"
#include "commands/choose_device.hpp"
#include "commands/commands.hpp"
#include "commands/contact_sheet.hpp"
#include "commands/copy_weights.hpp"
#include "commands/image_flags.hpp"
#include "commands/net_types.hpp"

namespace caffe {
namespace {

// The batches of images whose values give the ranges of codes that the files lack.
constexpr int64_t kObservedBatches = 10;

struct Guess {
  int64_t index = 0;
  double probability = 0;
};

// The answer for an image, or why there is none.
struct Answers {
  std::string path;
  std::optional<int> label;
  std::string error;
  std::vector<Guess> best;
  bool right = false;         // the first one is the label
  bool label_listed = false;  // one of them is the label
};

// The names of classes; without a file, none.
class ClassNames {
 public:
  ClassNames(const std::string& file, int64_t classes, const std::string& blob) {
    if (file.empty()) return;
    for (const TextLine& line : ReadTextLines(file)) names_.push_back(line.text);
    CAFFE_CHECK(static_cast<int64_t>(names_.size()) == classes, "classify: ", file, " has ",
                names_.size(), " lines with names, but the scores '", blob, "' have ", classes,
                " classes; give one line for each class in their order, or leave -labels out");
  }
  bool empty() const { return names_.empty(); }
  std::string operator[](int64_t index) const {
    const bool known = index >= 0 && index < static_cast<int64_t>(names_.size());
    return known ? names_[index] : "";
  }
  // "0 n01440764 tench".
  std::string Text(int64_t index) const {
    return empty() ? Concat(index) : Concat(index, " ", (*this)[index]);
  }

 private:
  std::vector<std::string> names_;
};

bool AreProbabilities(const Net& net, const std::string& blob) {
  bool probabilities = false;
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    for (const int top : net.top_ids(i)) {
      if (net.blob_names()[top] != blob) continue;
      probabilities = TraitsOf(net.layers()[i]->layer_param().type()).probabilities;
    }
  }
  return probabilities;
}

// softmax: p_c = exp(s_c - max s) / sum.
void MakeProbabilities(std::vector<double>* scores) {
  const double largest = *std::max_element(scores->begin(), scores->end());
  double sum = 0;
  for (double& score : *scores) sum += score = std::exp(score - largest);
  for (double& score : *scores) score /= sum;
}

std::vector<Guess> Best(const std::vector<double>& probabilities, int64_t count) {
  std::vector<int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min<int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
  });
  std::vector<Guess> best;
  for (int64_t i = 0; i < count; ++i) best.push_back({order[i], probabilities[order[i]]});
  return best;
}

// Classifies images with a net, batch after batch.
class Classifier {
 public:
  Classifier(const NetParameter& model, const Options& options, Device* device)
      : options_(options) {
    NetOptions net_options;
    net_options.device = device;
    net_options.phase = TEST;
    net_ = std::make_unique<Net>(model, net_options);
    CopyWeights(options, net_.get());
    scores_ = FindScores(*net_, options.scores);
    CAFFE_CHECK(!scores_.blob.empty(), "classify: ", options.model,
                " has no scores of classes: ", scores_.why, "; -scores BLOB names them");
    const Positions positions = PositionsOf(*net_, scores_, 1);
    classes_ = positions.classes;
    CAFFE_CHECK(options.crop == "keep" || positions.per_item == 1, "classify: the scores '",
                scores_.blob, "' of shape ", net_->BlobByName(scores_.blob)->shape_string(),
                " have ", positions.per_item,
                " positions for each image, and one is needed; "
                "-scores BLOB names another blob");
    probabilities_ = AreProbabilities(*net_, scores_.blob);
    if (!probabilities_) {
      log::Warning(Concat("no Softmax makes the scores '", scores_.blob,
                          "': the probabilities are the softmax of these scores"));
    }
  }

  const Scores& scores() const { return scores_; }
  int64_t classes() const { return classes_; }
  bool has_softmax() const { return probabilities_; }
  // Whether Observe gave ranges to blobs of codes.
  bool observed() const { return observed_; }

  // Blobs of codes without a range get that of these images in float.
  void Observe(ImageBatches* images) {
    observed_ = ObserveMissingRanges(net_.get(), [&](Net* observer) {
      Batch batch;
      int64_t seen = 0;
      for (int64_t i = 0; seen < kObservedBatches && images->Read(i, &batch); ++i) {
        if (batch.items == 0) continue;
        Forward(batch, observer);
        ++seen;
      }
      CAFFE_CHECK(seen > 0, "classify: none of the images of ", options_.images,
                  " can be read: ", images->items().front().error);
    });
    if (!observed_) return;
    log::Warning(Concat("the files have no ranges for all blobs of codes; those of up to ",
                        kObservedBatches,
                        " batches of these images are used; `caffe quantize` "
                        "writes a net with ranges"));
  }

  // The best classes of each item of a batch.
  std::vector<std::vector<Guess>> Run(const Batch& batch) {
    Forward(batch, net_.get());
    const Positions positions = PositionsOf(*net_, scores_, batch.items);
    CAFFE_CHECK(positions.per_item == 1, "classify: the scores '", scores_.blob, "' of shape ",
                net_->BlobByName(scores_.blob)->shape_string(), " have ", positions.per_item,
                " positions for an image of this size; use -crop centre or -crop none");
    const std::vector<float> values = RealValues(*net_->BlobByName(scores_.blob));
    std::vector<std::vector<Guess>> answers;
    for (int64_t item = 0; item < batch.items; ++item) {
      const auto begin = values.begin() + item * classes_;
      std::vector<double> scores(begin, begin + classes_);
      const bool finite = std::none_of(scores.begin(), scores.end(),
                                       [](double score) { return std::isnan(score); });
      if (finite && !probabilities_) MakeProbabilities(&scores);
      answers.push_back(finite ? Best(scores, options_.top) : std::vector<Guess>());
    }
    return answers;
  }

 private:
  const Options& options_;
  std::unique_ptr<Net> net_;
  Scores scores_;
  int64_t classes_ = 0;
  bool probabilities_ = false, observed_ = false;
};

std::vector<Answers> AnswersFor(ImageBatches* images, Classifier* classifier, bool progress) {
  std::vector<Answers> all;
  std::unique_ptr<ProgressBar> bar;
  if (progress && ProgressBar::Wanted()) {
    bar = std::make_unique<ProgressBar>(&std::cerr, 0, images->images(), 1);
  }
  std::vector<std::vector<Guess>> found(images->images());
  std::vector<bool> ran(images->images());
  Batch batch;
  for (int64_t i = 0; images->Read(i, &batch); ++i) {
    if (batch.items > 0) {
      const auto answers = classifier->Run(batch);
      for (size_t k = 0; k < answers.size(); ++k) {
        found[images->items_of_batch()[k]] = answers[k];
        ran[images->items_of_batch()[k]] = true;
      }
    }
    if (bar) bar->Show(std::min((i + 1) * images->batch_size(), images->images()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const ImageItem& item = images->items()[i];
    Answers one{images->PathOf(item), item.label, item.error, found[i]};
    if (ran[i] && found[i].empty()) one.error = "a score of a class is NaN";
    for (const Guess& guess : found[i]) {
      if (!item.label || guess.index != *item.label) continue;
      one.label_listed = true;
      one.right = &guess == &found[i].front();
    }
    all.push_back(std::move(one));
  }
  return all;
}

// How many labels there are, and how many are the best and one of the best classes.
struct Counts {
  int64_t labels = 0, right = 0, listed = 0, failed = 0;
  explicit Counts(const std::vector<Answers>& all) {
    for (const Answers& one : all) {
      failed += !one.error.empty();
      if (!one.label || !one.error.empty()) continue;
      ++labels;
      right += one.right;
      listed += one.label_listed;
    }
  }
};

std::string Text(const std::vector<Answers>& all, const ClassNames& names, int top) {
  std::string text;
  for (const Answers& one : all) {
    text += one.path;
    if (one.label) text += Concat("  (label ", names.Text(*one.label), ")");
    text += one.error.empty() ? "\n" : Concat("\n  not classified: ", one.error, "\n");
    for (const Guess& guess : one.best) {
      text += Concat("  ", FixedText(guess.probability, 4), "  ", names.Text(guess.index), "\n");
    }
  }
  const Counts counts(all);
  if (counts.labels == 0) return text;
  text += Concat("top-1: ", counts.right, " of ", counts.labels, " labels");
  if (top > 1) text += Concat(", top-", top, ": ", counts.listed);
  return text + "\n";
}

std::string Json(const Options& options, const Classifier& classifier, const Device& device,
                 const std::vector<Answers>& all, const ClassNames& names) {
  std::string images;
  for (const Answers& one : all) {
    std::string best;
    for (const Guess& guess : one.best) {
      best += Concat(best.empty() ? "" : ",\n    ", "{\"class\": ", guess.index,
                     names.empty() ? "" : ", \"name\": " + JsonString(names[guess.index]),
                     ", \"probability\": ", JsonNumber(guess.probability), "}");
    }
    images += Concat(images.empty() ? "\n  " : ",\n  ", "{\"path\": ", JsonString(one.path),
                     ", \"label\": ", one.label ? Concat(*one.label) : "null",
                     ", \"error\": ", one.error.empty() ? "null" : JsonString(one.error),
                     ",\n   \"best\": [", best, "]}");
  }
  const Counts counts(all);
  return Concat("{\"model\": ", JsonString(options.model),
                ", \"weights\": ", JsonString(options.weights),
                ", \"type\": ", options.type.empty() ? "null" : JsonString(options.type),
                ", \"device\": ", JsonString(device.info().id),
                ", \"scores\": ", JsonString(classifier.scores().blob),
                ", \"softmax\": ", classifier.has_softmax() ? "\"of the net\"" : "\"computed\"",
                ", \"ranges_of_these_images\": ", classifier.observed() ? "true" : "false",
                ", \"classes\": ", classifier.classes(), ",\n \"labels\": ", counts.labels,
                ", \"top1\": ", counts.right, ", \"listed\": ", counts.listed,
                ", \"failed\": ", counts.failed, ",\n \"images\": [", images, "\n]}\n");
}

void WriteSheet(const std::string& path, const std::vector<Answers>& all, const ClassNames& names) {
  std::vector<SheetCell> cells;
  for (const Answers& one : all) {
    SheetCell& cell = cells.emplace_back();
    const size_t slash = one.path.rfind('/');
    cell.lines.push_back(slash == std::string::npos ? one.path : one.path.substr(slash + 1));
    for (const Guess& guess : one.best) {
      const bool is_label = one.label && *one.label == guess.index;
      cell.lines.push_back(Concat(is_label ? "*" : " ", FixedText(guess.probability, 3), " ",
                                  names.empty() ? Concat(guess.index) : names[guess.index]));
    }
    if (!one.error.empty()) {
      cell.lines.push_back(one.error);
      continue;
    }
    cell.picture = Thumbnail(DecodeImage(ReadFile(one.path), one.path, true));
  }
  WriteFileAtomically(path, EncodeImage(ContactSheet(cells), ImageFormat::kPng));
}

}  // namespace

int ClassifyCommand(const Options& options) {
  CAFFE_CHECK(!options.model.empty(), "classify: Need a deploy net: -model FILE");
  CAFFE_CHECK(!options.weights.empty(), "classify: Need the weights of the net: -weights FILE");
  CAFFE_CHECK(!options.images.empty(),
              "classify: Need images: -images with a folder, a list, or images with commas between "
              "them");
  CheckImageFlags(options);
  Device* const device = ChooseDevice(options.gpu);
  const LessLog less_log;
  NetParameter model = ReadTestNetFile(options.model);
  CAFFE_CHECK(
      !HasDataLayers(model), "classify: ", options.model,
      " reads its data by itself; `caffe transform -passes strip` makes a net with an Input "
      "of it");
  if (!options.type.empty()) SetNetType(CommandType(options.type), &model);
  Shape shape;
  const std::string blob = ImageInput(model, &shape);
  ImageBatches images(ImageSettings(options), blob, shape);
  CAFFE_CHECK(options.sheet.empty() || images.images() <= kMostCells, "classify: -sheet has room ",
              "for ", kMostCells, " images, and ", options.images, " has ", images.images(),
              "; give fewer images, or leave -sheet out");
  if (!options.sheet.empty()) {
    std::vector<std::string> inputs = {options.model, options.images, options.labels};
    for (const ImageItem& item : images.items()) inputs.push_back(images.PathOf(item));
    CheckResults(options.sheet, {""}, inputs);
  }
  Classifier classifier(model, options, device);
  const ClassNames names(options.labels, classifier.classes(), classifier.scores().blob);
  for (const ImageItem& item : images.items()) {
    CAFFE_CHECK(!item.label || *item.label < classifier.classes(), "classify: ", options.images,
                ": the label of ", item.path, " is ", *item.label, ", but the scores '",
                classifier.scores().blob, "' have ", classifier.classes(), " classes");
  }
  classifier.Observe(&images);
  const std::vector<Answers> all = AnswersFor(&images, &classifier, options.progress);
  CAFFE_CHECK(images.unreadable() < images.images(), "classify: none of the ", images.images(),
              " images of ", options.images, " can be read: ", images.items().front().error);
  WarnOfUnreadable(images);
  if (!options.sheet.empty()) WriteSheet(options.sheet, all, names);
  std::cout << (options.json ? Json(options, classifier, *device, all, names)
                             : Text(all, names, options.top))
            << std::flush;
  return 0;
}

}  // namespace caffe
