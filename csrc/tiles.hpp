// Products of bfloat16 with sums in float32, as the tiles of AMX compute them: see `Products`.
//
// A tile of the left matrix has 16 rows of 32 numbers, and one of the right matrix 32 rows of as many columns as a
// vector has lanes. Both consist of words: two numbers that follow each other along the depth, the first in the lower
// half. Of split numbers there are two parts: the tile of what the nearest ones leave follows theirs.
#pragma once
#include "arguments.hpp"
#include "product.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

using Word = std::uint32_t;

constexpr isize TILE_ROWS = 16, TILE_WORDS = 16, TILE_DEPTH = 2 * TILE_WORDS;
constexpr isize LEFT_TILE = TILE_ROWS * TILE_WORDS, RIGHT_TILE = TILE_WORDS * LANES<float>;

// A block has at most two tiles of rows. Of the columns it has the vectors that stay together, at least two.
constexpr isize ROWS_BY_TILES = 2 * TILE_ROWS;
constexpr isize columns_by_tiles(int together) { return together > 2 ? together : 2; }
constexpr isize MOST_BY_TILES = ROWS_BY_TILES * columns_by_tiles(4) * LANES<float>;

inline isize tiles_of(isize depth) { return (depth + TILE_DEPTH - 1) / TILE_DEPTH; }

// The parts of the numbers of both matrices.
struct Parts {
  isize left, right;
};
// A matrix is split in any case: the recurrence takes its powers.
inline Parts parts_of_product(Products products) { return {products == Products::split ? 2 : 1, 2}; }
// A rounding in the gradient of a matrix is not passed on from step to step.
inline Parts parts_of_gradient(Products products) {
  const isize parts = products == Products::split ? 2 : 1;
  return {parts, parts};
}

// Words of the left matrix: for each tile of rows those of all depths.
inline isize left_size(isize rows, isize depth, Parts parts) {
  return (rows + TILE_ROWS - 1) / TILE_ROWS * tiles_of(depth) * parts.left * LEFT_TILE;
}
// Words of one vector of columns of the right matrix.
inline isize right_size(isize depth, Parts parts) { return tiles_of(depth) * parts.right * RIGHT_TILE; }

// One factor of a block: tiles of rows that are `rows_apart` words apart, times those of vectors of columns.
struct TileFactor {
  const Word* left;
  isize rows_apart;
  const Word* right;
  isize columns_apart;
  isize depth;  // in tiles
};

struct TileFunctions {
  // Before a thread multiplies tiles, and after it has.
  void (*begin)();
  void (*end)();
  // out = [out] + sum of the factors: at most ROWS_BY_TILES rows, and one or two vectors of columns. `out` has
  // memory for whole tiles, in which the rows after the last one get any numbers.
  void (*multiply)(const TileFactor* factors, int count, Parts parts, isize rows, isize C, float* out, isize stride,
                   bool add);
  // Words of the nearest numbers, those of one tile: of `rows` rows, which are `stride` apart; and of pairs that lie one
  // below the other in rows of `width` numbers side by side.
  void (*narrow_rows)(const float* from, isize stride, isize rows, Word* to);
  void (*narrow_pairs)(const float* from, isize width, Word* to);
};

// The processor's own, or what stands for them elsewhere, in plain C++.
extern const TileFunctions* tile_functions;
void use_amx();

class TilesInUse {
 public:
  explicit TilesInUse(Products products) : used_(products != Products::float32) {
    if (used_) tile_functions->begin();
  }
  ~TilesInUse() {
    if (used_) tile_functions->end();
  }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;

 private:
  bool used_;
};

// Write the left tiles of `count` rows; element k of row r is from[r * stride + k * step].
void fill_left(Word* to, const float* from, isize stride, isize step, isize count, isize depth, Parts parts);

// Write the right tiles of a vector of columns; `rows` has `depth` vectors side by side, and zeros up to whole tiles.
void fill_right(Word* to, const float* rows, isize depth, Parts parts);

// `add_products` by tiles.
void add_products_by_tiles(const Factor<float>* factors, int count, isize rows, isize all, float* into, isize stride,
                           Buffer<float>& memory, Products products);

}  // namespace eigenrnn::EIGENRNN_ISA
