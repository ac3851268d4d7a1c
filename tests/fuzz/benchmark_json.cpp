// Files of `caffe benchmark` (-merge) and reports of `caffe quantize` (-accuracy), and what is made
// of them.
#include "commands/benchmark_file.hpp"
#include "commands/benchmark_report.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

void Read(std::string_view bytes) {
  const std::string path = WriteInput("benchmark.json", bytes);
  BenchmarkRun run;
  try {
    ReadAccuracyJson(path, &run);
  } catch (const Error&) {
    // It may be a file of a benchmark.
  }
  ReadBenchmarkJson(path, &run);
  BenchmarkMarkdown(run, "image.svg");
  BenchmarkSvg(run);
  BenchmarkRun again;
  ReadBenchmarkJson(WriteInput("again.json", BenchmarkJson(run)), &again);
  if (again.cells.size() != run.cells.size()) Fault("the number of cells changes");
}

std::vector<Input> Seeds() {
  BenchmarkRun run;
  run.date = "2024-01-01";
  for (const char* type : {"float", "int8"}) {
    BenchmarkCell cell;
    cell.net = cell.name = "lenet";
    cell.framework = "Cortado";
    cell.type = type;
    cell.device = "cpu";
    cell.batch = 2;
    cell.milliseconds = 1.5;
    cell.fastest = 1;
    cell.samples = 3;
    cell.memory = 4096;
    run.cells.push_back(cell);
  }
  run.accuracies.push_back({"lenet", "int8", 99.1, 99.5});
  BenchmarkRun failed = run;
  failed.cells[1].milliseconds = 0;
  failed.cells[1].error = "out of memory";
  return {{"run", BenchmarkJson(run)}, {"failed", BenchmarkJson(failed)}};
}

std::vector<std::string> Words() {
  return {"\"net\"",        "\"name\"",
          "\"framework\"",  "\"type\"",
          "\"device\"",     "\"train\"",
          "\"batch\"",      "\"memory\"",
          "\"cells\"",      "\"accuracies\"",
          "\"agreement\"",  "\"top1\"",
          "\"float_top1\"", "\"quantized_top1\"",
          "null",           "true",
          "1e300",          "-1",
          "int8",           "\\u001b"};
}

const Registration registration(
    {.name = "benchmark_json", .run = Read, .seeds = Seeds, .words = Words});

}  // namespace
}  // namespace caffe::fuzz
