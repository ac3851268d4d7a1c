#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/opencl/opencl_device.hpp"
#include "caffe/device/opencl/pocl_cache.hpp"

namespace caffe {
namespace {

// cl_nv_device_attribute_query and cl_khr_device_uuid; Debian's cl_ext.h lacks the first.
constexpr cl_device_info kComputeCapabilityMajor = 0x4000;
constexpr cl_device_info kComputeCapabilityMinor = 0x4001;
constexpr cl_device_info kDeviceUuid = 0x106A;
constexpr cl_device_info kMostSubGroups = 0x105C;  // CL_DEVICE_MAX_NUM_SUB_GROUPS, OpenCL 2.1

constexpr cl_device_info kFeatures = 0x106F;  // CL_DEVICE_OPENCL_C_FEATURES, OpenCL 3.0
// CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR
constexpr cl_device_info kAcceleratedDotProduct = 0x1075;

// The least version of devices and of their language.
constexpr int kLeastMajor = 1, kLeastMinor = 2;
constexpr char kLeastLanguage[] = "CL1.2";  // in the options of backends.cpp

struct Found {
  cl_platform_id platform;
  cl_device_id id;
  bool gpu;
};

// Words by which users know platforms, for names that do not depend on the order in which the
// loader lists them.
struct PlatformWord {
  const char* part;  // of the platform's name
  const char* word;
};
constexpr PlatformWord kPlatformWords[] = {
    {"Portable Computing Language", "pocl"},
    {"NVIDIA", "nvidia"},
    {"Intel", "intel"},
    {"AMD", "amd"},
    {"rusticl", "rusticl"},
    {"Clover", "clover"},
    {"Oclgrind", "oclgrind"},
    {"ARM", "arm"},
    {"QUALCOMM", "qualcomm"},
    {"Apple", "apple"},
};

// One of these words, else the letters and digits of the name.
std::string WordOf(const std::string& platform) {
  for (const PlatformWord& row : kPlatformWords) {
    if (platform.find(row.part) != std::string::npos) return row.word;
  }
  std::string word;
  for (const unsigned char letter : platform) {
    if (std::isalnum(letter)) word += static_cast<char>(std::tolower(letter));
  }
  return word;
}

void AddNote(std::string* note, const std::string& text) {
  *note += (note->empty() ? "" : "; ") + text;
}

bool HasExtension(const std::string& extensions, const std::string& name) {
  return (" " + extensions + " ").find(" " + name + " ") != std::string::npos;
}

// Whether the compiler has a feature of OpenCL C 3.0.
bool HasFeature(cl_device_id id, const std::string& name) {
  struct Feature {  // cl_name_version
    cl_uint version;
    char name[64];
  };
  size_t bytes = 0;
  if (clGetDeviceInfo(id, kFeatures, 0, nullptr, &bytes) != CL_SUCCESS) return false;
  std::vector<Feature> features(bytes / sizeof(Feature));
  if (features.empty() || clGetDeviceInfo(id, kFeatures, features.size() * sizeof(Feature),
                                          features.data(), nullptr) != CL_SUCCESS) {
    return false;
  }
  return std::any_of(features.begin(), features.end(), [&](const Feature& feature) {
    return name == std::string(feature.name, strnlen(feature.name, sizeof feature.name));
  });
}

// Whether the device has instructions for products of four bytes with and without signs
// (cl_khr_integer_dot_product).
bool MultipliesBytes(cl_device_id id) {
  struct Accelerated {  // cl_device_integer_dot_product_acceleration_properties_khr
    cl_bool with_signs, without_signs, mixed, saturating[3];
  };
  return HasFeature(id, "__opencl_c_integer_dot_product_input_4x8bit_packed") &&
         opencl::DeviceValue<Accelerated>(id, kAcceleratedDotProduct, {}).mixed == CL_TRUE;
}

// In CUDA's form, GPU-6e4a…, so that both backends use the same name for a card.
std::string Uuid(cl_device_id id) {
  unsigned char bytes[16];
  if (clGetDeviceInfo(id, kDeviceUuid, sizeof bytes, bytes, nullptr) != CL_SUCCESS) return {};
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

DeviceInfo Describe(cl_platform_id platform, cl_device_id id, int number) {
  DeviceInfo info;
  const std::string extensions = opencl::DeviceText(id, CL_DEVICE_EXTENSIONS);
  const auto type = opencl::DeviceValue<cl_device_type>(id, CL_DEVICE_TYPE, 0);
  info.backend = "opencl";
  info.dialect = BackendNamed(info.backend).dialect;
  info.id = Concat("opencl:", number);
  info.name = opencl::DeviceText(id, CL_DEVICE_NAME);
  info.vendor = opencl::DeviceText(id, CL_DEVICE_VENDOR);
  info.platform = opencl::PlatformText(platform, CL_PLATFORM_NAME);
  info.driver = Concat(opencl::DeviceText(id, CL_DRIVER_VERSION), ", ",
                       opencl::DeviceText(id, CL_DEVICE_VERSION));
  info.compiler = opencl::DeviceText(id, CL_DEVICE_OPENCL_C_VERSION);
  info.is_cpu_type = (type & CL_DEVICE_TYPE_CPU) != 0;
  info.is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  info.memory_bytes =
      static_cast<int64_t>(opencl::DeviceValue<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0));
  info.local_memory_bytes =
      static_cast<int64_t>(opencl::DeviceValue<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE, 0));
  info.max_group_size = std::max<int64_t>(
      static_cast<int64_t>(opencl::DeviceValue<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1)), 1);
  info.compute_units =
      static_cast<int>(opencl::DeviceValue<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1));
  info.unified_memory =
      opencl::DeviceValue<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) == CL_TRUE;
  info.native_half = HasExtension(extensions, "cl_khr_fp16");
  info.fp64 = HasExtension(extensions, "cl_khr_fp64");
  const auto single = opencl::DeviceValue<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG, 0);
  info.denormals = (single & CL_FP_DENORM) != 0;
  info.rounds_division = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  // Other devices may refuse the option.
  if (info.rounds_division) info.dialect.options += " -cl-fp32-correctly-rounded-divide-sqrt";
  info.subgroups = HasExtension(extensions, "cl_khr_subgroups") ||
                   HasExtension(extensions, "cl_intel_subgroups") ||
                   opencl::DeviceValue<cl_uint>(id, kMostSubGroups, 0) > 0;
  if (HasExtension(extensions, "cl_nv_device_attribute_query")) {
    const auto major = opencl::DeviceValue<cl_uint>(id, kComputeCapabilityMajor, 0);
    const auto minor = opencl::DeviceValue<cl_uint>(id, kComputeCapabilityMinor, 0);
    info.architecture = Concat("sm_", major, minor);
    // Through inline PTX: dp4a since 6.1, the shapes of mma.sync that the dialect uses since 8.0.
    info.dp4a = major * 10 + minor >= 61;
    info.matrix = major >= 8;
    info.subgroups = true;  // warps, through inline PTX
  }
  if (!info.dp4a && MultipliesBytes(id)) {
    info.dp4a = true;
    // Older versions of the language lack the function.
    const size_t at = info.dialect.options.find(kLeastLanguage);
    info.dialect.options.replace(at, std::strlen(kLeastLanguage), "CL3.0");
  }
  if (HasExtension(extensions, "cl_khr_device_uuid")) info.unique_id = Uuid(id);
  return info;
}

