#include "caffe/device/opencl/driver_check.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/opencl/pocl_cache.hpp"
#include "caffe/device/program_cache.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe::opencl {
namespace {

// Drivers whose faults were seen; docs/devices.md has the same table. Versions are those of
// CL_DRIVER_VERSION. The probe judges the versions in between.
struct Faulty {
  const char* platform;  // a part of its name
  int below;             // the first major version that is not concerned
  const char* fault;
};
constexpr Faulty kFaulty[] = {
    {"rusticl", 23,
     "the sign of an int that becomes a long is lost (seen in Mesa 22.3.6, not in 25.0.7), so that "
     "results in int8 are wrong"},
};

// Each value is the result of one idiom for the same inputs. Inputs come from memory, so that no
// compiler knows them.
constexpr char kProbe[] = R"(
__kernel void caffe_probe(__global const int* a, __global const ushort* h, __global const uchar* c,
                          __global long* r) {
  const int i = get_global_id(0);
  const long wide = a[i];
  const ulong bits = (ulong)wide;
  const float small = vload_half(i, (__global const half*)h);
  __global long* o = r + 8 * i;
  o[0] = wide < 0;
  o[1] = (wide << 33) >> 31;
  o[2] = (long)((bits << 7) >> 35);
  o[3] = wide * ((long)a[i] - 3);
  o[4] = as_int(small);
  o[5] = (long)(char)c[i];
  o[6] = as_int((float)a[i] * 0.5f);
  o[7] = (int)(small != small ? 1.0f : small * 16777216.0f);
}
)";
constexpr const char* kIdioms[] = {"the sign of an int that becomes a long",
                                   "arithmetic shifts of longs",
                                   "logical shifts of longs",
                                   "products of longs",
                                   "half values as floats",
                                   "the sign of a byte",
                                   "floats from ints",
                                   "half values below 2^-14"};
constexpr int kItems = 8;
constexpr int32_t kInts[kItems] = {5, -5, 0, -1, 2147483647, -2147483647, 16777216, -100000};
// 0, 2^-24, -3 * 2^-24, 1, -2, 65504, 2^-14, infinity.
constexpr uint16_t kHalves[kItems] = {0, 0x0001, 0x8003, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x7c00};
constexpr float kHalfValues[kItems] = {0,  0x1p-24f, -0x3p-24f, 1,
                                       -2, 65504,    0x1p-14f,  __builtin_huge_valf()};
constexpr uint8_t kBytes[kItems] = {0, 1, 127, 128, 255, 200, 64, 3};

int32_t Bits(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::vector<int64_t> Expected(int i) {
  const int64_t wide = kInts[i];
  const auto bits = static_cast<uint64_t>(wide);
  const float scaled = kHalfValues[i] * 16777216.0f;
  return {wide < 0, static_cast<int64_t>(bits << 33) >> 31, static_cast<int64_t>((bits << 7) >> 35),
          static_cast<int64_t>(bits * (bits - 3)), Bits(kHalfValues[i]),
          static_cast<int8_t>(kBytes[i]), Bits(static_cast<float>(kInts[i]) * 0.5f),
          // Larger ones do not fit an int.
          scaled > 1e9f || scaled < -1e9f ? INT64_MIN : static_cast<int32_t>(scaled)};
}

template <size_t N, class T>
Handle<cl_mem> Input(cl_context context, const T (&values)[N], const std::string& where) {
  cl_int code = CL_SUCCESS;
  Handle<cl_mem> buffer(clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                       sizeof values, const_cast<T*>(values), &code));
  Check(code, "clCreateBuffer", where);
  return buffer;
}

