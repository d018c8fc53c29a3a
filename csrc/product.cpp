// The products of all blocks, and the packing: see product.hpp.
#include "product.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Clang keeps in registers what is loaded first. A block of few rows and many vectors has none left for all columns.
#if defined(__clang__)
constexpr bool COLUMN_BY_COLUMN = true;
#else
constexpr bool COLUMN_BY_COLUMN = false;
#endif

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
      if constexpr (COLUMN_BY_COLUMN && R < C) {
        vec<T> elements[R];
        for (int r = 0; r < R; ++r) elements[r] = splat<T>(a[r * factor.row]);
        for (int c = 0; c < C; ++c) {
          const vec<T> column = load<T>(b + c * factor.wide);
          for (int r = 0; r < R; ++r) sums[r][c] += elements[r] * column;
        }
        continue;
      }
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

// The lanes of two vectors in turn: those of their first or of their second halves.
template <class T, bool second>
EIGENRNN_INLINE vec<T> interleave(vec<T> a, vec<T> b) {
  return shuffle<T>(a, b, [](isize lane) {
    return (second ? LANES<T> / 2 : 0) + lane / 2 + lane % 2 * LANES<T>;
  });
}

// Each interleaving moves one bit of the number of a row to that of a column.
template <class T>
void transpose(const T* from, isize stride, isize rows, isize columns_, T* to, isize to_stride) {
  constexpr int N = static_cast<int>(LANES<T>);
  for (isize r = 0; r < rows; r += N)
    for (isize j = 0; j < columns_; j += N) {
      vec<T> block[N];
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) block[i] = load<T>(from + (r + i) * stride + j);
#pragma GCC unroll 4
      for (int bit = 1; bit < N; bit *= 2) {
        vec<T> mixed[N];
#pragma GCC unroll 16
        for (int i = 0; i < N / 2; ++i) {
          mixed[2 * i] = interleave<T, false>(block[i], block[i + N / 2]);
          mixed[2 * i + 1] = interleave<T, true>(block[i], block[i + N / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) block[i] = mixed[i];
      }
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) store<T>(to + (j + i) * to_stride + r, block[i]);
    }
}

template <class T>
void pack(T* packed, isize rows, isize cols, const T* source, isize row, isize col, int together) {
  const isize panel = Packed<T>::panel(rows) * together;
  for (isize v = 0; v < vectors<T>(cols); ++v, packed += panel, source += LANES<T> * col) {
    const isize n = smaller(LANES<T>, cols - v * LANES<T>);
    const bool whole = n == LANES<T>;
    isize k = 0;
    if (whole && row == 1) {  // the columns are contiguous
      k = rows / LANES<T> * LANES<T>;
      transpose(source, col, LANES<T>, k, packed, LANES<T>);
    }
    for (; k < rows; ++k) {
      T* to = packed + k * LANES<T>;
      if (whole && col == 1) {
        store<T>(to, load<T>(source + k * row));
        continue;
      }
      for (isize lane = 0; lane < n; ++lane) to[lane] = source[k * row + lane * col];
      for (isize lane = n; lane < LANES<T>; ++lane) to[lane] = T(0);
    }
  }
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
template void transpose<float>(const float*, isize, isize, isize, float*, isize);
template void transpose<double>(const double*, isize, isize, isize, double*, isize);
template void pack<float>(float*, isize, isize, const float*, isize, isize, int);
template void pack<double>(double*, isize, isize, const double*, isize, isize, int);

}  // namespace eigenrnn::EIGENRNN_ISA
