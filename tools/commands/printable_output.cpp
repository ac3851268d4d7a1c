#include "commands/printable_output.hpp"

#include <ostream>

#include "caffe/core/error.hpp"

namespace caffe {

PrintableOutput::PrintableOutput(std::ostream* stream)
    : stream_(stream), target_(stream->rdbuf(this)) {}

PrintableOutput::~PrintableOutput() {
  sync();
  stream_->rdbuf(target_);
}

PrintableOutput::int_type PrintableOutput::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof()))
    return traits_type::not_eof(character);
  const char c = traits_type::to_char_type(character);
  return xsputn(&c, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PrintableOutput::xsputn(const char* text, std::streamsize count) {
  line_.append(text, static_cast<size_t>(count));
  const size_t end = line_.rfind('\n');
  return end == line_.npos || PassOn(end + 1) ? count : 0;
}

int PrintableOutput::sync() { return PassOn(line_.size()) && target_->pubsync() == 0 ? 0 : -1; }

bool PrintableOutput::PassOn(size_t bytes) {
  const std::string text = Printable(std::string_view(line_).substr(0, bytes));
  line_.erase(0, bytes);
  const auto size = static_cast<std::streamsize>(text.size());
  return target_->sputn(text.data(), size) == size;
}

}  // namespace caffe
