#include "text_parser.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/ignored_fields.hpp"
#include "caffe/io/unknown_names.hpp"
#include "text_scan.hpp"

namespace caffe {
namespace {

namespace pb = google::protobuf;

constexpr int kMostValues = 12;  // values of an enumeration that a message lists
constexpr int kMostRepairs = 1000;
// Each repair parses the text again. A larger text gets fewer, so that reading it ends soon.
constexpr size_t kMostRepairedBytes = 32 << 20;
constexpr size_t kMostFieldBytes = 500;  // of the list of a layer's unknown fields
constexpr size_t kMostNames = 1000;      // unknown names of one text that are described
constexpr size_t kMostWarnings = 100;

std::vector<std::string> QuotedWords(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = text.find('"'); begin != text.npos;) {
    const size_t end = text.find('"', begin + 1);
    if (end == text.npos) break;
    words.emplace_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('"', end + 1);
  }
  return words;
}

// An error or warning of protobuf's parser, in its own words, and its position.
struct Remark {
  bool error = false;
  size_t at = 0;  // the end of the word that it is about
  bool placed = false;
  std::string text;
};

class Collector final : public pb::io::ErrorCollector {
 public:
  explicit Collector(std::string_view text) : text_(text) {}

  // Two sets of names: protobuf renamed them after 3.21, so only one of them overrides.
  void AddError(int line, int column, const std::string& text) { Add(true, line, column, text); }
  void AddWarning(int line, int column, const std::string& text) { Add(false, line, column, text); }
  void RecordError(int line, int column, std::string_view text) { Add(true, line, column, text); }
  void RecordWarning(int line, int column, std::string_view text) {
    Add(false, line, column, text);
  }

  std::vector<Remark> remarks;

 private:
  void Add(bool error, int line, int column, std::string_view text) {
    MoveTo(line, column);
    remarks.push_back({error, at_, line >= 0, std::string(text)});
  }

