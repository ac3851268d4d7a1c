#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/dynamic_library.hpp"
#include "caffe/device/kernel_text.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/nvrtc_compile.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/libraries.hpp"

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
  text.kernels = {{"broken", {{KernelParameter::Kind::kOut, "i32", "y"}}}};
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

// --- Every file of kernels/, in every type that its first line names -----------------------------

std::vector<std::string> Groups(const std::string& path) {
  const std::string& text = KernelText(path);
  const std::string line = text.substr(0, text.find('\n')), mark = "//! types:";
  if (line.rfind(mark, 0) != 0) return {};
  std::istringstream words(line.substr(mark.size()));
  std::vector<std::string> groups;
  for (std::string word; words >> word;) groups.push_back(word);
  return groups;
}

std::vector<std::string> Bodies() {
  std::vector<std::string> bodies;
  for (const std::string& path : KernelTextPaths()) {
    if (!Groups(path).empty()) bodies.push_back(path);
  }
  return bodies;
}

std::set<TypeTriple> Triples(const std::vector<std::string>& groups) {
  std::set<TypeTriple> triples;
  for (const std::string& group : groups) {
    if (group == "float") {
      for (DataType type : FloatTypes()) triples.insert(TypeTriple::Equal(type));
    } else if (group == "quantized") {
      for (DataType type : {kQuant8, kQuant16}) triples.insert(TypeTriple::Equal(type));
    } else if (group == "master") {
      for (DataType type : {kHalf, kBfloat16}) triples.insert({kFloat, type, kFloat});
    } else if (group == "pairs") {
      for (DataType in : BuiltInTypes()) {
        for (DataType out : BuiltInTypes()) {
          const bool wide = in == kDouble || out == kDouble;
          triples.insert({wide ? kDouble : kFloat, in, out});
        }
      }
    } else if (group == "once") {
      triples.insert(TypeTriple::Equal(kFloat));
    } else if (group == "device") {
      for (DataType type : {kFloat, kDouble}) triples.insert(TypeTriple::Equal(type));
      for (DataType type : {kHalf, kBfloat16}) triples.insert({kFloat, type, type});
    } else {
      CAFFE_THROW("'", group, "' is no group of types");
    }
  }
  return triples;
}

// Bodies that are not complete without the defines of the operator that uses them: its texts.
std::vector<ProgramText> OperatorTexts(const std::string& path) {
  NullDevice device(Backend::kCuda);
  if (path == "blas/gemm") {
    const std::vector<std::pair<DataType, DataType>> types{
        {kFloat, kFloat}, {kDouble, kDouble}, {kHalf, kFloat}, {kBfloat16, kBfloat16}};
    for (const auto& [in, out] : types) {
      // The largest tile takes the longest: not in every type.
      for (int variant = in.bytes() == 2 ? 1 : 0; variant < 4; ++variant) {
        GemmDescriptor d;
        d.in = in;
        d.out = out;
        d.trans_a = variant & 1;
        d.trans_b = variant & 2;
        // Each of the tiles, whole ones and ones that stick out.
        d.m = variant == 0 ? 256 : variant == 1 ? 96 : 33;
        d.n = variant == 3 ? 64 : d.m;
        d.k = variant == 3 ? 17 : 64;
        GeneratedLibrary().make(&device, d);
      }
    }
  }
  return device.texts();
}

std::vector<ProgramText> Texts(const std::string& path, bool fold) {
  std::vector<ProgramText> texts = OperatorTexts(path);
  if (!texts.empty()) return texts;
  NullDevice device(Backend::kCuda);
  for (const TypeTriple& types : Triples(Groups(path))) {
    ProgramBuilder builder(&device, path);
    builder.Types(types).Body(path);
    for (DataType type : BuiltInTypes()) builder.AlsoType(type);
    for (const KernelSignature& kernel : ParseKernelHeads(path, KernelText(path))) {
      for (const KernelParameter& parameter : kernel.parameters) {
        if (fold && parameter.kind == KernelParameter::Kind::kFold) builder.Fold(parameter.name, 2);
      }
    }
    texts.push_back(builder.Text());
  }
  return texts;
}

class EveryBody : public testing::TestWithParam<std::string> {};

TEST_P(EveryBody, CompilesForCuda) {
  SKIP_WITHOUT_NVRTC();
  const std::string& path = GetParam();
  const std::vector<ProgramText> texts = Texts(path, false);
  ASSERT_FALSE(texts.empty());
  for (const ProgramText& text : texts) {
    for (const char* architecture : {"sm_80", "sm_90"}) {
      EXPECT_EQ(MessageOf(text, architecture), "");
    }
  }
  // Folded parameters are defines, which must not meet another use of their names.
  for (const ProgramText& text : Texts(path, true)) {
    if (text.folds.empty()) continue;
    EXPECT_EQ(MessageOf(text, "sm_90"), "");
  }
}

std::string BodyName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, EveryBody, testing::ValuesIn(Bodies()), BodyName);

}  // namespace
}  // namespace caffe
