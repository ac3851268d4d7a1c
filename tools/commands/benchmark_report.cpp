#include "commands/benchmark_report.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"
#include "commands/bar_chart.hpp"
#include "commands/thesis_tables.hpp"

namespace caffe {
namespace {

// Four digits of a number above 1, and never an exponent.
std::string Digits(double value) {
  return FixedText(value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

std::string MiB(const std::optional<int64_t>& bytes) {
  return bytes ? Digits(static_cast<double>(*bytes) / (1 << 20)) : "-";
}

bool Measured(const BenchmarkCell& cell) { return cell.milliseconds > 0; }

bool SameSide(const BenchmarkCell& a, const BenchmarkCell& b) {
  return a.device == b.device && a.device_name == b.device_name && a.batch == b.batch &&
         a.train == b.train;
}

const BenchmarkCell* InFloat(const BenchmarkRun& run, const BenchmarkCell& cell) {
  for (const BenchmarkCell& other : run.cells) {
    if (other.type == "float" && other.net == cell.net && other.framework == cell.framework &&
        SameSide(other, cell) && Measured(other)) {
      return &other;
    }
  }
  return nullptr;
}

const BenchmarkAccuracy* AccuracyOf(const BenchmarkRun& run, const BenchmarkCell& cell) {
  for (const BenchmarkAccuracy& accuracy : run.accuracies) {
    if (accuracy.type == cell.type && accuracy.name == cell.name) return &accuracy;
  }
  return nullptr;
}

// Which of the optional columns have a number.
struct Columns {
  bool framework = false, phase = false, plain = false, top1 = false, agreement = false;
  explicit Columns(const BenchmarkRun& run) {
    for (const BenchmarkCell& cell : run.cells) {
      framework |= cell.framework != run.cells[0].framework;
      phase |= cell.train != run.cells[0].train;
      plain |= cell.plain_memory.has_value();
      const BenchmarkAccuracy* accuracy = AccuracyOf(run, cell);
      top1 |= accuracy && accuracy->top1;
      agreement |= accuracy && accuracy->agreement;
    }
  }
};

std::string Head(const Columns& columns) {
  std::string names = "| net | device | batch |", lines = "|---|---|---:|";
  const auto add = [&](const char* name, const char* line) {
    names += Concat(" ", name, " |");
    lines += line;
  };
  if (columns.framework) add("framework", "---|");
  if (columns.phase) add("phase", "---|");
  add("type", "---|");
  for (const char* name : {"ms", "images/s", "FP32's", "memory", "predicted"}) add(name, "---:|");
  if (columns.plain) add("plain", "---:|");
  add("file", "---:|");
  if (columns.top1) add("top-1", "---:|");
  if (columns.agreement) add("same class", "---:|");
  return names + "\n" + lines + "\n";
}

std::string Percent(const std::optional<double>& value) {
  return value ? FixedText(*value, 2) + " %" : "-";
}

std::string Row(const BenchmarkRun& run, const Columns& columns, const BenchmarkCell& cell) {
  const BenchmarkCell* exact = InFloat(run, cell);
  const bool measured = Measured(cell);
  std::string row = Concat("| ", cell.net, " | ", cell.device, " | ", cell.batch, " |");
  const auto add = [&](const std::string& text) { row += " " + text + " |"; };
  if (columns.framework) add(cell.framework);
  if (columns.phase) add(cell.train ? "TRAIN" : "TEST");
  add(cell.type);
  add(measured ? Digits(cell.milliseconds) : "failed");
  add(measured ? Digits(cell.images_per_second()) : "-");
  add(measured && exact ? FixedText(cell.milliseconds / exact->milliseconds, 2) : "-");
  add(MiB(cell.memory));
  add(MiB(cell.predicted));
  if (columns.plain) add(MiB(cell.plain_memory));
  add(MiB(cell.storage));
  const BenchmarkAccuracy* accuracy = AccuracyOf(run, cell);
  if (columns.top1) add(Percent(accuracy ? accuracy->top1 : std::nullopt));
  if (columns.agreement) add(Percent(accuracy ? accuracy->agreement : std::nullopt));
  return row + "\n";
}

std::string Where(const BenchmarkCell& cell) {
  return Concat(cell.net, " on ", cell.device, ", batch ", cell.batch);
}

// For each net, device and batch size with INT8, whether another type of the framework is faster.
std::string AboutInt8(const BenchmarkRun& run) {
  std::string slower;
  int fastest = 0;
  for (const BenchmarkCell& cell : run.cells) {
    if (cell.type != "int8" || !Measured(cell)) continue;
    const BenchmarkCell* best = &cell;
    bool others = false;
    for (const BenchmarkCell& other : run.cells) {
      if (other.net != cell.net || other.framework != cell.framework || !SameSide(other, cell) ||
          !Measured(other)) {
        continue;
      }
      others |= other.type != "int8";
      if (other.milliseconds < best->milliseconds) best = &other;
    }
    if (!others) continue;
    if (best == &cell) {
      ++fastest;
      continue;
    }
    slower += Concat("* ", Where(cell), ": ", best->type, " takes ", Digits(best->milliseconds),
                     " ms, int8 ", Digits(cell.milliseconds), " ms\n");
  }
  if (slower.empty()) {
    return fastest ? Concat("INT8 is the fastest type in all ", fastest, " cases.\n\n") : "";
  }
  return Concat("INT8 is the fastest type in ", fastest, " cases. It is not the fastest here:\n\n",
                slower, "\n");
}

// Each reason once, with the cells that have it.
std::string Failures(const BenchmarkRun& run) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const BenchmarkCell& cell : run.cells) {
    if (cell.error.empty()) continue;
    auto same = std::find_if(reasons.begin(), reasons.end(),
                             [&](const auto& reason) { return reason.first == cell.error; });
    if (same == reasons.end()) same = reasons.insert(same, {cell.error, {}});
    same->second.push_back(Concat(Where(cell), ", ", cell.type));
  }
  constexpr size_t kNamed = 4;
  std::string text;
  for (const auto& [reason, cells] : reasons) {
    text += "* " + reason + ": ";
    for (size_t i = 0; i < std::min(cells.size(), kNamed); ++i) text += (i ? "; " : "") + cells[i];
    text += cells.size() > kNamed ? Concat("; and ", cells.size() - kNamed, " more\n") : "\n";
  }
  return text.empty() ? "" : "What was not measured:\n\n" + text + "\n";
}

std::string DeviceNames(const BenchmarkRun& run) {
  std::map<std::string, std::string> names;
  for (const BenchmarkCell& cell : run.cells) {
    if (!cell.device_name.empty()) names[cell.device] = cell.device_name;
  }
  std::string text;
  for (const auto& [device, name] : names) {
    text += Concat(text.empty() ? "" : "; ", device, ": ", name);
  }
  return text;
}

}  // namespace

std::string BenchmarkMarkdown(const BenchmarkRun& run, const std::string& image) {
  std::string text =
      Concat("# Nets, types, devices and batch sizes\n\n* Date: ", run.date, "; ", run.version,
             "; host: ", run.host, "\n* Devices: ", DeviceNames(run),
             "\n* *ms*: median time of a pass, with the wait for the device; *FP32's*: this time "
             "divided by that of float\n* *memory*: the most that the allocator of the device held "
             "for the net, in MiB; *predicted*: what the net computes from its shapes; *plain*: "
             "the most with a memory of its own for each blob; *file*: the caffemodel\n");
  if (std::any_of(run.cells.begin(), run.cells.end(),
                  [](const BenchmarkCell& cell) { return cell.random_ranges; })) {
    text +=
        "* int8 and int16 have ranges that were observed on random inputs: their outputs mean "
        "nothing\n";
  }
  if (run.interrupted) text += "* The run was interrupted: cells are missing\n";
  const Columns columns(run);
  text += "\n" + Head(columns);
  for (const BenchmarkCell& cell : run.cells) text += Row(run, columns, cell);
  text += "\n";
  if (!image.empty()) text += "![images per second](" + image + ")\n\n";
  text += AboutInt8(run) + Failures(run) + ThesisTables(run);
  text.pop_back();  // the empty line at the end
  return Printable(text);
}

std::string BenchmarkSvg(const BenchmarkRun& run) {
  std::vector<BarChart> charts;
  std::vector<const BenchmarkCell*> firsts;  // of each chart
  for (const BenchmarkCell& cell : run.cells) {
    if (!Measured(cell)) continue;
    size_t index = 0;
    while (index < firsts.size() && !SameSide(*firsts[index], cell)) ++index;
    if (index == firsts.size()) {
      firsts.push_back(&cell);
      charts.push_back({Concat("images/s: ", cell.device, ", batch ", cell.batch,
                               cell.train ? ", forward and backward" : ""),
                        {}});
    }
    std::vector<BarChart::Group>& groups = charts[index].groups;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const BarChart::Group& one) { return one.name == cell.net; });
    if (group == groups.end()) group = groups.insert(group, {cell.net, {}});
    const std::string series =
        cell.framework == "Cortado" ? cell.type : cell.framework + ", " + cell.type;
    group->bars.push_back({series, cell.images_per_second()});
  }
  return charts.empty() ? "" : BarChartsSvg(charts);
}

std::string BenchmarkLine(const BenchmarkCell& cell) {
  const std::string head = Concat(Where(cell), ", ", cell.type, ": ");
  if (!Measured(cell)) return head + cell.error;
  return Concat(head, Digits(cell.milliseconds), " ms, ", Digits(cell.images_per_second()),
                " images/s, memory ", MiB(cell.memory), " MiB, file ", MiB(cell.storage), " MiB",
                cell.error.empty() ? "" : "; ", cell.error);
}

}  // namespace caffe