// Whether a text such as "OpenCL 3.0 PoCL" or "OpenCL C 1.2" names a version that is too old.
bool IsTooOld(const std::string& version) {
  int major = 0, minor = 0;
  const size_t digit = version.find_first_of("0123456789");
  if (digit == std::string::npos) return true;
  if (std::sscanf(version.c_str() + digit, "%d.%d", &major, &minor) != 2) return true;
  return major < kLeastMajor || (major == kLeastMajor && minor < kLeastMinor);
}

// Why a device cannot be used; empty if it can.
std::string WhyUnusable(cl_device_id id) {
  const auto lacks = [id](cl_device_info what) {
    return opencl::DeviceValue<cl_bool>(id, what, CL_FALSE) != CL_TRUE;
  };
  if (lacks(CL_DEVICE_AVAILABLE)) return "the driver says that it is not available";
  if (lacks(CL_DEVICE_COMPILER_AVAILABLE)) return "it has no compiler";
  if (lacks(CL_DEVICE_ENDIAN_LITTLE)) return "it is big-endian";
  for (const cl_device_info what : {CL_DEVICE_VERSION, CL_DEVICE_OPENCL_C_VERSION}) {
    const std::string version = opencl::DeviceText(id, what);
    if (IsTooOld(version)) {
      return Concat("it has '", version, "', and version ", kLeastMajor, ".", kLeastMinor,
                    " is needed");
    }
  }
  return "";
}

