#include "caffe/core/sha256.hpp"

#include <gtest/gtest.h>

namespace caffe {
namespace {

struct Vector {
  std::string message;
  std::string digest;
};

// The examples of FIPS 180-4 (NIST), the empty message, and lengths around the padding limits.
class Sha256Test : public testing::TestWithParam<Vector> {};

TEST_P(Sha256Test, MatchesThePublishedDigest) {
  EXPECT_EQ(Sha256::Hex(Sha256::Of(GetParam().message)), GetParam().digest);
}

TEST_P(Sha256Test, DoesNotDependOnHowTheMessageIsCut) {
  const std::string& message = GetParam().message;
  for (const size_t step : {size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}}) {
    if (message.size() / step > 100000) {
      continue;
    }
    Sha256 hash;
    for (size_t at = 0; at < message.size(); at += step) {
      hash.Update(std::string_view(message).substr(at, step));
    }
    EXPECT_EQ(Sha256::Hex(hash.Finish()), GetParam().digest) << "in steps of " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nist, Sha256Test,
    testing::Values(Vector{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                    Vector{"abc",
                           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                    Vector{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                    Vector{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                           "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                           "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
                    Vector{std::string(1000000, 'a'),
                           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
                    Vector{std::string(55, 'x'),
                           "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
                    Vector{std::string(56, 'x'),
                           "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
                    Vector{std::string(63, 'x'),
                           "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
                    Vector{std::string(64, 'x'),
                           "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
                    Vector{std::string(65, 'x'),
                           "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
                    Vector{std::string(119, 'x'),
                           "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
                    Vector{std::string(120, 'x'),
                           "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"}));

TEST(Sha256FramedTest, TellsApartWhereOnePartEnds) {
  Sha256 first, second;
  first.UpdateFramed("ab");
  first.UpdateFramed("c");
  second.UpdateFramed("a");
  second.UpdateFramed("bc");
  EXPECT_NE(first.Finish(), second.Finish());
}

TEST(Sha256FramedTest, IsEmptyAgainAfterFinish) {
  Sha256 hash;
  hash.Update("something");
  hash.Finish();
  EXPECT_EQ(hash.Finish(), Sha256::Of(""));
}

}  // namespace
}  // namespace caffe
