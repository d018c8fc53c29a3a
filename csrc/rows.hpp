// Distribution of rows among threads, and products of rows with a matrix.
#pragma once
#include "arguments.hpp"
#include "product.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
EIGENRNN_INLINE T* at(const View& view, isize i, isize j) {
  return static_cast<T*>(view.data) + i * view.first + j * view.second;
}

// The rows [first, last) of a batch that belong to one thread. Threads get about the same number of
// steps, not of rows.
struct Share {
  isize first = 0, last = 0;

  static Share of(const Steps& steps, int member, int members) {
    isize total = 0;
    for (isize s = 0; s < steps.T; ++s) total += steps.running(s);
    Share share{0, 0};
    isize done = 0, row = 0;
    for (int i = 0; i <= member; ++i) {
      share.first = row;
      const isize goal = total * (i + 1) / members;
      while (row < steps.B && (done < goal || i + 1 == members)) done += length(steps, row++);
      share.last = row;
    }
    return share;
  }
  static isize length(const Steps& steps, isize row) {
    if (steps.sizes == nullptr) return steps.T;
    isize low = 0, high = steps.T;  // the first time at which the row does not run
    while (low < high) {
      const isize middle = (low + high) / 2;
      if (steps.sizes[middle] > row) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  // The number of these rows that run in step s; they are the first ones.
  isize running(const Steps& steps, isize s) const {
    return larger(0, smaller(steps.running(s), last) - first);
  }
};

EIGENRNN_INLINE int members(const Steps& steps, int threads) {
  return static_cast<int>(larger(1, smaller(threads, steps.B)));
}

// Fill rows [from, to) of a step with zeros: their sequences have ended.
template <class T>
EIGENRNN_INLINE void clear(const View& view, isize cols, isize t, isize from, isize to) {
  if (cols == 0) return;
  for (isize r = from; r < to; ++r)
    std::memset(at<T>(view, t, r), 0, static_cast<std::size_t>(cols) * sizeof(T));
}

// One operand of a product: rows and the packed matrix that multiplies them.
template <class T>
struct Operand {
  const T* rows;  // row r begins at rows + r * stride
  isize stride;
  const T* panels;
  isize depth;
  isize step = 1;  // from an element of a row to the next
};

// The factor of rows r, r + 1, ... and vectors v, v + 1, ... of a block.
template <class T>
EIGENRNN_INLINE Factor<T> factor(const Operand<T>& operand, isize r, isize v) {
  const isize panel = Packed<T>::panel(operand.depth);
  return {operand.rows + r * operand.stride, operand.stride, operand.step,
          operand.panels + v * panel, LANES<T>, panel, operand.depth};
}

constexpr int MOST_OPERANDS = 4;

template <class T>
constexpr isize MOST_OF_BLOCK = MOST_ROWS* MOST_COLUMNS* LANES<T>;

// For rows 0 .. count - 1: z = sum of operands[i].rows * matrix[i], block by block. `use` gets each
// block while it is in the L1 cache: use(z, stride, first row, rows, first vector, vectors).
// The vectors of a block are a multiple of `together`, as `all` is.
//
// The outer loop runs over columns: a pair of panels is read once per step and stays cached for any
// number of rows, as long as the rows are short.
template <class T, int together = 1, class Use>
EIGENRNN_INLINE void through(const Operand<T>* operands, int how_many, isize count, isize all,
                             Use&& use) {
  alignas(64) T z[MOST_OF_BLOCK<T>];
  if (count <= 0) return;
  const isize wide = columns(static_cast<int>(next_rows(count, together)), together);
  for (isize v = 0; v < all; v += wide) {
    const isize C = smaller(wide, all - v);
    for (isize r = 0, R; r < count; r += R) {
      R = next_rows(count - r, together);
      Factor<T> factors[MOST_OPERANDS];
      for (isize c = 0, some; c < C; c += some) {
        some = smaller(C - c, at_once(static_cast<int>(R), together));
        for (int i = 0; i < how_many; ++i) factors[i] = factor(operands[i], r, v + c);
        BLOCKS<T>.table[R][some](factors, how_many, z + c * LANES<T>, C * LANES<T>, false);
      }
      use(z, C * LANES<T>, r, R, v, C);
    }
  }
}

// to = [more +] the sum of the operands, of `cols` columns; row r of `more` begins at r * width.
template <class T>
void write_product(const Operand<T>* operands, int how_many, isize cols, isize count,
                   const T* more, isize width, T* to, isize stride) {
  through<T>(operands, how_many, count, vectors<T>(cols),
             [&](const T* z, isize row, isize r0, isize R, isize v0, isize C) {
    for (isize r = 0; r < R; ++r)
      for (isize v = 0; v < C; ++v) {
        const isize j = (v0 + v) * LANES<T>;
        vec<T> sum = load<T>(z + r * row + v * LANES<T>);
        if (more != nullptr) sum += load<T>(more + (r0 + r) * width + j);
        store_some<T>(to + (r0 + r) * stride + j, sum, smaller(LANES<T>, cols - j));
      }
  });
}

}  // namespace eigenrnn::EIGENRNN_ISA
