#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/nvrtc_compile.hpp"
#include "caffe/device/register_type.hpp"
#include "support/kernel_texts.hpp"

namespace caffe {
namespace {

#define SKIP_WITHOUT_NVRTC()                        \
  do {                                              \
    std::string why;                                \
    if (!NvrtcAvailable(&why)) GTEST_SKIP() << why; \
  } while (false)

ProgramText Text(const std::string& name, const std::string& source) {
  ProgramText text;
  text.name = name;
  text.source = source;
  text.types = TypeTriple::Equal(kFloat);
  return text;
}

std::string MessageOf(const ProgramText& text, const std::string& architecture) {
  try {
    CompileCudaToCubin(text, architecture);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const char* const kAxpy =
    "extern \"C\" __global__ void axpy(float a, const float* x, float* y) {\n"
    "  y[threadIdx.x] = a * x[threadIdx.x] + y[threadIdx.x];\n"
    "}\n";

TEST(Nvrtc, CompilesToMachineCode) {
  SKIP_WITHOUT_NVRTC();
  EXPECT_FALSE(NvrtcVersion().empty());
  for (const char* architecture : {"sm_80", "sm_90", "sm_90a"}) {
    const std::string cubin = CompileCudaToCubin(Text("axpy", kAxpy), architecture);
    ASSERT_GT(cubin.size(), 64u) << architecture;
    EXPECT_EQ(cubin.substr(0, 4), "\177ELF") << architecture;
    EXPECT_NE(cubin.find("axpy"), std::string::npos) << architecture;
  }
}

TEST(Nvrtc, DoesNotContract) {
  SKIP_WITHOUT_NVRTC();
  ProgramText text = Text("axpy", kAxpy);
  const std::string ptx = CompileCudaToCubin(text, "compute_80");
  EXPECT_NE(ptx.find(".target sm_80"), std::string::npos);
  EXPECT_NE(ptx.find("mul"), std::string::npos);
  EXPECT_EQ(ptx.find("fma"), std::string::npos) << ptx;
  // A program's own options come last.
  text.options = "-fmad=true";
  EXPECT_NE(CompileCudaToCubin(text, "compute_80").find("fma"), std::string::npos);
}

TEST(Nvrtc, ArchitectureOfTheOptionsWins) {
  SKIP_WITHOUT_NVRTC();
  ProgramText text = Text("fence",
                          "extern \"C\" __global__ void fence() {\n"
                          "  asm volatile(\"wgmma.fence.sync.aligned;\");\n"
                          "}\n");
  EXPECT_NE(MessageOf(text, "sm_90"), "");
  text.options = "--gpu-architecture=sm_90a";
  EXPECT_EQ(MessageOf(text, "sm_90"), "");
}

TEST(Nvrtc, ErrorsNameProgramArchitectureKernelAndLines) {
  SKIP_WITHOUT_NVRTC();
  ProgramText text = Text("broken half",
                          "typedef int i32;\n"
                          "#line 1 \"kernels/test/first.h\"\n"
                          "static __device__ i32 one() { return 1; }\n"
                          "#line 1 \"kernels/test/broken.h\"\n"
                          "// A comment.\n"
                          "extern \"C\" __global__ void broken(i32* y) {\n"
                          "  const i32 before = one();\n"
                          "  y[0] = before + missing_name;\n"
                          "}\n");
  text.kernels = {{.name = "broken", .parameters = {{KernelParameter::Kind::kOut, "i32", "y"}}}};
  const std::string message = MessageOf(text, "sm_80");
  for (const char* part : {"'broken half'", "sm_80", "kernel broken", "kernels/test/broken.h",
                           "missing_name", "const i32 before = one();", "NVRTC"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in:\n" << message;
  }
  std::istringstream lines(message);
  bool marked = false;
  for (std::string line; std::getline(lines, line);) {
    marked |= !line.empty() && line[0] == '>' && line.find(" 4 |") != std::string::npos &&
              line.find("before + missing_name") != std::string::npos;
  }
  EXPECT_TRUE(marked) << message;
}

TEST(Nvrtc, UnknownArchitectureListsTheKnown) {
  SKIP_WITHOUT_NVRTC();
  const std::string message = MessageOf(Text("axpy", kAxpy), "sm_20");
  EXPECT_NE(message.find("sm_20"), std::string::npos) << message;
  EXPECT_NE(message.find("sm_90"), std::string::npos) << message;
}

TEST(DynamicLibrary, SaysWhatIsMissing) {
  std::string why;
  EXPECT_FALSE(DynamicLibrary::Open({"libno_such_library.so.1", "/no/such/file.so"}, &why));
  EXPECT_NE(why.find("libno_such_library.so.1"), std::string::npos) << why;
}

TEST(DynamicLibrary, GivenFoldersComeFirst) {
  const char* before = std::getenv("CAFFE_LIBRARY_PATH");
  const std::string saved = before ? before : "";
  setenv("CAFFE_LIBRARY_PATH", "/first::/second", 1);
  const auto paths = CudaLibraryPaths({"liba.so.2", "liba.so.1"});
  if (before) {
    setenv("CAFFE_LIBRARY_PATH", saved.c_str(), 1);
  } else {
    unsetenv("CAFFE_LIBRARY_PATH");
  }
  const std::vector<std::string> head{"/first/liba.so.2",  "/first/liba.so.1", "/second/liba.so.2",
                                      "/second/liba.so.1", "liba.so.2",        "liba.so.1"};
  ASSERT_GT(paths.size(), head.size());
  EXPECT_EQ(std::vector<std::string>(paths.begin(), paths.begin() + head.size()), head);
}

// --- Every file of kernels/ with kernels for devices, in every type that its first line names ----

// The option with which NVRTC compiles fastest: it checks the same and optimizes less. Empty if
// NVRTC does not have it.
const std::string& LeastEffort() {
  static const std::string option = [] {
    ProgramText text = Text("axpy", kAxpy);
    text.options = "--Ofast-compile=max";
    return MessageOf(text, "sm_90").empty() ? text.options : "";
  }();
  return option;
}

ProgramText WithLeastEffort(ProgramText text) {
  text.options += " " + LeastEffort();
  return text;
}

bool NamesItsArchitecture(const ProgramText& text) {
  return text.options.find("--gpu-architecture=") != std::string::npos;
}

class EveryBody : public testing::TestWithParam<std::string> {};

TEST_P(EveryBody, CompilesForCuda) {
  SKIP_WITHOUT_NVRTC();
  const std::string& path = GetParam();
  // One with arguments instead of folded parameters, optimized as at run time.
  const std::vector<ProgramText> arguments = KernelTexts("cuda", path, false);
  ASSERT_FALSE(arguments.empty());
  EXPECT_EQ(MessageOf(arguments.front(), "sm_90"), "");
  // All of them, which takes minutes, with the least effort. Folded parameters are defines, which
  // must not meet another use of their names.
  const std::vector<ProgramText> texts = KernelTexts("cuda", path, true);
  for (const ProgramText& text : texts) EXPECT_EQ(MessageOf(WithLeastEffort(text), "sm_90"), "");
  // Texts without instructions of an architecture are alike for each.
  const bool alike = KernelText(path).find("dialect/") == std::string::npos;
  for (const ProgramText& text : texts) {
    if (NamesItsArchitecture(text)) continue;
    EXPECT_EQ(MessageOf(WithLeastEffort(text), "sm_80"), "");
    if (alike) break;
  }
}

TEST_P(EveryBody, CompilesForCudaInTypesOfUsers) {
  SKIP_WITHOUT_NVRTC();
  const DataType table = RegisterType("nvrtc_fixed10", 10, [](uint32_t code) {
    return static_cast<float>(static_cast<int>(code ^ 512) - 512) / 32;
  });
  const DataType wide =
      RegisterType("nvrtc_posit32", 32, "posit_value(code, 32, 2)", "posit_code(v, 32, 2)");
  const DataType packed =
      RegisterType("nvrtc_packed4", 4, "small_float_value(code, 2, 1, 0)",
                   "small_float_code(v, 2, 1, 0)", {.scaled = true, .packed = true});
  // Each body in one of four types: of texts, of a table, of four bytes, or of half a byte.
  const DataType type =
      std::array{table, DataTypeByName("posit8"), wide, packed}[GetParam().size() % 4];
  for (const ProgramText& text : CustomTexts("cuda", GetParam(), type)) {
    EXPECT_EQ(MessageOf(WithLeastEffort(text), "sm_90"), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryBody, testing::ValuesIn(BodiesForDevices()),
                         [](const auto& info) { return BodyName(info.param); });

}  // namespace
}  // namespace caffe