  // Moves on to a position as protobuf counts it: a tab ends at the next multiple of 8 columns.
  // Positions mostly increase; this keeps a long file with many remarks linear.
  void MoveTo(int line, int column) {
    if (line < line_ || (line == line_ && column < column_)) at_ = line_ = column_ = 0;
    for (; line_ < line && at_ < text_.size(); ++line_, column_ = 0) {
      at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    }
    for (; column_ < column && at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      column_ = text_[at_] == '\t' ? (column_ / 8 + 1) * 8 : column_ + 1;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 0, column_ = 0;  // of at_
};

class TextParser {
 public:
  TextParser(std::string_view text, const std::string& name,
             const std::function<bool(const std::string&)>& has_type, pb::Message* message,
             std::vector<OptionalName>* optional)
      : original_(text),
        text_(text),
        name_(name),
        has_type_(has_type),
        message_(message),
        optional_(optional) {}

  // Returns a description of all errors, or "".
  std::string Parse() {
    std::vector<Remark> remarks = Remarks();
    // The parser stops at an unknown value of an enumeration. Replace it by a known one and parse
    // again.
    const size_t most =
        std::clamp<size_t>(kMostRepairedBytes / (text_.size() + 1), 1, kMostRepairs);
    for (size_t i = 0; i < most && TakeUnknownValue(remarks); ++i) remarks = Remarks();
    for (const Remark& remark : remarks) Sort(remark);
    if (fields_.empty() && values_.empty() && syntax_.empty()) {
      Warn();
      return "";
    }
    layers_ = FindLayers(original_);
    const std::string other = OtherKind();
    if (!other.empty()) return other;
    if (AllAreOptional()) {
      Warn();
      return "";
    }
    for (const Value& value : values_) Add(Describe(value));
    const std::map<const TextLayer*, std::string> own_fields = OwnFieldsOfUnknownTypes();
    for (const Field& field : fields_) {
      if (field.message != "caffe.LayerParameter" || !own_fields.count(Around(field.at))) {
        Add(Describe(field));
      }
    }
    DescribeTypes(own_fields);
    unknown_.AddMore(more_fields_);
    std::string told = unknown_.empty() ? "" : unknown_.ToString();
    if (!syntax_.empty()) told += (told.empty() ? "" : "\n") + syntax_;
    return told;
  }

 private:
  struct Field {
    size_t at;
    std::string message, field;
  };
  struct Value {
    size_t at;
    std::string field, value;
  };

  std::vector<Remark> Remarks() {
    Collector collector(text_);
    pb::TextFormat::Parser parser;
    parser.AllowUnknownField(true);
    parser.RecordErrorsTo(&collector);
    message_->Clear();
    const bool parsed = parser.ParseFromString(text_, message_);
    const bool told = std::ranges::any_of(collector.remarks, &Remark::error);
    if (!parsed && !told) collector.remarks.push_back({true, 0, false, "it cannot be parsed"});
    return std::move(collector.remarks);
  }

  // The parser reports the end of the word that it complains about, which may be on a later line.
  size_t Find(const Remark& remark, std::string_view word) const {
    const size_t found =
        word.empty() ? text_.npos : std::string_view(text_).substr(0, remark.at).rfind(word);
    return found == text_.npos ? remark.at : found;
  }

  // Records the first unknown value of an enumeration and replaces it by a known one.
  bool TakeUnknownValue(const std::vector<Remark>& remarks) {
    const auto error = std::ranges::find_if(remarks, &Remark::error);
    if (error == remarks.end() || !error->placed) return false;
    const auto words = QuotedWords(error->text);
    if (!error->text.starts_with("Unknown enumeration value of") || words.size() != 2) return false;
    // The position is the value's beginning or end, or behind comments after it.
    const size_t at = FindLastWord(text_, words[0], error->at);
    if (at == text_.npos) return false;
    const auto* type = EnumAt(at, words[1]);
    if (!type) return false;
    const std::string known = std::to_string(type->value(0)->number());
    if (known.size() > words[0].size()) return false;
    values_.push_back({at, words[1], words[0]});
    text_.replace(at, words[0].size(), known + std::string(words[0].size() - known.size(), ' '));
    return true;
  }

  const pb::Descriptor* MessageAt(size_t at) const {
    const pb::Descriptor* message = message_->GetDescriptor();
    for (const std::string& name : MessagesAround(text_, at)) {
      const auto* field = message->FindFieldByName(name);
      message = field ? field->message_type() : nullptr;
      if (!message) break;
    }
    return message;
  }

  const pb::EnumDescriptor* EnumAt(size_t at, const std::string& field) const {
    const pb::Descriptor* message = MessageAt(at);
    const auto* found = message ? message->FindFieldByName(field) : nullptr;
    return found ? found->enum_type() : nullptr;
  }

  void Sort(const Remark& remark) {
    const auto words = QuotedWords(remark.text);
    const auto line = [&] {
      const size_t at = Find(remark, words.empty() ? "" : words[0]);
      return remark.placed ? Concat("line ", LineAt(text_, at), ": ") : std::string();
    };
    const bool no_field =
        words.size() == 2 && remark.text.find("has no field named") != std::string::npos;
    if (remark.error) {
      if (syntax_.empty()) syntax_ = Shortened(line() + remark.text);
    } else if (!no_field) {
      if (warnings_.size() >= kMostWarnings) return;
      warnings_.push_back(Shortened(Concat(name_, ": ", line(), remark.text)));
    } else if (const auto note = IgnoredFieldNote(words[0], words[1]); !note.empty()) {
      // protobuf says: Message type "M" has no field named "F".
      warnings_.push_back(
          Concat(name_, ": ", words[0], " field \"", words[1], "\" of another Caffe ", note));
    } else if (fields_.size() < kMostNames) {
      fields_.push_back({Find(remark, words[1]), words[0], words[1]});
    } else {
      ++more_fields_;
    }
  }

  void Warn() const {
    for (const std::string& warning : warnings_) log::WarnOnce(warning);
  }

  const TextLayer* Around(size_t at) const { return LayerAround(layers_, at); }

  std::string Label(size_t at) const {
    const TextLayer* layer = Around(at);
    return layer ? LayerLabel(layer->name, layer->type) + ": " : "";
  }

  // Fills `optional_` if all unknown names are in layers that have rules.
  bool AllAreOptional() {
    if (!optional_ || !syntax_.empty() || more_fields_ > 0) return false;
    std::vector<OptionalName> names;
    for (const Field& field : fields_) {
      OptionalName name = Describe(field);
      name.layer = RuledLayerAround(field.at);
      if (field.message == "caffe.LayerParameter") name.layer_field = field.field;
      if (name.layer < 0 || field.message == "caffe.NetStateRule") return false;
      names.push_back(std::move(name));
    }
    for (const Value& value : values_) {
      OptionalName name = Describe(value);
      name.layer = RuledLayerAround(value.at);
      if (name.layer < 0 || MessageAt(value.at) == NetStateRule::descriptor()) return false;
      names.push_back(std::move(name));
    }
    *optional_ = std::move(names);
    return true;
  }

  // The index in the net of the layer around a position, if it has rules; else -1.
  int RuledLayerAround(size_t at) const {
    if (message_->GetDescriptor() != NetParameter::descriptor()) return -1;
    const auto& net = *static_cast<const NetParameter*>(message_);
    const auto ruled = [](const auto& layer) {
      return layer.include_size() + layer.exclude_size() > 0;
    };
    const TextLayer* around = Around(at);
    while (around && around->outer >= 0) around = &layers_[around->outer];
    if (!around || around->depth > 0) return -1;
    const auto is_first = [](const TextLayer& layer) { return layer.depth == 0; };
    const int index = static_cast<int>(std::ranges::count_if(layers_, is_first));
    const int found =
        static_cast<int>(std::count_if(layers_.data(), around, is_first));  // those before it
    // A net has layers of one format.
    if (index == net.layer_size() && net.layers_size() == 0) {
      return ruled(net.layer(found)) ? found : -1;
    }
    return index == net.layers_size() && net.layer_size() == 0 && ruled(net.layers(found)) ? found
                                                                                           : -1;
  }

  OptionalName Named(size_t at, const std::string& what, const std::string& description) const {
    OptionalName name;
    name.line = LineAt(text_, at);
    name.what = what;
    name.description = description;
    return name;
  }

  OptionalName Describe(const Field& field) const {
    const auto* descriptor =
        pb::DescriptorPool::generated_pool()->FindMessageTypeByName(field.message);
    const std::string description = DescribeForeignField(field.message, field.field);
    std::string what = Concat(Label(field.at), descriptor ? descriptor->name() : field.message,
                              " has no field \"", field.field, "\"");
    if (description.empty() && descriptor) {
      std::vector<std::string> names;
      for (int i = 0; i < descriptor->field_count(); ++i) {
        names.push_back(descriptor->field(i)->name());
      }
      const std::string near = NearName(field.field, names);
      if (!near.empty()) what += Concat("; did you mean \"", near, "\"?");
    }
    return Named(field.at, what, description);
  }

  OptionalName Describe(const Value& value) const {
    const auto* type = EnumAt(value.at, value.field);
    std::vector<std::string> names;
    std::string list;
    for (int i = 0; i < type->value_count(); ++i) {
      names.push_back(type->value(i)->name());
      list += (list.empty() ? "" : ", ") + names.back();
    }
    const std::string near = NearName(value.value, names);
    std::string what = Concat(Label(value.at), MessageAt(value.at)->name(), ".", value.field,
                              " has no value ", value.value);
    if (type->value_count() <= kMostValues) what += "; it has " + list;
    if (!near.empty()) what += Concat("; did you mean ", near, "?");
    return Named(value.at, what, "");
  }

  void Add(const OptionalName& name) { unknown_.Add(name.line, name.what, name.description); }

  // Layers of unknown types, and those of their fields that are unknown for that reason.
  std::map<const TextLayer*, std::string> OwnFieldsOfUnknownTypes() const {
    std::map<const TextLayer*, std::string> fields;
    if (!has_type_) return fields;
    for (const TextLayer& layer : layers_) {
      // Older formats have other types (upgraded later) or enumerations (reported as unknown
      // values).
      if (!layer.old && !layer.type.empty() && !has_type_(layer.type)) fields[&layer];
    }
    for (const Field& field : fields_) {
      const auto found = fields.find(Around(field.at));
      if (field.message != "caffe.LayerParameter" || found == fields.end()) continue;
      if (found->second.size() > kMostFieldBytes) continue;
      found->second += (found->second.empty() ? " with " : ", ") + field.field;
    }
    return fields;
  }

  void DescribeTypes(const std::map<const TextLayer*, std::string>& own_fields) {
    for (const auto& [layer, fields] : own_fields) {
      const std::string known = DescribeForeignLayer(layer->type);
      unknown_.Add(layer->line,
                   Concat(LayerLabel(layer->name, layer->type), ": unknown type",
                          fields.empty() ? "" : fields),
                   known.empty() ? "`caffe layers` lists all types; write a missing one in Python "
                                   "(docs/python.md, \"Layers in Python\")"
                                 : known);
    }
  }

  // A solver file passed as a net, or the reverse.
  std::string OtherKind() const {
    const auto has = [&](const char* message, std::initializer_list<const char*> names) {
      return std::ranges::any_of(fields_, [&](const Field& field) {
        return field.message == message && std::ranges::count(names, field.field) > 0;
      });
    };
    if (message_->GetDescriptor() == NetParameter::descriptor() && layers_.empty() &&
        has("caffe.NetParameter", {"net", "train_net", "test_net", "base_lr", "lr_policy",
                                   "max_iter", "test_iter", "solver_mode", "snapshot_prefix"})) {
      return "it is a solver file, but a net is expected here: pass the file that its field net or "
             "train_net names";
    }
    if (message_->GetDescriptor() == SolverParameter::descriptor() &&
        has("caffe.SolverParameter", {"layer", "layers", "input"})) {
      return "it is a net, but a solver file is expected here: one with a field net: \"…\" that "
             "names the net, base_lr, lr_policy and max_iter";
    }
    return "";
  }

  std::string_view original_;
  std::string text_;  // with unknown values of enumerations replaced by known ones
  const std::string& name_;
  const std::function<bool(const std::string&)>& has_type_;
  pb::Message* message_;
  std::vector<OptionalName>* optional_;
  std::vector<Field> fields_;
  size_t more_fields_ = 0;  // beyond those
  std::vector<Value> values_;
  std::vector<std::string> warnings_;
  std::string syntax_;
  std::vector<TextLayer> layers_;
  UnknownNames unknown_;
};

}  // namespace

void ParseText(std::string_view text, const std::string& name, const std::string& failed,
               const std::function<bool(const std::string&)>& has_type, pb::Message* message,
               std::vector<OptionalName>* optional) {
  const std::string error = TextParser(text, name, has_type, message, optional).Parse();
  CAFFE_CHECK(error.empty(), failed, error);
}

}  // namespace caffe
