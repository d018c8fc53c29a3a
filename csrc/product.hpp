// The two products of a recurrence, rows by a packed matrix and sums of outer products, and the packing.
#pragma once
#include "arguments.hpp"
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// A block of R rows by C vectors stays in registers: C accumulators per row and C operands. The
// broadcast element is a memory operand. So a block needs R * C + C registers.
//
// For three gates at once, three vectors stay together, so there are fewer rows. Four vectors that
// stay together are two blocks, one after the other.
//
// NEON has no memory operands, and a step of a block more instructions: 6 x 4 needs fewer than 12 x 2
// (benchmarks/blocks.py counts them).
constexpr bool IS_NEON = EIGENRNN_REGISTERS >= 32 && EIGENRNN_VECTOR_BYTES == 16;
constexpr int MOST_ROWS = EIGENRNN_REGISTERS >= 32 && !IS_NEON ? 12 : 6;
constexpr int MOST_COLUMNS = 9;
constexpr int most_rows(int together) { return together == 3 && !IS_NEON ? MOST_ROWS * 2 / 3 : MOST_ROWS; }

// Few rows take more columns, so that enough independent sums hide the latency of a product.
constexpr int columns(int rows, int together = 1) {
  if (together == 4) return 4 * rows > MOST_ROWS ? 4 : 8;
  const int least = together == 3 ? 3 : IS_NEON ? 4 : 2;
  if (2 * rows > most_rows(together)) return least;
  return 4 * rows > most_rows(together) ? (IS_NEON ? 6 : 2 * least) : together == 3 ? 9 : 8;
}

// The vectors of one block, of those that stay together.
constexpr int at_once(int rows, int together) {
  return together == 4 ? columns(rows) : columns(rows, together);
}

// Rows are divided evenly: 14 rows become 7 + 7, not 12 + 2.
EIGENRNN_INLINE isize next_rows(isize left, int together = 1) {
  const isize most = most_rows(together), blocks = (left + most - 1) / most;
  return (left + blocks - 1) / blocks;
}

// One factor of a block product: `depth` columns a(r, k) = a[r * row + k * step] times `depth` rows
// of C vectors b(k, c) = b[k * deep + c * wide].
template <class T>
struct Factor {
  const T* a;
  isize row, step;
  const T* b;
  isize deep, wide;
  isize depth;
};

// out (R rows of C vectors, rows `stride` apart, padded) = [out] + sum over factors of a b. Each
// element is one chain of fused multiply-adds in the order of k, for every R and C. So results do
// not depend on the division of rows among blocks and threads.
template <class T>
using Block = void (*)(const Factor<T>* factors, int count, T* out, isize stride, bool add);

// Blocks<T>::all.table[R][C] computes R rows and C vectors; C is at most columns(R). product.cpp defines
// it: to compile these functions takes seconds, and all recurrences call the same ones.
template <class T>
struct __attribute__((visibility("hidden"))) Blocks {
  Block<T> table[MOST_ROWS + 1][MOST_COLUMNS + 1] = {};
  static const Blocks all;
};
extern template struct Blocks<float>;
extern template struct Blocks<double>;

// A matrix packed for `block`: one panel of `rows` vectors for each vector of columns. A panel is
// an odd number of cache lines long: panels of 2^k lines would compete for the same lines.
template <class T>
struct Packed {
  isize rows, cols;
  static isize panel(isize rows) { return (rows + (rows % 2 == 0 ? 1 : 0)) * LANES<T>; }
  static isize size(isize rows, isize cols) { return panel(rows) * vectors<T>(cols); }
  isize panel() const { return panel(rows); }
};

// to (columns x rows) = the transpose of from (rows x columns); both sizes are multiples of the lanes.
template <class T>
void transpose(const T* from, isize stride, isize rows, isize columns_, T* to, isize to_stride);

// Pack element (k, j) = source[k * row + j * col]; lanes past the last column are zero. Of several
// matrices that are multiplied together, each fills every `together`-th panel.
template <class T>
void pack(T* packed, isize rows, isize cols, const T* source, isize row, isize col,
          int together = 1);

}  // namespace eigenrnn::EIGENRNN_ISA
