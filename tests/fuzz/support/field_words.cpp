#include "fuzz/support/field_words.hpp"

#include <google/protobuf/descriptor.h>

#include <set>

namespace caffe::fuzz {
namespace {

namespace pb = google::protobuf;

void Collect(const pb::Descriptor& message, std::set<const pb::Descriptor*>* seen,
             std::set<std::string>* words) {
  if (!seen->insert(&message).second) return;
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor* field = message.field(i);
    words->insert(field->name());
    if (field->message_type()) Collect(*field->message_type(), seen, words);
    for (int v = 0; field->enum_type() && v < field->enum_type()->value_count(); ++v) {
      words->insert(field->enum_type()->value(v)->name());
    }
  }
}

}  // namespace

std::vector<std::string> FieldWords(const pb::Descriptor& message) {
  std::set<const pb::Descriptor*> seen;
  std::set<std::string> words;
  Collect(message, &seen, &words);
  return {words.begin(), words.end()};
}

}  // namespace caffe::fuzz
