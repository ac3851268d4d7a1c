#include "caffe/core/log.hpp"

#include <fnmatch.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log_settings.hpp"
#include "log_files.hpp"

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

constexpr std::pair<const char*, Level> kLevels[] = {
    {"debug", Level::kDebug},
    {"info", Level::kInfo},
    {"warning", Level::kWarning},
    {"warn", Level::kWarning},
    {"error", Level::kError},
    {"off", Level::kOff},
    // glog's numbers. Fatal errors are exceptions here, so 3 disables the log.
    {"0", Level::kInfo},
    {"1", Level::kWarning},
    {"2", Level::kError},
    {"3", Level::kOff}};

std::optional<Level> ParseLevel(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [name, level] : kLevels) {
    if (text == name) return level;
  }
  return std::nullopt;
}

constexpr char kKnownLevels[] =
    "debug, info, warning, error and off, or glog's numbers 0 (info), 1 (warning), 2 (error) and "
    "3 (off)";

// The rank of the innermost RankScope.
thread_local int rank_of_thread = 0;

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

// glog's colours: red for errors, yellow for warnings.
class ColourFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view colour = message.level == spdlog::level::err    ? "\033[31m"
                                    : message.level == spdlog::level::warn ? "\033[33m"
                                                                           : "";
    out.append(colour.data(), colour.data() + colour.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<ColourFlag>();
  }
};

// A later line of a text that looks like the head of a log line is indented: a name with a line end
// forges no line.
std::string WithoutHeads(const std::string& text) {
  std::string lines;
  size_t copied = 0;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1)) {
    const std::string_view next = std::string_view(text).substr(end + 1, 2);
    const bool head = next.size() == 2 && std::string_view("DIWEF").find(next[0]) != text.npos &&
                      next[1] >= '0' && next[1] <= '9';
    if (!head) continue;
    lines.append(text, copied, end + 1 - copied).append("  ");
    copied = end + 1;
  }
  return lines.append(text, copied);
}

int Number(const std::string& name, const std::string& value) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  CAFFE_CHECK(error == std::errc() && rest == end, name, ": '", value, "' is not a whole number");
  return number;
}

bool Switch(const std::string& name, const std::string& value) {
  for (const char* yes : {"1", "t", "true", "y", "yes"}) {
    if (value == yes) return true;
  }
  for (const char* no : {"0", "f", "false", "n", "no"}) {
    if (value == no) return false;
  }
  CAFFE_THROW(name, ": '", value, "' is neither true nor false");
}

