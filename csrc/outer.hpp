// Sums of outer products: the gradients of weights, over as many steps as fit into the cache.
#pragma once
#include "rows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Add a factor to a list. Consecutive single rows with stride `apart` are merged into one factor,
// which is faster.
template <class T>
int append(Factor<T>* list, int count, Factor<T> next, isize apart) {
  if (count > 0 && next.depth == 1) {
    Factor<T>& open = list[count - 1];
    // compared as integers, since the pointers may belong to different arrays
    const auto reach = [&](const T* from, isize step) {
      return reinterpret_cast<std::intptr_t>(from) +
             open.depth * step * static_cast<isize>(sizeof(T));
    };
    const bool even = open.depth == 1 || open.step == apart;
    if (even && reinterpret_cast<std::intptr_t>(next.a) == reach(open.a, apart) &&
        reinterpret_cast<std::intptr_t>(next.b) == reach(open.b, open.deep)) {
      open.step = apart;
      ++open.depth;
      return count;
    }
  }
  list[count] = next;
  return count + 1;
}

// into (rows of `all` vectors, `stride` apart) += sum of factors[i].a^T factors[i].b. The factors
// advance to the end of their columns.
template <class T>
void add_products(Factor<T>* factors, int count, isize rows, isize all, T* into, isize stride) {
  if (rows == 0) return;
  const isize wide = columns(static_cast<int>(next_rows(rows)));
  for (isize v = 0; v < all; v += wide) {
    const isize C = smaller(wide, all - v);
    for (isize k = 0, R; k < rows; k += R) {
      R = next_rows(rows - k);
      BLOCKS<T>.table[R][C](factors, count, into + k * stride + v * LANES<T>, stride, true);
      for (int i = 0; i < count; ++i) factors[i].a += R * factors[i].row;
    }
    for (int i = 0; i < count; ++i)
      factors[i].a -= rows * factors[i].row, factors[i].b += C * factors[i].wide;
  }
}

// Add the first `cols` of each of `rows` padded rows to the rows of `to`; the first call copies.
template <class T>
void gather(const View& to, isize rows, isize cols, const T* from, isize width, bool first) {
  for (isize r = 0; r < rows; ++r) {
    T* row = at<T>(to, r, 0);
    for (isize j = 0; j < cols; ++j)
      row[j] = first ? from[r * width + j] : row[j] + from[r * width + j];
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA
