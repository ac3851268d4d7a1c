// Products of bytes with AVX512-VNNI.
#pragma once

namespace caffe {
namespace {

constexpr long kColumns = kTileChannels;  // of sums
// The most rows whose sums with two blocks of channels are in registers.
constexpr int kDotRows = 14;

// Sums of R rows and C blocks of channels, added to `bias`. Another line of `next` is fetched for
// each four products.
template <int R, int C>
__attribute__((noinline)) void Dots(const CodeTile& t, const u8* a, const signed char* b,
                                    const V* bias, const signed char* next, i32* sums) {
  V c[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) c[r][j] = bias[j];
  }
  const long block = t.depth * kByteChannels, used = t.used / t.runs, stride = t.a_stride;
  for (long run = 0; run < t.runs; ++run) {
    const u8* x = a + run * t.run_stride;
    for (const u8* const end = x + used; x < end; x += 4, b += 64, next += 64) {
      _mm_prefetch(next, _MM_HINT_T1);
      V w[C];
#pragma GCC unroll 2
      for (int j = 0; j < C; ++j) w[j] = Load(b + j * block);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const V four = SetFour(x + r * stride);
#pragma GCC unroll 2
        for (int j = 0; j < C; ++j) c[r][j] = Dot(c[r][j], four, w[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < C; ++j) Store(sums + r * kColumns + j * kByteChannels, c[r][j]);
  }
}

// All rows of up to two blocks of channels: `store` gets some rows of sums.
template <class Store>
void Columns(const CodeTile& t, long channel, const V* bias, const Store& store) {
  alignas(64) i32 sums[kDotRows * kColumns];
  const bool two = channel + kByteChannels < t.output.channels;
  const signed char* b = static_cast<const signed char*>(t.b) + channel * t.depth;
  long pass = 0;
  for (long line = 0; line < t.lines; ++line) {
    ForParts(t.rows, kDotRows, [&](long r, long rows) {
      const u8* a = t.a + line * t.line_stride + r * t.a_stride;
      // The first passes fetch the weights of the next channels.
      const bool fetches =
          pass < 2 && channel + kColumns + pass * kByteChannels < t.output.channels;
      const signed char* next = fetches ? b + (2 + pass) * t.depth * kByteChannels : b;
      ++pass;
      ForRows<kDotRows>(rows, [&](auto n) {
        two ? Dots<n.value, 2>(t, a, b, bias, next, sums)
            : Dots<n.value, 1>(t, a, b, bias, next, sums);
      });
      store(line * t.rows + r, rows, sums);
    });
  }
}

template <class F, int N> void FastColumns(const CodeTile& t, long channel, long count) {
  ChannelFactors<F, N> f;
  MakeChannels(t.output, channel, count, &f);
  Columns(t, channel, f.bias, [&](long row, long rows, const i32* sums) {
    StoreRows<false>(t.output, f, channel, count, row, rows, sums, kColumns);
  });
}

template <class Set> void ByteTileOf(const CodeTile& t) {
  const ByteOutput& o = t.output;
  for (long c = 0; c < o.channels; c += kColumns) {
    const long count = o.channels - c < kColumns ? o.channels - c : kColumns;
    if (!IsFast(o, c, count)) {
      const V none[2] = {};
      Columns(t, c, none, [&](long row, long rows, const i32* sums) {
        StoreOneByOne(o, c, count, row, rows, sums, kColumns);
      });
      continue;
    }
    Set::With(o, c, count, [&](auto factors) {
      count > kByteChannels ? FastColumns<decltype(factors), 2>(t, c, count)
                            : FastColumns<decltype(factors), 1>(t, c, count);
    });
  }
}

}  // namespace
}  // namespace caffe
