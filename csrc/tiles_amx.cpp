// The tiles of processors with AMX: see tiles.hpp. They have eight, of 16 rows of 64 bytes.
#include <immintrin.h>

#include "tiles.hpp"

namespace eigenrnn::EIGENRNN_ISA {
namespace {

static_assert(LANES<float> == TILE_ROWS && TILE_ROWS == TILE_WORDS, "a row of a tile is a vector");
constexpr std::size_t ROW = 64;  // bytes

struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);
constexpr Configuration CONFIGURATION;

void begin() { _tile_loadconfig(&CONFIGURATION); }
void end() { _tile_release(); }

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns. The intrinsics take the number of a tile as it is written.
template <int R, int C>
EIGENRNN_INLINE void load_rows(const TileFactor& factor, const Word* left) {
  _tile_loadd(4, left, ROW);
  if constexpr (R > 1) _tile_loadd(5, left + factor.rows_apart, ROW);
}
template <int R, int C>
EIGENRNN_INLINE void add_columns(const TileFactor& factor, const Word* right) {
  _tile_loadd(6, right, ROW);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (R > 1) _tile_dpbf16ps(2, 5, 6);
  if constexpr (C > 1) {
    _tile_loadd(7, right + factor.columns_apart, ROW);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (R > 1) _tile_dpbf16ps(3, 5, 7);
  }
}

template <int R, int C>
void block(const TileFactor* factors, int count, Parts parts, float* out, isize stride, bool add) {
  const isize apart = stride * static_cast<isize>(sizeof(float));
  float* const below = out + TILE_ROWS * stride;
  asm volatile("" ::: "memory");  // the intrinsics do not say that they read memory
  if (add) {
    _tile_loadd(0, out, apart);
    if constexpr (C > 1) _tile_loadd(1, out + TILE_WORDS, apart);
    if constexpr (R > 1) _tile_loadd(2, below, apart);
    if constexpr (R > 1 && C > 1) _tile_loadd(3, below + TILE_WORDS, apart);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int i = 0; i < count; ++i) {
    const TileFactor& factor = factors[i];
    const Word* left = factor.left;
    const Word* right = factor.right;
    for (isize k = 0; k < factor.depth; ++k, left += parts.left * LEFT_TILE, right += parts.right * RIGHT_TILE) {
      load_rows<R, C>(factor, left);
      add_columns<R, C>(factor, right);
      if (parts.right > 1) add_columns<R, C>(factor, right + RIGHT_TILE);
      if (parts.left == 1) continue;
      load_rows<R, C>(factor, left + LEFT_TILE);
      add_columns<R, C>(factor, right);
    }
  }
  _tile_stored(0, out, apart);
  if constexpr (C > 1) _tile_stored(1, out + TILE_WORDS, apart);
  if constexpr (R > 1) _tile_stored(2, below, apart);
  if constexpr (R > 1 && C > 1) _tile_stored(3, below + TILE_WORDS, apart);
}

void multiply(const TileFactor* factors, int count, Parts parts, isize rows, isize C, float* out, isize stride,
              bool add) {
  const bool two = rows > TILE_ROWS;
  if (two && C > 1) block<2, 2>(factors, count, parts, out, stride, add);
  else if (two) block<2, 1>(factors, count, parts, out, stride, add);
  else if (C > 1) block<1, 2>(factors, count, parts, out, stride, add);
  else block<1, 1>(factors, count, parts, out, stride, add);
}

void narrow_rows(const float* from, isize stride, isize rows, Word* to) {
  for (isize r = 0; r < rows; ++r, from += stride, to += TILE_WORDS) {
    const __m512bh numbers = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + TILE_WORDS), _mm512_loadu_ps(from));
    std::memcpy(to, &numbers, sizeof numbers);
  }
}
void narrow_pairs(const float* from, isize width, Word* to) {
  alignas(64) static constexpr std::uint16_t IN_TURN[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                            8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i in_turn = _mm512_load_si512(IN_TURN);
  for (isize pair = 0; pair < TILE_WORDS; ++pair, from += 2 * width, to += width) {
    const __m512bh halves = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + width), _mm512_loadu_ps(from));
    const __m512i words = _mm512_permutexvar_epi16(in_turn, (__m512i)halves);
    std::memcpy(to, &words, sizeof words);
  }
}

constexpr TileFunctions OF_AMX{begin, end, multiply, narrow_rows, narrow_pairs};

}  // namespace

void use_amx() { tile_functions = &OF_AMX; }

}  // namespace eigenrnn::EIGENRNN_ISA