// The source file's name without folder and extension, as vmodule uses it.
std::string Module(const char* file) {
  std::string name = file;
  name.erase(0, name.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

class State {
 public:
  State()
      : standard_error_(std::make_shared<spdlog::sinks::stderr_sink_mt>()),
        files_(std::make_shared<LogFiles>([this](const std::string& why) {
          // Runs inside the file sink, which is locked: neither a log line nor Apply may be used.
          const std::string text =
              "caffe: log files: " + why + "; log lines go to standard error from here on\n";
          [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
          has_files_ = false;
          standard_error_->set_level(spdlog::level::trace);
        })),
        // File sink first: if it cannot write a line, the line still reaches standard error.
        logger_(std::make_shared<spdlog::logger>(
            "caffe", spdlog::sinks_init_list{files_, standard_error_})) {
    logger_->flush_on(spdlog::level::debug);
    Apply();
  }

  // Reads the environment variables. An invalid value is a warning: no program fails because of it.
  void ReadEnvironment() {
    std::vector<std::string> complaints;
    const auto set = [&](const char* variable, const std::string& name) {
      const char* value = std::getenv(variable);
      if (!value || !*value) return;
      try {
        Set(name, value);
      } catch (const caffe::Error& error) {
        complaints.push_back(Concat(variable, " is ignored: ", error.what()));
      }
    };
    for (const char* name :
         {"GLOG_minloglevel", "GLOG_v", "GLOG_vmodule", "GLOG_log_dir", "GLOG_logtostderr",
          "GLOG_alsologtostderr", "GLOG_stderrthreshold", "GLOG_log_prefix",
          "GLOG_colorlogtostderr", "GLOG_max_log_size", "GLOG_logbufsecs"}) {
      set(name, name + std::strlen("GLOG_"));
    }
    if (const char* value = std::getenv("CAFFE_LOG"); value && *value) {
      if (const auto level = ParseLevel(value)) {
        SetLevel(*level);
      } else {
        complaints.push_back(
            Concat("CAFFE_LOG=", value, " is ignored: the levels are ", kKnownLevels));
      }
    }
    for (const std::string& complaint : complaints) {
      Write(Level::kWarning, complaint, Where::current());
    }
  }

  void SetLevel(Level level) {
    level_ = level;
    Apply();
  }
  Level level() const { return level_; }

  void Set(const std::string& name, const std::string& value) {
    if (name == "minloglevel" || name == "stderrthreshold") {
      const auto level = ParseLevel(value);
      CAFFE_CHECK(level, name, ": there is no level '", value, "'; the levels are ", kKnownLevels);
      (name == "minloglevel" ? level_ : threshold_.emplace()) = *level;
    } else if (name == "v") {
      verbosity_ = Number(name, value);
    } else if (name == "vmodule") {
      SetModules(value);
    } else if (name == "log_dir") {
      if (!value.empty()) CheckFolder(value);
      files_->SetFolder(value);
      has_files_ = !value.empty();
    } else if (name == "logtostderr") {
      to_standard_error_ = Switch(name, value);
    } else if (name == "alsologtostderr") {
      also_to_standard_error_ = Switch(name, value);
    } else if (name == "log_prefix") {
      prefix_ = Switch(name, value);
    } else if (name == "colorlogtostderr") {
      colours_ = Switch(name, value);
    } else if (name == "max_log_size") {
      const int size = Number(name, value);
      CAFFE_CHECK(size > 0, name, ": ", size, " MiB; it must be positive");
      files_->SetMaxSize(int64_t{size} << 20);
    } else if (name == "logbufsecs") {
      Number(name, value);
    } else {
      CAFFE_THROW("the log has no setting '", name, "'");
    }
    Apply();
  }
  void SetProgram(const std::string& name) { files_->SetProgram(name); }

  bool OnStandardError(Level level) const {
    return logger_->should_log(ToSpdlog(level)) && standard_error_->should_log(ToSpdlog(level));
  }

  void Write(Level level, std::string_view text, const Where& where) {
    if (level == Level::kDebug && !ShowsDebug(where)) return;
    const int rank = rank_of_thread;
    if (rank > 0 && level < Level::kWarning) return;
    const std::string named = rank > 0 ? Concat("rank ", rank, ": ") : "";
    const std::string line = WithoutHeads(Printable(named + std::string(text)));
    logger_->log(spdlog::source_loc{where.file, where.line, ""}, ToSpdlog(level),
                 spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  static void CheckFolder(const std::string& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0) {
      CAFFE_CHECK(S_ISDIR(status.st_mode), "log_dir: ", folder, " is not a folder");
      if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
    }
    CAFFE_THROW("log_dir: no log files can be written to ", folder, ": ", std::strerror(errno));
  }

  void SetModules(const std::string& list) {
    std::vector<std::pair<std::string, int>> modules;
    for (size_t begin = 0; begin < list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      const std::string item = list.substr(begin, end - begin);
      const size_t equal = item.find('=');
      CAFFE_CHECK(equal != std::string::npos && equal > 0, "vmodule: '", item,
                  "' is not of the form FILE=LEVEL");
      modules.emplace_back(item.substr(0, equal), Number("vmodule", item.substr(equal + 1)));
      begin = end + 1;
    }
    modules_ = std::move(modules);
  }

  // vmodule takes precedence over v, as in glog; CAFFE_LOG=debug shows everything.
  bool ShowsDebug(const Where& where) const {
    if (level_ == Level::kDebug) return true;
    if (level_ != Level::kInfo) return false;
    if (modules_.empty()) return verbosity_ > 0;
    const std::string module = Module(where.file);
    for (const auto& [pattern, verbosity] : modules_) {
      if (::fnmatch(pattern.c_str(), module.c_str(), 0) == 0) return verbosity > 0;
    }
    return verbosity_ > 0;
  }

  void Apply() {
    const bool debug = level_ == Level::kInfo && (verbosity_ > 0 || !modules_.empty());
    logger_->set_level(debug ? spdlog::level::debug : ToSpdlog(level_));

    const bool files = has_files_ && !to_standard_error_;
    files_->set_level(files ? spdlog::level::trace : spdlog::level::off);
    const bool all = to_standard_error_ || also_to_standard_error_.value_or(!threshold_);
    const bool some = files || threshold_;
    standard_error_->set_level(all || !some ? spdlog::level::trace
                                            : ToSpdlog(threshold_.value_or(Level::kError)));

    const std::string head = prefix_ ? "%*%m%d %H:%M:%S.%f %5t %s:%#] " : "";
    // On a terminal the line may overwrite a longer progress bar: erase the rest of that.
    const char* name = std::getenv("TERM");
    const bool terminal = ::isatty(STDERR_FILENO) && name && std::string_view(name) != "dumb";
    const bool coloured = terminal && colours_;
    standard_error_->set_formatter(Formatter((coloured ? "%&" : "") + head + "%v" +
                                             (coloured ? "\033[m" : "") +
                                             (terminal ? "\033[K" : "")));
    files_->set_formatter(Formatter(head + "%v"));
  }
  static std::unique_ptr<spdlog::formatter> Formatter(const std::string& pattern) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LetterFlag>('*').add_flag<ColourFlag>('&').set_pattern(pattern);
    return formatter;
  }

  Level level_ = Level::kInfo;
  std::optional<Level> threshold_;
  std::optional<bool> also_to_standard_error_;
  bool to_standard_error_ = false, has_files_ = false, prefix_ = true, colours_ = false;
  int verbosity_ = 0;
  std::vector<std::pair<std::string, int>> modules_;
  std::shared_ptr<spdlog::sinks::stderr_sink_mt> standard_error_;
  std::shared_ptr<LogFiles> files_;
  std::shared_ptr<spdlog::logger> logger_;
};

// Never destroyed: destructors of other objects may still log.
State& state() {
  static State* const instance = [] {
    State* made = new State;
    made->ReadEnvironment();
    return made;
  }();
  return *instance;
}

void Write(Level level, std::string_view text, const Where& where) {
  state().Write(level, text, where);
}

}  // namespace

void SetLevel(Level level) { state().SetLevel(level); }

Level level() { return state().level(); }

const std::vector<SettingName>& SettingNames() {
  static const std::vector<SettingName> names{
      {"log_dir", false, "folder for log files, with links caffe.INFO, caffe.WARNING, caffe.ERROR"},
      {"logtostderr", true, "log to standard error instead of files"},
      {"alsologtostderr", true, "log to standard error besides files (default)"},
      {"stderrthreshold", false, "lowest level on standard error: 0 info, 1 warning, 2 error"},
      {"minloglevel", false, "lowest level that is logged: 0 info, 1 warning, 2 error, 3 none"},
      {"v", false, "1: debug lines, too"},
      {"vmodule", false, "debug lines of some sources: net=1,solver=1"},
      {"log_prefix", true, "level, time, thread and source line before each line (default)"},
      {"colorlogtostderr", true, "colours for warnings and errors on a terminal"},
      {"max_log_size", false, "MiB after which a log file is followed by a new one"},
      {"logbufsecs", false, "without effect: lines are written at once"}};
  return names;
}

void Set(const std::string& name, const std::string& value) { state().Set(name, value); }

void SetProgram(const std::string& name) { state().SetProgram(name); }

RankScope::RankScope(int rank) : before_(std::exchange(rank_of_thread, rank)) {}
RankScope::~RankScope() { rank_of_thread = before_; }

bool OnStandardError(Level level) { return state().OnStandardError(level); }

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
  constexpr size_t kMostTexts = 10000;
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  // Texts with names of many files must not fill the memory of a server.
  if (seen->size() >= kMostTexts) seen->clear();
  if (seen->insert(std::string(text)).second) Warning(text, where);
}

}  // namespace caffe::log
