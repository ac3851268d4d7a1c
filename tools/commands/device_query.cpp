#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/core/less_log.hpp"
#include "caffe/core/number_text.hpp"
#include "caffe/device/launch_record.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/file.hpp"
#include "commands/commands.hpp"
#include "commands/self_test.hpp"
#include "commands/version.hpp"

namespace caffe {
namespace {

std::string Capabilities(const DeviceInfo& info) {
  std::string text;
  const auto add = [&text](bool has, const char* name) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(info.fp64, "fp64");
  add(info.native_half, "native half");
  add(info.dp4a, "dp4a");
  add(info.matrix, "matrix instructions");
  add(info.subgroups, "subgroups");
  add(info.unified_memory, "unified memory");
  return text.empty() ? "none" : text;
}

const char* KindOf(const DeviceInfo& info) {
  return info.is_gpu ? "GPU" : info.is_cpu_type ? "processor" : "accelerator";
}

// Properties that results of the device may lack; empty for most devices.
std::string NotPromised(const DeviceInfo& info) {
  std::string text = info.rounds_division ? "" : "correctly rounded division and square roots";
  if (!info.denormals) text += (text.empty() ? "" : ", ") + std::string("floats below 2^-126");
  return text;
}

std::string Size(int64_t bytes) {
  const bool large = bytes >= int64_t{1} << 30;
  return FixedText(static_cast<double>(bytes) / (large ? 1 << 30 : 1 << 10), 1) +
         (large ? " GiB" : " KiB");
}

void Print(int index, const DeviceInfo& info) {
  std::cout << "Device " << index << ": " << info.id << "\n";
  const auto row = [](const char* name, const std::string& value) {
    if (value.empty()) return;
    char head[32];
    std::snprintf(head, sizeof(head), "  %-18s", name);
    std::cout << head << value << "\n";
  };
  row("name", info.name);
  row("vendor", info.vendor);
  row("platform", info.platform);
  row("driver", info.driver);
  row("architecture", info.architecture);
  row("compiler", info.compiler);
  row("instructions", info.instruction_level);
  row("also called", info.stable_id);
  row("kind", KindOf(info));
  row("compute units", Concat(info.compute_units));
  if (info.memory_bytes) row("memory", Size(info.memory_bytes));
  if (info.local_memory_bytes) row("local memory", Size(info.local_memory_bytes));
  row("work group size", Concat(info.max_group_size));
  row("capabilities", Capabilities(info));
  row("not promised", NotPromised(info));
}

std::string Json(int index, const DeviceInfo& info) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return Concat(
      "{\"index\": ", index, ", \"id\": ", JsonString(info.id),
      ", \"name\": ", JsonString(info.name), ", \"vendor\": ", JsonString(info.vendor),
      ", \"platform\": ", JsonString(info.platform), ", \"driver\": ", JsonString(info.driver),
      ", \"architecture\": ", JsonString(info.architecture),
      ", \"compiler\": ", JsonString(info.compiler),
      ", \"instruction_level\": ", JsonString(info.instruction_level),
      ", \"stable_id\": ", JsonString(info.stable_id), ", \"kind\": ", JsonString(KindOf(info)),
      ", \"cpu_type\": ", flag(info.is_cpu_type), ", \"compute_units\": ", info.compute_units,
      ", \"memory_bytes\": ", info.memory_bytes,
      ", \"local_memory_bytes\": ", info.local_memory_bytes,
      ", \"max_group_size\": ", info.max_group_size, ", \"fp64\": ", flag(info.fp64),
      ", \"native_half\": ", flag(info.native_half), ", \"dp4a\": ", flag(info.dp4a),
      ", \"matrix\": ", flag(info.matrix), ", \"subgroups\": ", flag(info.subgroups),
      ", \"unified_memory\": ", flag(info.unified_memory),
      ", \"rounds_division\": ", flag(info.rounds_division),
      ", \"denormals\": ", flag(info.denormals), "}");
}

// An error may quote files; a report names them without their folders.
std::string WithoutFolders(const std::string& text) {
  std::string kept;
  for (size_t i = 0; i < text.size();) {
    const size_t slash = text.find('/', i);
    const bool absolute =
        slash != std::string::npos &&
        (slash == 0 || std::string(" \"'(=:\n").find(text[slash - 1]) != text.npos);
    if (!absolute) {
      const size_t next = slash == std::string::npos ? text.size() : slash + 1;
      kept.append(text, i, next - i);
      i = next;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \"'):,;\n", slash), text.size());
    kept.append(text, i, slash - i);
    kept += text.substr(slash, end - slash).substr(text.rfind('/', end - 1) - slash + 1);
    i = end;
  }
  return kept;
}