void FindOnPlatform(cl_platform_id platform, std::vector<Found>* found, std::string* note) {
  const std::string name = opencl::PlatformText(platform, CL_PLATFORM_NAME);
  cl_uint count = 0;
  cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  std::vector<cl_device_id> ids(count);
  if (code == CL_SUCCESS && count > 0) {
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
  }
  if (code == CL_DEVICE_NOT_FOUND) {
    AddNote(note, Concat("OpenCL platform ", name, " has no devices"));
    return;
  }
  if (code != CL_SUCCESS) {
    AddNote(note, Concat("OpenCL platform ", name,
                         ": clGetDeviceIDs failed: ", opencl::ErrorName(code), " (", code, ")"));
    return;
  }
  for (const cl_device_id id : ids) {
    const std::string reason = WhyUnusable(id);
    if (!reason.empty()) {
      AddNote(note, Concat("OpenCL device ", opencl::DeviceText(id, CL_DEVICE_NAME), " of ", name,
                           " is not used: ", reason));
      continue;
    }
    const auto type = opencl::DeviceValue<cl_device_type>(id, CL_DEVICE_TYPE, 0);
    found->push_back({platform, id, (type & CL_DEVICE_TYPE_GPU) != 0});
  }
}

}  // namespace

BackendDevices FindOpenClDevices() {
  BackendDevices result;
  opencl::DriverIsGone();
  try {
    opencl::PoclCache pocl_cache;
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(0, nullptr, &count);
    std::vector<cl_platform_id> platforms(count);
    if (code == CL_SUCCESS && count > 0) {
      code = clGetPlatformIDs(count, platforms.data(), nullptr);
    }
    if (code != CL_SUCCESS || count == 0) {
      pocl_cache.Finish(false);
      AddNote(&result.note, Concat("OpenCL: no platform is installed (clGetPlatformIDs: ",
                                   opencl::ErrorName(code), ")"));
      return result;
    }
    pocl_cache.Finish(std::any_of(platforms.begin(), platforms.end(), [](cl_platform_id platform) {
      return opencl::PlatformText(platform, CL_PLATFORM_NAME) == opencl::kPocl;
    }));
    std::vector<Found> found;
    for (const cl_platform_id platform : platforms) {
      FindOnPlatform(platform, &found, &result.note);
    }
    std::map<std::string, int> of_word;
    for (const bool gpu : {true, false}) {
      for (const Found& one : found) {
        if (one.gpu != gpu) continue;
        const int number = static_cast<int>(result.devices.size());
        DeviceInfo info = Describe(one.platform, one.id, number);
        const std::string word = WordOf(info.platform);
        info.stable_id = Concat("opencl:", word, ":", of_word[word]++);
        result.devices.push_back(
            std::make_unique<OpenClDevice>(std::move(info), one.platform, one.id));
      }
    }
  } catch (const std::exception& error) {
    AddNote(&result.note, Concat("OpenCL: ", error.what()));
  }
  return result;
}

}  // namespace caffe
