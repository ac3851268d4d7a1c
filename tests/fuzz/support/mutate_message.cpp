#include "fuzz/support/mutate_message.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace caffe::fuzz {
namespace {

namespace pb = google::protobuf;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  void Mutate(pb::Message* message) {
    Collect(message, 0);
    const int changes = 1 + Draw(4);
    for (int i = 0; i < changes; ++i) {
      // The messages below a removed one are gone: collect again.
      messages_.clear();
      texts_.clear();
      Collect(message, 0);
      Change(messages_[Draw(messages_.size())]);
    }
  }

 private:
  size_t Draw(size_t count) { return random_() % count; }

  void Collect(pb::Message* message, int depth) {
    messages_.push_back(message);
    if (depth > 20) return;
    const pb::Reflection* fields = message->GetReflection();
    std::vector<const pb::FieldDescriptor*> set;
    fields->ListFields(*message, &set);
    for (const pb::FieldDescriptor* field : set) {
      const int count = field->is_repeated() ? fields->FieldSize(*message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
          Collect(field->is_repeated() ? fields->MutableRepeatedMessage(message, field, i)
                                       : fields->MutableMessage(message, field),
                  depth + 1);
        } else if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING) {
          texts_.push_back(field->is_repeated() ? fields->GetRepeatedString(*message, field, i)
                                                : fields->GetString(*message, field));
        }
      }
    }
  }

  void Change(pb::Message* message) {
    const pb::Descriptor* type = message->GetDescriptor();
    if (type->field_count() == 0) return;
    const pb::Reflection* fields = message->GetReflection();
    std::vector<const pb::FieldDescriptor*> set;
    fields->ListFields(*message, &set);
    // Mostly what is there; sometimes a field that is not.
    const pb::FieldDescriptor* field =
        set.empty() || Draw(3) == 0 ? type->field(static_cast<int>(Draw(type->field_count())))
                                    : set[Draw(set.size())];
    if (!field->is_repeated()) {
      if (Draw(6) == 0) {
        fields->ClearField(message, field);
      } else {
        Set(message, field, -1);
      }
      return;
    }
    const int count = fields->FieldSize(*message, field);
    const size_t choice = Draw(6);
    if (count == 0 || choice == 0) {
      Add(message, field);
    } else if (choice == 1) {
      fields->RemoveLast(message, field);
    } else if (choice == 2 && count > 1) {
      fields->SwapElements(message, field, static_cast<int>(Draw(count)),
                           static_cast<int>(Draw(count)));
    } else if (choice == 3 && field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      // A copy of an element.
      const std::unique_ptr<pb::Message> copy(
          fields->GetRepeatedMessage(*message, field, static_cast<int>(Draw(count))).New());
      copy->CopyFrom(fields->GetRepeatedMessage(*message, field, static_cast<int>(Draw(count))));
      fields->AddMessage(message, field)->CopyFrom(*copy);
    } else {
      Set(message, field, static_cast<int>(Draw(count)));
    }
  }

  int64_t Integer(int64_t old) {
    static constexpr int64_t kSpecial[] = {
        0,     1,       2,         3,         7,          16, 100,       1000,     65535,
        65536, 1 << 20, INT32_MAX, INT32_MIN, UINT32_MAX, -1, INT64_MAX, INT64_MIN};
    switch (Draw(4)) {
      case 0: return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
      case 1: return static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
      case 2: return static_cast<int64_t>(Draw(12));
      default: return kSpecial[Draw(std::size(kSpecial))];
    }
  }
  double Number(double old) {
    static constexpr double kSpecial[] = {0, 1, -1, 0.5, 2, 1e-30, 1e30, INFINITY, -INFINITY, NAN};
    return Draw(3) == 0 ? old * 2 : kSpecial[Draw(std::size(kSpecial))];
  }
  std::string Text(const std::string& old) {
    if (!texts_.empty() && Draw(2) == 0) return texts_[Draw(texts_.size())];
    std::string text = old;
    if (!text.empty() && Draw(2) == 0) {
      text[Draw(text.size())] = static_cast<char>(random_());
    } else {
      static const char* const kPieces[] = {"", "/", "..", "a", "\x1b[31m", "%s", "\xff", "0", ","};
      text += kPieces[Draw(std::size(kPieces))];
    }
    return text;
  }

