#include "caffe/core/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace caffe::log {
namespace {

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kOff: break;
  }
  return spdlog::level::off;
}

Level LevelFromEnvironment() {
  const char* value = std::getenv("CAFFE_LOG");
  const std::string name = value ? value : "info";
  if (name == "debug") return Level::kDebug;
  if (name == "warning") return Level::kWarning;
  if (name == "error") return Level::kError;
  if (name == "off") return Level::kOff;
  return Level::kInfo;
}

// glog's letter for the level: D, I, W, E.
class LetterFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const char letter = message.level == spdlog::level::err    ? 'E'
                        : message.level == spdlog::level::warn ? 'W'
                        : message.level == spdlog::level::info ? 'I'
                                                               : 'D';
    out.push_back(letter);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LetterFlag>();
  }
};

struct State {
  State() : level(LevelFromEnvironment()) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LetterFlag>('*');
    // On a terminal a line may take the place of a longer progress bar: erase what is left of it.
    const char* terminal = std::getenv("TERM");
    const bool erase = ::isatty(STDERR_FILENO) && terminal && std::string_view(terminal) != "dumb";
    formatter->set_pattern(std::string("%*%m%d %H:%M:%S.%f %5t %s:%#] %v") +
                           (erase ? "\033[K" : ""));
    logger = std::make_shared<spdlog::logger>("caffe",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_formatter(std::move(formatter));
    logger->set_level(ToSpdlog(level));
    logger->flush_on(spdlog::level::info);
  }
  std::shared_ptr<spdlog::logger> logger;
  Level level;
};

// Never destroyed: destructors of other objects may still log.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void Write(Level level, std::string_view text, const Where& where) {
  state().logger->log(
      spdlog::source_loc{where.file_name(), static_cast<int>(where.line()), where.function_name()},
      ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace

void SetLevel(Level level) {
  state().level = level;
  state().logger->set_level(ToSpdlog(level));
}

Level level() { return state().level; }

bool Topic(std::string_view topic) {
  const char* value = std::getenv("CAFFE_DEBUG");
  if (!value) return false;
  const std::string list = std::string(",") + value + ",";
  return list.find("," + std::string(topic) + ",") != std::string::npos;
}

void Debug(std::string_view text, Where where) { Write(Level::kDebug, text, where); }
void Info(std::string_view text, Where where) { Write(Level::kInfo, text, where); }
void Warning(std::string_view text, Where where) { Write(Level::kWarning, text, where); }
void Error(std::string_view text, Where where) { Write(Level::kError, text, where); }

void WarnOnce(std::string_view text, Where where) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (seen->insert(std::string(text)).second) Warning(text, where);
}

}  // namespace caffe::log
