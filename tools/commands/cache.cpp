#include "cache.hpp"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <limits>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/device/program_cache.hpp"

namespace caffe {
namespace {

constexpr char kUsage[] = "usage: caffe cache list | verify | prune [--max-size N[K|M|G] | --all]";
constexpr char kHelp[] = R"(
The cache of programs that were compiled for OpenCL and CUDA devices; its folder is CAFFE_CACHE_DIR,
else cortado in XDG_CACHE_HOME or in .cache of HOME. A folder that other users can write is not used.

  list      a row for each program, the size of all, and the number of tuning results (caffe tune)
  verify    compare every program with its checksum; exit status 1 if one was damaged
  prune     remove the least recently used programs until --max-size is kept (default 1G), or --all,
            which removes the tuning results, too
)";

int Fail(const std::string& text) {
  std::cerr << "caffe cache: " << Printable(text) << "\n";
  return 1;
}

// "200M" → 209715200.
std::optional<int64_t> ParseSize(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0) {
    return std::nullopt;
  }
  int shift = 0;
  if (rest != end) {
    switch (std::toupper(static_cast<unsigned char>(*rest))) {
      case 'K': shift = 10; break;
      case 'M': shift = 20; break;
      case 'G': shift = 30; break;
      default: return std::nullopt;
    }
    if (rest + 1 != end) {
      return std::nullopt;
    }
  }
  if (value > std::numeric_limits<int64_t>::max() >> shift) {
    return std::nullopt;
  }
  return value << shift;
}

std::string SizeText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) {
    value /= 1024;
  }
  return Concat(FixedText(value, unit == 0 ? 0 : 1), " ", kUnits[unit]);
}

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local;
  char text[32] = "?";
  if (::localtime_r(&time, &local) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
  }
  return text;
}

std::string Counted(int64_t count) { return Concat(count, count == 1 ? " program" : " programs"); }

int List(ProgramCache& cache) {
  const std::vector<ProgramCache::Row> rows = cache.List();
  const ProgramCache::State state = cache.state();
  if (!state.disabled_reason.empty()) {
    return 1;  // the warning was printed already
  }
  if (!rows.empty()) {
    std::printf("%-12s  %10s  %8s  %-16s  %-16s  %-24s  %s\n", "KEY", "SIZE", "BUILD s", "CREATED",
                "LAST USED", "DEVICE", "PROGRAM");
  }
  for (const ProgramCache::Row& row : rows) {
    std::printf("%-12s  %10s  %8s  %-16s  %-16s  %-24s  %s%s\n",
                Printable(row.key.substr(0, 12)).c_str(), SizeText(row.bytes).c_str(),
                FixedText(row.build_seconds, 3).c_str(), TimeText(row.created).c_str(),
                TimeText(row.last_used).c_str(), Printable(row.device).c_str(),
                Printable(row.program).c_str(), row.refused ? " (refused by the device)" : "");
  }
  std::printf("%s, %s, in %s\n", Counted(state.rows).c_str(), SizeText(state.bytes).c_str(),
              Printable(state.path.string()).c_str());
  const auto tuned = static_cast<long long>(state.tuning_rows);
  std::printf("%lld algorithm%s chosen by measurement\n", tuned, tuned == 1 ? "" : "s");
  return 0;
}

int Verify(ProgramCache& cache) {
  const ProgramCache::VerifyReport report = cache.Verify();
  const ProgramCache::State state = cache.state();
  if (!state.disabled_reason.empty()) {
    return 1;
  }
  std::printf(
      "%s checked, %lld with a wrong checksum%s; the file %s\n", Counted(report.rows).c_str(),
      static_cast<long long>(report.unsound),
      report.unsound > 0 && state.mode == ProgramCache::Mode::kReadWrite ? " (removed)" : "",
      report.file_damage.empty() ? "is intact" : "was damaged and has been set aside");
  return report.unsound == 0 && report.file_damage.empty() ? 0 : 1;
}

int Prune(ProgramCache& cache, int64_t max_bytes, bool all) {
  const ProgramCache::PruneReport report = cache.Prune(max_bytes, all);
  if (!cache.state().disabled_reason.empty()) {
    return 1;
  }
  std::printf("removed %s, %s; kept %s, %s\n", Counted(report.removed_rows).c_str(),
              SizeText(report.removed_bytes).c_str(), Counted(report.kept_rows).c_str(),
              SizeText(report.kept_bytes).c_str());
  return 0;
}

}  // namespace

int CacheCommand(const std::vector<std::string>& arguments) {
  using Mode = ProgramCache::Mode;
  for (const std::string& argument : arguments) {
    if (argument != "--help" && argument != "-help" && argument != "-h" && argument != "help") {
      continue;
    }
    std::cout << kUsage << "\n" << kHelp << std::flush;
    return 0;
  }
  const std::string verb = arguments.empty() ? "" : arguments[0];
  if (verb != "list" && verb != "verify" && verb != "prune") {
    return Fail(kUsage);
  }
  int64_t max_bytes = ProgramCache::Options().size_cap_bytes;
  bool all = false, limited = false;
  for (size_t i = 1; i < arguments.size(); ++i) {
    // As in gflags: one dash or two, the value after a space or an equals sign.
    std::string name = arguments[i];
    std::optional<std::string> value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name.starts_with("--")) {
      name.erase(0, 1);
    }
    if (verb == "prune" && name == "-all" && !value) {
      all = true;
    } else if (verb == "prune" && (name == "-max-size" || name == "-max_size")) {
      if (!value && i + 1 < arguments.size()) {
        value = arguments[++i];
      }
      const std::optional<int64_t> size = ParseSize(value.value_or(""));
      if (!size) {
        return Fail(Concat("--max-size needs a number of bytes, such as 200M, not \"",
                           value.value_or(""), "\""));
      }
      max_bytes = *size;
      limited = true;
    } else {
      return Fail(Concat("unknown argument ", arguments[i], "; ", kUsage));
    }
  }
  if (all && limited) {
    return Fail("use either --all or --max-size");
  }
  const std::filesystem::path directory = ProgramCache::DefaultDirectory();
  if (directory.empty()) {
    return Fail("no cache directory: CAFFE_CACHE_DIR, XDG_CACHE_HOME and HOME are not set");
  }
  const bool read_only = ProgramCache::ModeFromEnvironment() == Mode::kReadOnly;
  if (verb == "prune" && read_only) {
    return Fail("CAFFE_CACHE=ro forbids prune");
  }
  // Listing neither creates a cache nor repairs one.
  std::error_code unknown;
  const bool exists = std::filesystem::exists(directory / "programs.db", unknown);
  ProgramCache cache(directory,
                     read_only || verb == "list" || !exists ? Mode::kReadOnly : Mode::kReadWrite);
  if (verb == "list") {
    return List(cache);
  }
  if (!exists) {
    cache.List();  // warns about a folder that is not used
  }
  return verb == "verify" ? Verify(cache) : Prune(cache, max_bytes, all);
}

}  // namespace caffe