std::string Result(const SelfTestRow& row) {
  return row.skipped ? "skip" : row.passed ? "pass" : "FAIL";
}

// The names of the kernels that each device has launched.
std::map<std::string, std::set<std::string>> LaunchedKernels() {
  std::map<std::string, std::set<std::string>> kernels;
  for (const LaunchedKernel& launch : RecordedLaunches()) {
    kernels[launch.device].insert(launch.kernel);
  }
  return kernels;
}

// The devices, a row for each family, type and device, and the kernels that were launched: what a
// report of a fault needs.
std::string SelfTestJson(const std::vector<std::pair<int, Device*>>& devices,
                         const std::vector<SelfTestRow>& rows, int failed) {
  std::string text = Concat("{\"version\": ", JsonString(kVersion), ",\n \"devices\": [");
  const char* separator = "\n  ";
  for (const auto& [index, device] : devices) {
    text += std::exchange(separator, ",\n  ") + Json(index, device->info());
  }
  text += "],\n \"notes\": [";
  separator = "";
  for (const std::string& note : Runtime::Get().notes()) {
    text += std::exchange(separator, ", ") + JsonString(WithoutFolders(note));
  }
  text += "],\n \"rows\": [";
  separator = "\n  ";
  for (const SelfTestRow& row : rows) {
    text += Concat(std::exchange(separator, ",\n  "), "{\"device\": ", JsonString(row.device),
                   ", \"type\": ", JsonString(row.type), ", \"family\": ", JsonString(row.family),
                   ", \"passed\": ", row.passed ? "true" : "false",
                   ", \"message\": ", JsonString(WithoutFolders(row.message)),
                   ", \"result\": ", JsonString(Result(row)),
                   ", \"difference\": ", JsonNumber(row.difference),
                   ", \"seconds\": ", JsonNumber(row.seconds), "}");
  }
  text += "],\n \"kernels\": {";
  separator = "\n  ";
  for (const auto& [device, kernels] : LaunchedKernels()) {
    text += Concat(std::exchange(separator, ",\n  "), JsonString(device), ": [");
    const char* comma = "";
    for (const std::string& kernel : kernels) {
      text += std::exchange(comma, ", ") + JsonString(kernel);
    }
    text += "]";
  }
  return text + Concat("},\n \"failed\": ", failed, "}");
}

// The families of a list, which is empty if it is; throws unless all exist.
std::set<std::string> WantedFamilies(const std::string& list) {
  std::vector<std::string> known = SelfTestFamilies();
  std::erase_if(known, [](const std::string& name) { return name.ends_with(kExtreme); });
  std::set<std::string> wanted;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ';');) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string all;
      for (const std::string& family : known) all += (all.empty() ? "" : "; ") + family;
      CAFFE_THROW("device_query: the self-test has no family '", name, "'; it has ", all);
    }
    wanted.insert(name);
  }
  return wanted;
}

