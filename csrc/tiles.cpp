// Products by tiles: packing, and what stands for the tiles of a processor that has none. See tiles.hpp.
#include "tiles.hpp"

#include <limits>

#include "bfloat16.hpp"

namespace eigenrnn::EIGENRNN_ISA {
namespace {

float from_bits_of(Word bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

// out += some rows of a left tile times a right tile. As in the instruction, the first and the second numbers of the
// words have sums of their own.
constexpr int AT_ONCE = 4;
void multiply_tile(const Word* left, isize rows, const Word* right, float* out, isize stride) {
  float numbers[AT_ONCE][2][TILE_WORDS] = {};
  for (isize r = 0; r < rows; ++r)
    for (isize k = 0; k < TILE_WORDS; ++k) {
      numbers[r][0][k] = from_bits_of(left[r * TILE_WORDS + k] << 16);
      numbers[r][1][k] = from_bits_of(left[r * TILE_WORDS + k] & 0xffff0000);
    }
  vec<float> first[AT_ONCE] = {}, second[AT_ONCE] = {};
  for (isize k = 0; k < TILE_WORDS; ++k) {
    integers<float> words;
    std::memcpy(&words, right + k * LANES<float>, sizeof words);
    const vec<float> above = from_bits<float>(words << 16);
    const vec<float> below = from_bits<float>(words & static_cast<std::int32_t>(0xffff0000));
#pragma GCC unroll 4
    for (int r = 0; r < AT_ONCE; ++r) {
      first[r] += splat<float>(numbers[r][0][k]) * above;
      second[r] += splat<float>(numbers[r][1][k]) * below;
    }
  }
  for (isize r = 0; r < rows; ++r, out += stride) store<float>(out, load<float>(out) + (first[r] + second[r]));
}

// Whole tiles are written, as by the instruction: rows past the last one become NaN.
void multiply(const TileFactor* factors, int count, Parts parts, isize rows, isize C, float* out, isize stride,
              bool add) {
  for (isize r = 0; r < rows; r += AT_ONCE)
    for (isize c = 0; c < C; ++c) {
      const isize some = smaller(AT_ONCE, rows - r);
      float* to = out + r * stride + c * LANES<float>;
      for (isize i = 0; i < some && !add; ++i) store<float>(to + i * stride, vec<float>{});
      for (int i = 0; i < count; ++i) {
        const TileFactor& factor = factors[i];
        const Word* left = factor.left + r / TILE_ROWS * factor.rows_apart + r % TILE_ROWS * TILE_WORDS;
        const Word* right = factor.right + c * factor.columns_apart;
        for (isize k = 0; k < factor.depth; ++k, left += parts.left * LEFT_TILE, right += parts.right * RIGHT_TILE) {
          multiply_tile(left, some, right, to, stride);
          if (parts.right > 1) multiply_tile(left, some, right + RIGHT_TILE, to, stride);
          if (parts.left > 1) multiply_tile(left + LEFT_TILE, some, right, to, stride);
        }
      }
    }
  for (isize r = rows; r % TILE_ROWS != 0; ++r)
    for (isize c = 0; c < C; ++c)
      store<float>(out + r * stride + c * LANES<float>, splat<float>(std::numeric_limits<float>::quiet_NaN()));
}

void narrow_rows(const float* from, isize stride, isize rows, Word* to) {
  for (isize r = 0; r < rows; ++r, from += stride, to += TILE_WORDS)
    for (isize k = 0; k < TILE_WORDS; ++k)
      to[k] = nearest_bfloat16(from[2 * k]) | nearest_bfloat16(from[2 * k + 1]) << 16;
}
void narrow_pairs(const float* from, isize width, Word* to) {
  for (isize pair = 0; pair < TILE_WORDS; ++pair, from += 2 * width, to += width)
    for (isize j = 0; j < width; ++j) to[j] = nearest_bfloat16(from[j]) | nearest_bfloat16(from[width + j]) << 16;
}
void nothing() {}

constexpr TileFunctions IN_PLAIN_CPP{nothing, nothing, multiply, narrow_rows, narrow_pairs};

// Copy columns [first, first + many) of all factors to rows of TILE_ROWS numbers, the others zero.
void copy_left(const Factor<float>* factors, int count, isize first, isize many, float* to) {
  for (int i = 0; i < count; ++i) {
    const Factor<float>& factor = factors[i];
    const float* from = factor.a + first * factor.row;
    for (isize k = 0; k < factor.depth; ++k, from += factor.step, to += TILE_ROWS) {
      if (many == TILE_ROWS && factor.row == 1) {
        std::memcpy(to, from, TILE_ROWS * sizeof(float));
        continue;
      }
      for (isize r = 0; r < TILE_ROWS; ++r) to[r] = r < many ? from[r * factor.row] : 0.0f;
    }
  }
}

// Copy vector v of all factors.
void copy_right(const Factor<float>* factors, int count, isize v, float* to) {
  for (int i = 0; i < count; ++i) {
    const float* from = factors[i].b + v * factors[i].wide;
    for (isize k = 0; k < factors[i].depth; ++k, from += factors[i].deep, to += LANES<float>)
      store<float>(to, load<float>(from));
  }
}

// Write the left tiles of TILE_ROWS rows, whose transpose is given: `depth` rows, and zeros up to whole tiles.
void fill_left_from_columns(Word* to, const float* columns_, isize depth, Parts parts) {
  alignas(64) float rest[TILE_DEPTH * TILE_ROWS];
  alignas(64) Word words[LEFT_TILE];
  for (isize k = 0; k < depth; k += TILE_DEPTH)
    for (isize part = 0; part < parts.left; ++part, to += LEFT_TILE) {
      const float* from = columns_ + k * TILE_ROWS;
      if (part > 0) {
        remainders(from, TILE_DEPTH * TILE_ROWS, rest);
        from = rest;
      }
      tile_functions->narrow_pairs(from, TILE_ROWS, words);
      // the bits of words, moved as those of floats
      transpose<float>(reinterpret_cast<const float*>(words), TILE_ROWS, TILE_WORDS, TILE_ROWS,
                       reinterpret_cast<float*>(to), TILE_WORDS);
    }
}

}  // namespace

const TileFunctions* tile_functions = &IN_PLAIN_CPP;

void fill_left(Word* to, const float* from, isize stride, isize step, isize count, isize depth, Parts parts) {
  alignas(64) float tile[TILE_ROWS * TILE_DEPTH];
  for (isize r = 0; r < count; r += TILE_ROWS)
    for (isize k = 0; k < depth; k += TILE_DEPTH) {
      const isize rows = smaller(TILE_ROWS, count - r), many = smaller(TILE_DEPTH, depth - k);
      const float* source = from + r * stride + k * step;
      isize apart = stride;
      const auto copy = [&](const auto& numbers_of) {
        for (isize i = 0; i < rows; ++i) numbers_of(source + i * apart, tile + i * TILE_DEPTH);
        source = tile, apart = TILE_DEPTH;
      };
      if (step != 1 || many < TILE_DEPTH)
        copy([&](const float* row, float* numbers) {
          for (isize i = 0; i < TILE_DEPTH; ++i) numbers[i] = i < many ? row[i * step] : 0.0f;
        });
      tile_functions->narrow_rows(source, apart, rows, to);
      to += LEFT_TILE;
      if (parts.left == 1) continue;
      copy([](const float* row, float* numbers) { remainders(row, TILE_DEPTH, numbers); });
      tile_functions->narrow_rows(source, apart, rows, to);
      to += LEFT_TILE;
    }
}

void fill_right(Word* to, const float* rows, isize depth, Parts parts) {
  constexpr isize L = LANES<float>;
  alignas(64) float rest[TILE_DEPTH * L];
  for (isize k = 0; k < depth; k += TILE_DEPTH, rows += TILE_DEPTH * L) {
    tile_functions->narrow_pairs(rows, L, to);
    to += RIGHT_TILE;
    if (parts.right == 1) continue;
    remainders(rows, TILE_DEPTH * L, rest);
    tile_functions->narrow_pairs(rest, L, to);
    to += RIGHT_TILE;
  }
}

// All rows of the left matrix are packed first, and then each pair of vectors of the right one, which stays in the
// cache for all rows.
void add_products_by_tiles(const Factor<float>* factors, int count, isize rows, isize all, float* into, isize stride,
                           Buffer<float>& memory, Products products) {
  constexpr isize L = LANES<float>;
  isize depth = 0;
  for (int i = 0; i < count; ++i) depth += factors[i].depth;
  const Parts parts = parts_of_gradient(products);
  const isize tiles = tiles_of(depth), padded = tiles * TILE_DEPTH;
  const isize rows_apart = tiles * parts.left * LEFT_TILE, columns_apart = right_size(depth, parts);
  const isize left_words = left_size(rows, depth, parts);
  float* copies = memory.at_least(padded * larger(TILE_ROWS, L) + left_words + 2 * columns_apart);
  Word* left = reinterpret_cast<Word*>(copies + padded * larger(TILE_ROWS, L));
  Word* right = left + left_words;
  const auto clear_after = [&](isize width) {
    std::memset(copies + depth * width, 0, static_cast<std::size_t>((padded - depth) * width) * sizeof(float));
  };
  clear_after(TILE_ROWS);
  for (isize r = 0; r < rows; r += TILE_ROWS) {
    copy_left(factors, count, r, smaller(TILE_ROWS, rows - r), copies);
    fill_left_from_columns(left + r / TILE_ROWS * rows_apart, copies, depth, parts);
  }
  clear_after(L);
  alignas(64) float block[ROWS_BY_TILES * 2 * L];
  for (isize v = 0; v < all; v += 2) {
    const isize C = smaller(2, all - v);
    for (isize c = 0; c < C; ++c) {
      copy_right(factors, count, v + c, copies);
      fill_right(right + c * columns_apart, copies, depth, parts);
    }
    for (isize r = 0; r < rows; r += ROWS_BY_TILES) {
      const isize some = smaller(ROWS_BY_TILES, rows - r);
      const TileFactor factor{left + r / TILE_ROWS * rows_apart, rows_apart, right, columns_apart, tiles};
      float* to = into + r * stride + v * L;
      if (some % TILE_ROWS == 0) {
        tile_functions->multiply(&factor, 1, parts, some, C, to, stride, true);
        continue;
      }
      tile_functions->multiply(&factor, 1, parts, some, C, block, 2 * L, false);
      for (isize i = 0; i < some; ++i)
        for (isize c = 0; c < C; ++c)
          store<float>(to + i * stride + c * L, load<float>(to + i * stride + c * L) + load<float>(block + (2 * i + c) * L));
    }
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA
