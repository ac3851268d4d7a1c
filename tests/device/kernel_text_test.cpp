#include "caffe/device/kernel_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "caffe/core/error.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/device/program_builder.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string ParseError(const std::string& text) {
  try {
    ParseKernelHeads("test/body", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KernelHeadTest, DeclaresTheArguments) {
  const auto heads = ParseKernelHeads("test/body",
                                      "//! types: float\n"
                                      "// KERNEL(not_this, ARG(i64, n)) is a comment.\n"
                                      "#define MY_KERNEL(x) x\n"
                                      "KERNEL(first, ARG(i64, n), IN(MItype, x),\n"
                                      "       OUT( MOtype , y ), FOLD(i32, window)) {\n"
                                      "}\n"
                                      "KERNEL(second, IN(f16, x)) {}\n");
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0].name, "first");
  ASSERT_EQ(heads[0].parameters.size(), 4u);
  using Kind = KernelParameter::Kind;
  const Kind kinds[] = {Kind::kScalar, Kind::kIn, Kind::kOut, Kind::kFold};
  const char* types[] = {"i64", "MItype", "MOtype", "i32"};
  const char* names[] = {"n", "x", "y", "window"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(heads[0].parameters[i].kind, kinds[i]);
    EXPECT_EQ(heads[0].parameters[i].type, types[i]);
    EXPECT_EQ(heads[0].parameters[i].name, names[i]);
  }
  EXPECT_EQ(heads[1].name, "second");
}

TEST(KernelHeadTest, ErrorsShowWhatIsWrong) {
  EXPECT_TRUE(Holds(ParseError("KERNEL(relu, ARG(i64, n)"), "no closing parenthesis"));
  EXPECT_TRUE(Holds(ParseError("KERNEL(relu, VALUE(i64, n)) {}"), "kernel relu: 'VALUE(i64, n)'"));
  EXPECT_TRUE(Holds(ParseError("KERNEL(relu, i64 n) {}"), "kernel relu: 'i64 n'"));
  EXPECT_TRUE(Holds(ParseError("KERNEL(relu, ARG(n)) {}"), "kernel relu: 'ARG(n)'"));
  EXPECT_TRUE(Holds(ParseError("KERNEL(relu x, ARG(i64, n)) {}"), "test/body: 'relu x'"));
  EXPECT_TRUE(Holds(ParseError("KERNEL() {}"), "is not a valid kernel name"));
}

TEST(KernelHeadTest, EveryEmbeddedFileIsSound) {
  int kernels = 0;
  for (const std::string& path : KernelTextPaths()) {
    if (path.rfind("dialect/", 0) == 0) continue;
    kernels += static_cast<int>(ParseKernelHeads(path, KernelText(path)).size());
  }
  EXPECT_GT(kernels, 20);
  EXPECT_THROW(KernelText("neuron/no_such_body"), Error);
}

int LineOf(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
}

TEST(RewriteKernelHeadsTest, KeepsLineNumbersAndRemovesFolds) {
  const std::string text =
      "// one\n"
      "KERNEL(pool, ARG(i64, n), FOLD(i32, window),\n"
      "       IN(MItype, x), FOLD(i32, stride),\n"
      "       OUT(MOtype, y)) {\n"
      "  FOR_EACH(i, n) first_line(window);\n"
      "}\n"
      "\n"
      "KERNEL(other, FOLD(i32, window)) {\n"
      "  second_line();\n"
      "}\n";
  const std::string kept = RewriteKernelHeads(text, {});
  EXPECT_TRUE(Holds(kept,
                    "KERNEL(pool)(ARG(i64, n), FOLD(i32, window), IN(MItype, x), "
                    "FOLD(i32, stride), OUT(MOtype, y))"));
  const std::string folded = RewriteKernelHeads(text, {"window"});
  EXPECT_TRUE(Holds(folded,
                    "KERNEL(pool)(ARG(i64, n), IN(MItype, x), FOLD(i32, stride), "
                    "OUT(MOtype, y))"));
  EXPECT_TRUE(Holds(folded, "KERNEL(other)()"));
  for (const char* part : {"first_line", "second_line"}) {
    EXPECT_EQ(LineOf(kept, part), LineOf(text, part));
    EXPECT_EQ(LineOf(folded, part), LineOf(text, part));
  }
  // A parameter of another kind with that name stays.
  EXPECT_TRUE(Holds(RewriteKernelHeads("KERNEL(k, ARG(i32, window)) {}", {"window"}),
                    "KERNEL(k)(ARG(i32, window))"));
}

