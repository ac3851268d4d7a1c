#include "caffe/core/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr int kWidth = 20;
constexpr char kErase[] = "\033[K";

std::string Duration(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  char text[32];
  std::snprintf(text, sizeof(text), "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  return text;
}

std::string Number(double value) { return FixedText(value, value < 100 ? 1 : 0); }

}  // namespace

bool ProgressBar::Wanted() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && terminal && std::strcmp(terminal, "dumb") != 0;
}

ProgressBar::ProgressBar(std::ostream* out, int64_t first, int64_t last, int64_t images)
    : out_(out), first_(first), last_(last), images_(images), begin_(Clock::now()) {}

ProgressBar::~ProgressBar() { Clear(); }

std::string ProgressBar::Line(int64_t done, double seconds, const std::string& what) const {
  if (last_ <= 0) return what.empty() ? Concat(done) : what;  // the number is unknown
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(last_), 0.0, 1.0);
  const int filled = static_cast<int>(share * kWidth);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  char percent[8];
  std::snprintf(percent, sizeof(percent), "%3d%%", static_cast<int>(share * 100));
  std::string line = Concat("[", bar, "] ", percent, "  ", done, "/", last_);
  if (!what.empty()) return line + "  " + what;
  if (done <= first_ || seconds <= 0) return line;
  const double speed = static_cast<double>(done - first_) / seconds;
  line += "  " + Number(speed) + " it/s";
  if (images_ > 0) line += "  " + Number(speed * static_cast<double>(images_)) + " img/s";
  return line + "  ETA " + Duration(static_cast<double>(last_ - done) / speed);
}

void ProgressBar::Show(int64_t done, const std::string& what) {
  const Clock::time_point now = Clock::now();
  if (visible_ && now - shown_ < kInterval) return;
  shown_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  *out_ << Printable(Line(done, seconds, what)) << kErase << '\r' << std::flush;
}

void ProgressBar::Clear() {
  if (visible_) *out_ << kErase << std::flush;
  visible_ = false;
}

}  // namespace caffe
