#include "commands/thesis_tables.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/core/number_text.hpp"

namespace caffe {
namespace {

constexpr const char* kDense = "caffenet";
constexpr const char* kExperts = "caffenet_moe";
// The types of the columns, and their names in the thesis.
constexpr const char* kTypes[] = {"float", "half", "int16", "int8"};
constexpr const char* kTypeNames[] = {"FP32", "FP16", "INT16", "INT8"};

// The thesis says MiB, but its numbers are those of the parameters in 10^6 bytes.
struct Storage {
  double dense, experts;
};
constexpr Storage kStorage[] = {{243.9, 309.9}, {121.9, 155.0}, {121.9, 155.0}, {61.0, 77.5}};

struct Memory {
  const char* backend;
  const char* type;
  int dense_plain, dense_reduced, experts_plain, experts_reduced;  // MiB, batch 512
};
constexpr Memory kMemory[] = {
    {"CUDA", "FP32", 3351, 2281, 6753, 3991},    {"CUDA", "FP16", 2389, 1407, 1409, 1209},
    {"CUDA", "INT16", 2391, 1409, 4535, 2631},   {"CUDA", "INT8", 1815, 1209, 3361, 2061},
    {"OpenCL", "FP32", 3275, 2047, 6211, 3449},  {"OpenCL", "FP16", 2341, 1379, 4329, 2432},
    {"OpenCL", "INT16", 2343, 1361, 4361, 2457}, {"OpenCL", "INT8", 1771, 1165, 3187, 1887}};

struct Times {
  const char* device;
  const char* backend;
  int batch;
  int dense[4], experts[4];  // ms; 0: not available
};
constexpr Times kTimes[] = {
    {"nVidia GTX 1080", "CUDA", 512, {510, 22333, 2350, 565}, {587, 79770, 7743, 1626}},
    {"nVidia GTX 1080", "OpenCL", 512, {728, 0, 1425, 715}, {1541, 0, 4776, 2342}},
    {"nVidia GT 1030", "CUDA", 64, {353, 18014, 1595, 437}, {385, 63934, 5136, 1267}},
    {"nVidia GT 1030", "OpenCL", 64, {542, 0, 1258, 594}, {1124, 0, 3884, 1824}},
    {"AMD Vega FE", "OpenCL", 512, {863, 380, 828, 931}, {1353, 1017, 2433, 2797}},
    {"AMD RX 480", "OpenCL", 512, {1675, 1014, 1863, 2038}, {2453, 2373, 5002, 5881}},
    {"Intel Iris Pro 540", "OpenCL", 64, {1209, 0, 24737, 9926}, {3600, 0, 41403, 14789}},
    {"ARM Mali T764", "OpenCL", 4, {4321, 2461, 4045, 3606}, {2422, 1435, 5837, 6096}}};

std::string MiB(const std::optional<int64_t>& bytes) {
  return bytes ? FixedText(static_cast<double>(*bytes) / (1 << 20), 1) : "-";
}

// A framework on a device with a batch size: a row of our own.
struct Side {
  std::string framework, device, device_name;
  int64_t batch;
  bool operator==(const Side&) const = default;
};

class Tables {
 public:
  explicit Tables(const BenchmarkRun& run) : run_(run) {
    for (const BenchmarkCell& cell : run.cells) {
      if (cell.train || (cell.net != kDense && cell.net != kExperts)) continue;
      const Side side{cell.framework, cell.device, cell.device_name, cell.batch};
      if (std::find(sides_.begin(), sides_.end(), side) == sides_.end()) sides_.push_back(side);
    }
  }

  bool empty() const { return sides_.empty(); }

  std::string StorageTable() const {
    std::string text =
        "Table 4.2, storage of the parameters in 10^6 bytes (the thesis says MiB, but 60,965,224 "
        "parameters of\n4 bytes are 243.9 10^6 bytes):\n\n"
        "| type | ImageNet, thesis | caffenet | ImageNet-MOE, thesis | caffenet_moe |\n"
        "|---|---:|---:|---:|---:|\n";
    for (size_t t = 0; t < std::size(kTypes); ++t) {
      text += Concat("| ", kTypeNames[t], " | ", FixedText(kStorage[t].dense, 1), " | ",
                     StorageOf(kDense, kTypes[t]), " | ", FixedText(kStorage[t].experts, 1), " | ",
                     StorageOf(kExperts, kTypes[t]), " |\n");
    }
    return text;
  }

