// Runs every fuzz target, with the normal compiler, over its seeds, over the inputs that once broke
// a promise (found/<target>/), over its corpus (corpus/<target>/) and over some mutations of them.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "fuzz/support/target.hpp"

namespace caffe::fuzz {
namespace {

// Flips, inserts, removes and repeats bytes.
std::string Damage(std::string bytes, std::minstd_rand* random) {
  const auto draw = [&](size_t count) { return (*random)() % count; };
  const size_t changes = 1 + draw(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = draw(bytes.size()),
                 length = 1 + draw(std::min<size_t>(bytes.size() - at, 32));
    switch (draw(5)) {
      case 0: bytes[at] = static_cast<char>(draw(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << draw(8)); break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, bytes.substr(draw(bytes.size()), length)); break;
      default: bytes.resize(at); break;
    }
  }
  return bytes;
}

std::vector<Input> Stored(const std::string& target, const std::string& kind) {
  const std::string folder = "tests/fuzz/" + kind + "/" + target;
  return HasFolder(folder) ? RepositoryFiles(folder, "") : std::vector<Input>();
}

class ReplayTest : public testing::TestWithParam<Target> {};

TEST_P(ReplayTest, SeedsAreTaken) {
  const std::vector<Input> seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  for (const Input& seed : seeds) {
    SCOPED_TRACE(seed.name);
    EXPECT_NO_THROW(GetParam().run(seed.bytes));
  }
}

TEST_P(ReplayTest, KnownInputsBreakNoPromise) {
  for (const std::string kind : {"found", "corpus"}) {
    for (const Input& input : Stored(GetParam().name, kind)) {
      SCOPED_TRACE(input.name);
      EXPECT_NO_THROW(fuzz::Run(GetParam(), input.bytes));
    }
  }
}

// Some cases, and no more than fit into three seconds: tools/fuzz.sh runs millions of them.
TEST_P(ReplayTest, DamagedSeedsBreakNoPromise) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongest(3);
  constexpr int kCases = 2000;
  constexpr size_t kMostBytes = 1 << 16;
  const std::vector<Input> seeds = GetParam().seeds();
  const Clock::time_point begin = Clock::now();
  std::minstd_rand random(1);
  int cases = 0;
  for (; cases < kCases && (cases < 5 || Clock::now() - begin < kLongest); ++cases) {
    const std::string& seed = seeds[random() % seeds.size()].bytes;
    std::string input;
    if (GetParam().mutate && random() % 2 == 0) {
      input = GetParam().mutate(seed, kMostBytes, static_cast<uint32_t>(random()));
    }
    if (input.empty()) input = Damage(seed, &random);
    EXPECT_NO_THROW(fuzz::Run(GetParam(), input)) << "case " << cases;
  }
  RecordProperty("cases", cases);
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, testing::ValuesIn(Targets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace caffe::fuzz