// Calls Add<Type>, SetRepeated<Type> or Set<Type> with a value made from the old one.
#define CAFFE_FUZZ_SET(Type, Value)                                                             \
  {                                                                                             \
    const auto old = index >= 0             ? fields->GetRepeated##Type(*message, field, index) \
                     : field->is_repeated() ? decltype(fields->Get##Type(*message, field))()    \
                                            : fields->Get##Type(*message, field);               \
    const auto value = static_cast<std::decay_t<decltype(old)>>(Value(old));                    \
    if (index >= 0) {                                                                           \
      fields->SetRepeated##Type(message, field, index, value);                                  \
    } else if (field->is_repeated()) {                                                          \
      fields->Add##Type(message, field, value);                                                 \
    } else {                                                                                    \
      fields->Set##Type(message, field, value);                                                 \
    }                                                                                           \
    break;                                                                                      \
  }

  // Sets an element of a repeated field, adds one (index -1), or sets a single field.
  void Set(pb::Message* message, const pb::FieldDescriptor* field, int index) {
    const pb::Reflection* fields = message->GetReflection();
    const auto boolean = [this](bool) { return Draw(2) == 1; };
    const auto integer = [this](auto old) { return Integer(static_cast<int64_t>(old)); };
    const auto number = [this](auto old) { return Number(old); };
    const auto text = [this](const std::string& old) { return Text(old); };
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_INT32: CAFFE_FUZZ_SET(Int32, integer)
      case pb::FieldDescriptor::CPPTYPE_INT64: CAFFE_FUZZ_SET(Int64, integer)
      case pb::FieldDescriptor::CPPTYPE_UINT32: CAFFE_FUZZ_SET(UInt32, integer)
      case pb::FieldDescriptor::CPPTYPE_UINT64: CAFFE_FUZZ_SET(UInt64, integer)
      case pb::FieldDescriptor::CPPTYPE_FLOAT: CAFFE_FUZZ_SET(Float, number)
      case pb::FieldDescriptor::CPPTYPE_DOUBLE: CAFFE_FUZZ_SET(Double, number)
      case pb::FieldDescriptor::CPPTYPE_BOOL: CAFFE_FUZZ_SET(Bool, boolean)
      case pb::FieldDescriptor::CPPTYPE_STRING: CAFFE_FUZZ_SET(String, text)
      case pb::FieldDescriptor::CPPTYPE_ENUM: {
        const pb::EnumDescriptor* values = field->enum_type();
        const auto* value = values->value(static_cast<int>(Draw(values->value_count())));
        if (index >= 0) {
          fields->SetRepeatedEnum(message, field, index, value);
        } else if (field->is_repeated()) {
          fields->AddEnum(message, field, value);
        } else {
          fields->SetEnum(message, field, value);
        }
        break;
      }
      case pb::FieldDescriptor::CPPTYPE_MESSAGE: {
        pb::Message* inner = index >= 0 ? fields->MutableRepeatedMessage(message, field, index)
                             : field->is_repeated() ? fields->AddMessage(message, field)
                                                    : fields->MutableMessage(message, field);
        if (inner->GetDescriptor() != message->GetDescriptor() || Draw(4) == 0) Change(inner);
        break;
      }
    }
  }
#undef CAFFE_FUZZ_SET

  void Add(pb::Message* message, const pb::FieldDescriptor* field) { Set(message, field, -1); }

  std::minstd_rand random_;
  std::vector<pb::Message*> messages_;
  std::vector<std::string> texts_;
};

}  // namespace

void MutateMessage(pb::Message* message, uint32_t seed) { Mutator(seed).Mutate(message); }

std::string MutateBytes(const pb::Message& prototype, std::string_view bytes, size_t most,
                        uint32_t seed) {
  const std::unique_ptr<pb::Message> message(prototype.New());
  if (!message->ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) return "";
  MutateMessage(message.get(), seed);
  std::string changed = message->SerializePartialAsString();
  return changed.size() <= most ? changed : "";
}

}  // namespace caffe::fuzz