  std::string MemoryTable() const {
    std::string text =
        "Table 4.3, memory of the device in MiB (thesis: batch 512; its row CUDA FP16 of "
        "ImageNet-MOE\nrepeats other cells of its table). *Plain*: a memory for each blob.\n\n"
        "| device | type | ImageNet plain | reduced | ImageNet-MOE plain | reduced |\n"
        "|---|---|---:|---:|---:|---:|\n";
    for (const Memory& row : kMemory) {
      text +=
          Concat("| thesis, ", row.backend, " | ", row.type, " | ", row.dense_plain, " | ",
                 row.dense_reduced, " | ", row.experts_plain, " | ", row.experts_reduced, " |\n");
    }
    for (const Side& side : sides_) {
      for (size_t t = 0; t < std::size(kTypes); ++t) {
        const BenchmarkCell* dense = Find(side, kDense, kTypes[t]);
        const BenchmarkCell* experts = Find(side, kExperts, kTypes[t]);
        if (!HasMemory(dense) && !HasMemory(experts)) continue;
        text += Concat("| ", Name(side), ", batch ", side.batch, " | ", kTypeNames[t], " | ",
                       MemoryOf(dense), " | ", MemoryOf(experts), " |\n");
      }
    }
    return text;
  }

  // Table 4.4 or 4.5.
  std::string TimeTable(const char* title, const char* net, bool experts) const {
    std::string text = Concat(title,
                              ":\n\n| device | backend | batch | FP32 | FP16 | INT16 | INT8 |\n"
                              "|---|---|---:|---:|---:|---:|---:|\n");
    for (const Times& row : kTimes) {
      text += Concat("| ", row.device, " (thesis) | ", row.backend, " | ", row.batch, " |");
      for (const int time : experts ? row.experts : row.dense) {
        text += time ? Concat(" ", time, " |") : " n/a |";
      }
      text += "\n";
    }
    for (const Side& side : sides_) {
      std::string cells;
      bool any = false;
      for (const char* type : kTypes) {
        const BenchmarkCell* cell = Find(side, net, type);
        any |= cell != nullptr;
        cells += !cell                    ? " - |"
                 : cell->milliseconds > 0 ? Concat(" ", GeneralText(cell->milliseconds, 4), " |")
                                          : std::string(" failed |");
      }
      if (any) {
        text += Concat("| ", side.device_name.empty() ? side.device : side.device_name, " (",
                       side.framework, ") | ", side.device, " | ", side.batch, " |", cells, "\n");
      }
    }
    return text;
  }

  bool Has(const char* net) const {
    return std::any_of(sides_.begin(), sides_.end(), [&](const Side& side) {
      return std::any_of(std::begin(kTypes), std::end(kTypes),
                         [&](const char* type) { return Find(side, net, type) != nullptr; });
    });
  }

 private:
  const BenchmarkCell* Find(const Side& side, const std::string& net,
                            const std::string& type) const {
    for (const BenchmarkCell& cell : run_.cells) {
      if (cell.net == net && cell.type == type && !cell.train &&
          side == Side{cell.framework, cell.device, cell.device_name, cell.batch}) {
        return &cell;
      }
    }
    return nullptr;
  }
  std::string StorageOf(const std::string& net, const std::string& type) const {
    for (const BenchmarkCell& cell : run_.cells) {
      if (cell.net == net && cell.type == type && cell.storage) {
        return FixedText(static_cast<double>(*cell.storage) / 1e6, 1);
      }
    }
    return "-";
  }
  static bool HasMemory(const BenchmarkCell* cell) {
    return cell && (cell->memory || cell->plain_memory);
  }
  static std::string MemoryOf(const BenchmarkCell* cell) {
    if (!cell) return "- | -";
    return MiB(cell->plain_memory) + " | " + MiB(cell->memory);
  }
  static std::string Name(const Side& side) { return side.device + " (" + side.framework + ")"; }

  const BenchmarkRun& run_;
  std::vector<Side> sides_;
};

}  // namespace

std::string ThesisTables(const BenchmarkRun& run) {
  const Tables tables(run);
  if (tables.empty()) return "";
  std::string text =
      "## The tables of the thesis\n\n"
      "F. Tschopp, \"Tuning of Mixture-of-Experts Mixed-Precision Neural Networks\", 2018, "
      "arXiv:2209.15427. Its\nImageNet is `caffenet`, its ImageNet-MOE is `caffenet_moe`.\n\n";
  text += tables.StorageTable() + "\n" + tables.MemoryTable() + "\n";
  if (tables.Has(kDense)) {
    text += tables.TimeTable("Table 4.4, ms of an inference of ImageNet", kDense, false) + "\n";
  }
  if (tables.Has(kExperts)) {
    text +=
        tables.TimeTable("Table 4.5, ms of an inference of ImageNet-MOE", kExperts, true) + "\n";
  }
  return text;
}

}  // namespace caffe