// The names of the idioms whose results are wrong, separated by commas. Runs on a queue of its own
// and counts as no build and no launch.
std::string RunProbe(OpenClDevice* device) {
  const std::string where = device->where() + ", probe of the driver";
  const cl_context context = device->context();
  const cl_device_id id = device->id();
  const Handle<cl_command_queue> queue = device->MakeQueue();
  const char* source = kProbe;
  cl_int code = CL_SUCCESS;
  const Handle<cl_program> program(clCreateProgramWithSource(context, 1, &source, nullptr, &code));
  Check(code, "clCreateProgramWithSource", where);
  Check(clBuildProgram(program.get(), 1, &id, (device->info().dialect.options + " -w").c_str(),
                       nullptr, nullptr),
        "clBuildProgram", where);
  const Handle<cl_kernel> kernel(clCreateKernel(program.get(), "caffe_probe", &code));
  Check(code, "clCreateKernel", where);
  int64_t results[kItems][std::size(kIdioms)] = {};
  const Handle<cl_mem> ints = Input(context, kInts, where), halves = Input(context, kHalves, where),
                       bytes = Input(context, kBytes, where);
  const Handle<cl_mem> output(
      clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof results, nullptr, &code));
  Check(code, "clCreateBuffer", where);
  cl_uint index = 0;
  for (const cl_mem buffer : {ints.get(), halves.get(), bytes.get(), output.get()}) {
    Check(clSetKernelArg(kernel.get(), index++, sizeof buffer, &buffer), "clSetKernelArg", where);
  }
  const size_t items = kItems;
  Check(clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &items, nullptr, 0, nullptr,
                               nullptr),
        "clEnqueueNDRangeKernel", where);
  Check(clEnqueueReadBuffer(queue.get(), output.get(), CL_TRUE, 0, sizeof results, results, 0,
                            nullptr, nullptr),
        "clEnqueueReadBuffer", where);
  std::string wrong;
  for (size_t idiom = 0; idiom < std::size(kIdioms); ++idiom) {
    bool right = true;
    for (int i = 0; i < kItems; ++i) {
      const int64_t expected = Expected(i)[idiom];
      right = right && (expected == INT64_MIN || results[i][idiom] == expected);
    }
    if (!right) wrong += (wrong.empty() ? "" : ", ") + std::string(kIdioms[idiom]);
  }
  return wrong;
}

// The result of the probe, from the program cache if it ran before.
std::string Probed(OpenClDevice* device) {
  const DeviceInfo& info = device->info();
  const ProgramCache::TuningKey key{"driver", "probe 1", info.platform, info.name, info.driver};
  constexpr char kRight[] = "right";
  ProgramCache& cache = Runtime::Get().program_cache();
  if (const std::optional<std::string> kept = cache.FindTuning(key)) {
    return *kept == kRight ? "" : *kept;
  }
  // PoCL's compiler may end the process where its folder is full. The next program names the cause.
  if (info.platform == kPocl && !ExplainPoclFailure().cause.empty()) return "";
  const std::string wrong = RunProbe(device);
  cache.StoreTuning(key, wrong.empty() ? kRight : wrong);
  return wrong;
}

}  // namespace

std::string KnownFault(const std::string& platform, const std::string& driver) {
  const int major = std::atoi(driver.c_str());
  for (const Faulty& row : kFaulty) {
    if (platform.find(row.platform) != std::string::npos && major < row.below) return row.fault;
  }
  return "";
}

void CheckDriver(OpenClDevice* device) noexcept {
  try {
    const DeviceInfo& info = device->info();
    const std::string known = KnownFault(info.platform, info.driver), wrong = Probed(device);
    if (known.empty() && wrong.empty()) return;
    log::WarnOnce(Concat(device->where(), " of ", info.platform, ", driver ", info.driver,
                         wrong.empty()
                             ? ", may compute wrong results: " + known
                             : ", computes wrong results: a probe found faults in " + wrong,
                         "; use another version of the driver, or `-gpu cpu`. `caffe device_query "
                         "--self-test` shows what is concerned"));
  } catch (const std::exception& error) {
    try {
      log::Warning(Concat(device->where(), ": the probe of the driver failed: ", error.what()));
    } catch (...) {
    }
  }
}

}  // namespace caffe::opencl