TEST(ProgramBuilderTest, FoldsAreDefinesAndDoublesAreDeclared) {
  NullDevice device("opencl");
  const ProgramText text = ProgramBuilder(&device, "relu")
                               .Types(kDouble)
                               .Define("EXTRA", 7)
                               .Fold("window", 3)
                               .Body("neuron/relu")
                               .Text();
  EXPECT_EQ(text.name, "relu double");
  EXPECT_EQ(text.folds.at("window"), 3);
  EXPECT_EQ(text.source.rfind("#define CAFFE_FP64 1\n", 0), 0u);
  EXPECT_TRUE(Holds(text.source, "#define EXTRA 7\n"));
  EXPECT_TRUE(Holds(text.source, "#define window 3\n"));
  EXPECT_TRUE(Holds(text.source, "#define FLOAT_KIND 1\n"));
  EXPECT_EQ(text.kernels.size(), 3u);
  const ProgramText codes =
      ProgramBuilder(&device, "relu").Types(kQuant8).Body("neuron/relu").Text();
  EXPECT_TRUE(Holds(codes.source, "#define FLOAT_KIND 0\n"));
  // Type files come on demand: a device without double never sees f64.
  EXPECT_EQ(codes.source.find("types/f64"), std::string::npos);
  EXPECT_EQ(codes.source.find("CAFFE_FP64 1"), std::string::npos);
}

// OpenCL and CUDA compilers see no files.
TEST(ProgramBuilderTest, PutsTheTextOfIncludedFiles) {
  NullDevice device("opencl");
  const std::string source = ProgramBuilder(&device, "sgd").Body("solver/sgd").Text().source;
  EXPECT_EQ(source.find("#include"), std::string::npos);
  const size_t included = source.find("#line 1 \"kernels/dialect/training.h\"\n");
  const size_t define = source.find("#define STEP_RATE 0\n");
  const size_t back = source.find("#line 4 \"kernels/solver/sgd.h\"\n// h = momentum h");
  EXPECT_LT(included, define);
  EXPECT_LT(define, back);
  EXPECT_NE(back, std::string::npos);
  // A program whose body includes nothing has the text that it always had.
  EXPECT_EQ(ProgramBuilder(&device, "relu").Body("neuron/relu").Text().source.find("STEP_RATE"),
            std::string::npos);
}

TEST(ProgramBuilderTest, ProgramsAreSharedWhileTheyLive) {
  NullDevice device("cuda");
  const auto build = [&](DataType type) {
    return ProgramBuilder(&device, "relu").Types(type).Body("neuron/relu").Build();
  };
  const auto first = build(kHalf), again = build(kHalf), other = build(kFloat);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_EQ(device.counters().builds, 2);
  EXPECT_EQ(device.texts().size(), 2u);
}

// The text that the builder makes of ReLU, without the contents of dialect/, math/ and types/.
std::string OwnLines(const std::string& source) {
  std::istringstream in(source);
  std::string out;
  bool shared = false;
  for (std::string line; std::getline(in, line);) {
    const bool place = line.rfind("#line ", 0) == 0;
    if (place || line.rfind("#define Dtype", 0) == 0) shared = false;
    if (!shared) out += line + "\n";
    for (const char* folder : {"\"kernels/dialect/", "\"kernels/math/", "\"kernels/types/"}) {
      shared = shared || (place && line.find(folder) != std::string::npos);
    }
  }
  return out;
}

// A file that two bodies include is there once, and lines behind it keep their numbers.
TEST(ProgramBuilderTest, IncludedFilesArePastedOnce) {
  NullDevice device("cuda");
  const std::string source =
      ProgramBuilder(&device, "two").Body("neuron/relu").Body("neuron/prelu").Text().source;
  EXPECT_EQ(source.find("#include"), std::string::npos);
  const std::string mark = "#line 1 \"kernels/epilogue/relu.h\"\n";
  const size_t first = source.find(mark);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(source.find(mark, first + 1), std::string::npos);
  const std::pair<std::string, std::string> files[] = {{"neuron/relu", "MAP1("},
                                                       {"neuron/prelu", "STORE("}};
  for (const auto& [path, word] : files) {
    // The line of the first such word, in the file and by the last #line before it in the source.
    const auto lines_before = [](const std::string& text, size_t at) {
      return std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n');
    };
    const std::string& text = KernelText(path);
    const std::string file = "\"kernels/" + path + ".h\"\n";
    const size_t begin = source.find("#line 1 " + file);
    const size_t use = source.find(word, source.find("KERNEL(", begin));
    const size_t line = source.rfind("#line ", use);
    ASSERT_NE(line, begin) << "the include is between them";
    const int64_t number = std::stoll(source.substr(line + 6));
    const int64_t passed = lines_before(source, use) - lines_before(source, line) - 1;
    EXPECT_EQ(source.substr(source.find('"', line), file.size()), file);
    EXPECT_EQ(number + passed, lines_before(text, text.find(word)) + 1) << path;
  }
}

// CAFFE_UPDATE_GOLDEN=1 rewrites the files.
TEST(ProgramBuilderTest, ReluReadsAsItAlwaysDid) {
  for (const char* const backend : {"opencl", "cuda"}) {
    NullDevice device(backend);
    std::string actual;
    for (DataType type : {kHalf, kQuant8}) {
      const ProgramText text =
          ProgramBuilder(&device, "relu").Types(type).Body("neuron/relu").Text();
      actual += "// " + text.name + ": " + text.options + "\n" + OwnLines(text.source);
    }
    const std::string path = Concat(CAFFE_SOURCE_DIR, "/tests/golden/relu_", backend, ".txt");
    if (std::getenv("CAFFE_UPDATE_GOLDEN")) std::ofstream(path) << actual;
    std::ifstream file(path);
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(actual, expected) << path;
  }
}

}  // namespace
}  // namespace caffe
