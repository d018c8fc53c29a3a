// The products of all blocks: see product.hpp.
#include "product.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T, int R, int C>
void block(const Factor<T>* factors, int count, T* out, isize stride, bool add) {
  vec<T> sums[R][C];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      sums[r][c] = add ? load<T>(out + r * stride + c * LANES<T>) : vec<T>{};
  for (int f = 0; f < count; ++f) {
    const Factor<T> factor = factors[f];
    const T* a = factor.a;
    const T* b = factor.b;
    for (isize k = 0; k < factor.depth; ++k, a += factor.step, b += factor.deep) {
      vec<T> columns_[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) columns_[c] = load<T>(b + c * factor.wide);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const vec<T> element = splat<T>(a[r * factor.row]);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sums[r][c] += element * columns_[c];
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) store<T>(out + r * stride + c * LANES<T>, sums[r][c]);
}

constexpr int most_columns(int rows) {
  const int one = columns(rows), three = rows > most_rows(3) ? 0 : columns(rows, 3);
  return one > three ? one : three;
}

// Add the blocks of R rows and C or fewer vectors, and then those of fewer rows.
template <class T, int R, int C>
constexpr void fill(Blocks<T>& blocks) {
  if constexpr (C > 0) {
    blocks.table[R][C] = block<T, R, C>;
    fill<T, R, C - 1>(blocks);
  } else if constexpr (R > 1) {
    fill<T, R - 1, most_columns(R - 1)>(blocks);
  }
}

template <class T>
constexpr Blocks<T> all_blocks() {
  Blocks<T> blocks;
  fill<T, MOST_ROWS, most_columns(MOST_ROWS)>(blocks);
  return blocks;
}

// A constant: on a processor without this instruction set nothing of this file may run when the
// module is loaded.
template <class T>
constexpr Blocks<T> Blocks<T>::all = all_blocks<T>();

template struct Blocks<float>;
template struct Blocks<double>;

}  // namespace eigenrnn::EIGENRNN_ISA
