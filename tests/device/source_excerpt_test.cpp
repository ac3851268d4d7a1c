#include "caffe/device/source_excerpt.hpp"

#include <gtest/gtest.h>

namespace caffe {
namespace {

const char* const kSource =
    "#define Index i32\n"
    "#line 1 \"kernels/dialect/opencl.h\"\n"
    "typedef int i32;\n"
    "#line 1 \"kernels/neuron/two.h\"\n"
    "// two kernels\n"
    "KERNEL(first)(ARG(i64, n)) {\n"
    "  int a;\n"
    "}\n"
    "\n"
    "KERNEL(second)(ARG(i64, n),\n"
    "       IN(f32, x)) {\n"
    "  wrong;\n"
    "}\n"
    "int outside;\n";

TEST(SourceExcerpt, FindsThePlaceInEveryCompilersLog) {
  const auto pocl =
      FirstErrorPlace("warning: a.h:1:1: w\nerror: kernels/x.h:3:8: undeclared 'y'\n");
  ASSERT_TRUE(pocl);
  EXPECT_EQ(pocl->file, "kernels/x.h");
  EXPECT_EQ(pocl->line, 3);
  const auto nvidia = FirstErrorPlace("kernels/x.h:12:8: error: use of undeclared identifier\n");
  ASSERT_TRUE(nvidia);
  EXPECT_EQ(nvidia->file, "kernels/x.h");
  EXPECT_EQ(nvidia->line, 12);
  const auto nvrtc = FirstErrorPlace("kernels/x.h(7): error: identifier \"y\" is undefined\n");
  ASSERT_TRUE(nvrtc);
  EXPECT_EQ(nvrtc->file, "kernels/x.h");
  EXPECT_EQ(nvrtc->line, 7);
  EXPECT_FALSE(FirstErrorPlace("kernels/x.h:1:1: warning: unused\n"));
}

TEST(SourceExcerpt, ShowsTheLinesOfTheNamedFileAndTheKernel) {
  const auto excerpt = ExcerptAround(kSource, {"kernels/neuron/two.h", 8}, {"first", "second"});
  EXPECT_EQ(excerpt.kernel, "second");
  EXPECT_NE(excerpt.lines.find(">     8 |   wrong;"), std::string::npos) << excerpt.lines;
  EXPECT_NE(excerpt.lines.find("      6 | KERNEL(second)"), std::string::npos) << excerpt.lines;
  EXPECT_EQ(excerpt.lines.find("typedef"), std::string::npos);
}

TEST(SourceExcerpt, NamesNoKernelOutsideOfKernels) {
  const auto excerpt = ExcerptAround(kSource, {"kernels/neuron/two.h", 10}, {"first", "second"});
  EXPECT_EQ(excerpt.kernel, "");
  EXPECT_NE(excerpt.lines.find(">    10 | int outside;"), std::string::npos) << excerpt.lines;
}

TEST(SourceExcerpt, TakesAnUnknownFileForTheWholeSource) {
  const auto first = ExcerptAround(kSource, {"<kernel>", 1}, {"first"});
  EXPECT_NE(first.lines.find(">     1 | #define Index i32"), std::string::npos);
  EXPECT_EQ(first.place.file, "<kernel>");
  const auto excerpt = ExcerptAround(kSource, {"<kernel>", 12}, {"first", "second"});
  EXPECT_EQ(excerpt.place.file, "kernels/neuron/two.h");
  EXPECT_EQ(excerpt.place.line, 8);
  EXPECT_EQ(excerpt.kernel, "second");
  EXPECT_EQ(ExcerptAround(kSource, {"<kernel>", 99}, {"first"}).lines, "");
}

}  // namespace
}  // namespace caffe