// Prints a row for each family, type and device; returns the exit status.
int SelfTestDevices(const std::vector<std::pair<int, Device*>>& devices, const Options& options) {
  std::vector<DataType> types;
  for (const std::string& name : options.arguments) types.push_back(DataTypeByName(name));
  if (types.empty()) {
    types = FloatTypes();
    types.push_back(kQuant8);
    types.push_back(kQuant16);
  }
  const std::set<std::string> families = WantedFamilies(options.families);
  const LessLog less_log;
  RecordLaunches();
  int failed = 0, skipped = 0;
  std::vector<SelfTestRow> rows;
  const auto write = [&] {
    if (options.report.empty()) return;
    WriteFileAtomically(options.report, SelfTestJson(devices, rows, failed) + "\n");
  };
  write();  // so that a path that cannot be written is an error before the work
  if (!options.json) {
    std::printf("%-10s %-9s %-24s %-6s %s\n", "device", "type", "family", "result", "difference");
  }
  for (const auto& [index, device] : devices) {
    SelfTest(
        device, types,
        [&](const SelfTestRow& row) {
          failed += !row.passed && !row.skipped;
          skipped += row.skipped;
          rows.push_back(row);
          if (options.json) return;
          std::printf("%-10s %-9s %-24s %-6s %-9s %s\n", row.device.c_str(), row.type.c_str(),
                      row.family.c_str(), Result(row).c_str(),
                      GeneralText(row.difference, 2).c_str(), row.message.c_str());
          std::fflush(stdout);
        },
        families);
    write();
  }
  const int ran = static_cast<int>(rows.size()) - skipped;
  if (options.json) {
    std::cout << SelfTestJson(devices, rows, failed) << std::endl;
  } else {
    std::cout << ran - failed << " of " << ran << " passed";
    if (skipped > 0) std::cout << ", " << skipped << " skipped";
    std::cout << std::endl;
  }
  return failed > 0 || ran == 0 ? 1 : 0;
}

}  // namespace

int DeviceQueryCommand(const Options& options) {
  Runtime& runtime = Runtime::Get();
  std::vector<std::pair<int, Device*>> chosen;
  if (!options.gpu.empty() && options.gpu != "all") {
    for (size_t begin = 0; begin <= options.gpu.size();) {
      const size_t end = std::min(options.gpu.find(',', begin), options.gpu.size());
      Device* device = runtime.DeviceByName(options.gpu.substr(begin, end - begin));
      chosen.emplace_back(runtime.IndexOf(device), device);
      begin = end + 1;
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  } else {
    chosen.emplace_back(-1, runtime.cpu());
    for (size_t i = 0; i < runtime.devices().size(); ++i) {
      chosen.emplace_back(static_cast<int>(i), runtime.devices()[i]);
    }
  }
  CAFFE_CHECK(options.self_test || (options.report.empty() && options.families.empty()),
              "device_query: -report and -families need --self-test");
  if (options.self_test) return SelfTestDevices(chosen, options);
  CAFFE_CHECK(options.arguments.empty(), "device_query: unexpected argument '",
              options.arguments.empty() ? "" : options.arguments[0],
              "'; types are arguments of --self-test");
  // Opens the file as the first program does, which finds out whether it can be written.
  runtime.program_cache().Find("");
  const ProgramCache::State cache = runtime.program_cache().state();
  if (options.json) {
    std::string text;
    for (const auto& [index, device] : chosen) {
      text += Concat(text.empty() ? "" : ",\n  ", Json(index, device->info()));
    }
    std::cout << "{\"devices\": [\n  " << text
              << "],\n \"default\": " << JsonString(runtime.BestDevice()->info().id)
              << ",\n \"cache\": {\"path\": " << JsonString(cache.path.string())
              << ", \"mode\": " << JsonString(ProgramCache::ModeName(cache.mode))
              << ", \"programs\": " << cache.rows << ", \"bytes\": " << cache.bytes << "}}"
              << std::endl;
    return 0;
  }
  for (const auto& [index, device] : chosen) Print(index, device->info());
  for (const std::string& note : runtime.notes()) std::cout << "Note: " << note << "\n";
  std::cout << "Default device: " << runtime.BestDevice()->info().id << "\n";
  std::cout << "Program cache: "
            << (cache.path.empty() ? std::string("in memory only") : cache.path.string()) << " ("
            << ProgramCache::ModeName(cache.mode) << "), " << cache.rows << " programs, "
            << Size(cache.bytes);
  if (!cache.disabled_reason.empty()) std::cout << ": " << cache.disabled_reason;
  std::cout << std::endl;
  return 0;
}

}  // namespace caffe
