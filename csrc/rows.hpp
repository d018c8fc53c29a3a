// Distribution of rows among threads, and products of rows with a matrix.
#pragma once
#include <optional>
#include <utility>

#include "arguments.hpp"
#include "product.hpp"
#include "team.hpp"
#include "tiles.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
EIGENRNN_INLINE T* at(const View& view, isize i, isize j) {
  return static_cast<T*>(view.data) + i * view.first + j * view.second;
}

// Rows of numbers, the first at `data`; null: there are none.
template <class T>
struct Row {
  T* data = nullptr;
  isize stride = 0;

  // Those of the sequences from b on, at step t.
  static Row of(const View& view, isize t, isize b) {
    return view.data == nullptr ? Row{} : Row{EIGENRNN_ISA::at<T>(view, t, b), view.second};
  }
  EIGENRNN_INLINE T* at(isize r, isize j) const { return data + r * stride + j; }
  EIGENRNN_INLINE explicit operator bool() const { return data != nullptr; }
};

// The vectors [from, to) of the units.
struct Vectors {
  isize from, to;
  Vectors(isize all) : from(0), to(all) {}  // NOLINT: a number is the range of all
  Vectors(isize begin, isize end) : from(begin), to(end) {}
};

// The rows [first, last) of a batch that belong to one thread. Threads get about the same number of
// steps, not of rows. With fewer rows than threads, partners share all rows: each computes a part of
// the units, and they meet after every step.
struct Share {
  isize first = 0, last = 0;
  int part = 0, parts = 1;
  Meeting* meeting = nullptr;
  bool left = false;  // it computes nothing more

  static Share partner(const Steps& steps, int part, int parts, Meeting& meeting) {
    return {0, steps.B, part, parts, parts > 1 ? &meeting : nullptr, false};
  }
  // The thread's part of `all` vectors, of which `together` stay together.
  Vectors vectors(isize all, isize together = 1) const {
    const isize groups = all / together;
    if (left) return {0, 0};
    return {groups * part / parts * together, groups * (part + 1) / parts * together};
  }
  // Wait for the partners. If they part, the first thread gets all units, and the others get none.
  void meet() {
    if (meeting == nullptr || meeting->wait(parts)) return;
    left = part > 0;
    part = 0, parts = 1;
    meeting = nullptr;
  }
  // Whether the thread does what is done once per step.
  bool leads() const { return part == 0 && !left; }

  static Share of(const Steps& steps, int member, int members) {
    isize total = 0;
    for (isize s = 0; s < steps.T; ++s) total += steps.running(s);
    Share share;
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

constexpr isize LEAST_SHARED = isize{1} << 17;  // multiply-adds of a step

EIGENRNN_INLINE int members(const Steps& steps, int threads) {
  return static_cast<int>(larger(1, smaller(threads, steps.B)));
}

// Whether threads share the units of a single sequence, or of fewer sequences than threads. A meeting
// takes about a microsecond, so a step must take several, and waking the threads takes a few steps.
EIGENRNN_INLINE bool has_partners(const Steps& steps, isize products, int threads) {
  return steps.resets.data == nullptr && steps.T >= 16 && steps.B < threads &&
         steps.B * products >= LEAST_SHARED;
}

// Call run(share) for the share of each thread; `products` are the multiply-adds of one row's step.
template <class Run>
void for_shares(const Steps& steps, isize products, int threads, const Run& run) {
  struct Context {
    const Steps& steps;
    const Run& run;
    int team;
    Meeting meeting{};
  } context{steps, run, members(steps, threads)};
  if (has_partners(steps, products, threads)) {
    as_partners(
        threads,
        [](void* data, int part, int parts) {
          Context& c = *static_cast<Context*>(data);
          c.run(Share::partner(c.steps, part, parts, c.meeting));
        },
        &context);
    return;
  }
  as_team(
      context.team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        c.run(Share::of(c.steps, member, c.team));
      },
      &context);
}

// Copy rows [from, to) of the states before step s to rows of N numbers, side by side; zero where a
// sequence begins anew.
template <class T>
void copy_states(const Steps& steps, const Share& share, isize s, isize from, isize to,
                 const T* before, isize stride, isize N, T* copies) {
  const std::size_t bytes = static_cast<std::size_t>(N) * sizeof(T);
  for (isize r = from; r < to; ++r) {
    if (steps.begins_anew(s, share.first + r)) std::memset(copies + r * N, 0, bytes);
    else std::memcpy(copies + r * N, before + r * stride, bytes);
  }
}

// Fill rows [from, to) of a step with zeros: their sequences have ended.
template <class T>
EIGENRNN_INLINE void clear(const View& view, isize cols, isize t, isize from, isize to) {
  if (cols == 0) return;
  for (isize r = from; r < to; ++r)
    std::memset(at<T>(view, t, r), 0, static_cast<std::size_t>(cols) * sizeof(T));
}

// A packed matrix, and the numbers that it consists of.
template <class T>
struct Panels {
  const T* data;  // or tiles of words
  Products products;

  Panels(const T* data_ = nullptr, Products products_ = Products::float32)  // NOLINT: a pointer is a packed matrix
      : data(data_), products(products_) {}
  bool by_tiles() const { return products != Products::float32; }  // of float alone
};

// The size of one panel of a matrix with `rows` rows, and of all.
template <class T>
isize panel_size(isize rows, Products products) {
  return Panels<T>{nullptr, products}.by_tiles() ? right_size(rows, parts_of_product(products)) : Packed<T>::panel(rows);
}
template <class T>
isize packed_size(isize rows, isize cols, Products products) {
  return panel_size<T>(rows, products) * vectors<T>(cols);
}

// `pack` for these products.
template <class T>
Panels<T> pack_for(Products products, T* packed, isize rows, isize cols, const T* source, isize row, isize col,
                   int together = 1) {
  const Panels<T> panels{packed, products};
  if constexpr (std::is_same_v<T, float>) {
    if (panels.by_tiles()) {
      const isize size = right_size(rows, parts_of_product(products)), padded = tiles_of(rows) * TILE_DEPTH * LANES<T>;
      const Scratch<T> one(padded);
      std::memset(one.get(), 0, static_cast<std::size_t>(padded) * sizeof(T));
      for (isize v = 0; v < vectors<T>(cols); ++v, packed += together * size) {
        pack(one.get(), rows, smaller(LANES<T>, cols - v * LANES<T>), source + v * LANES<T> * col, row, col);
        fill_right(reinterpret_cast<Word*>(packed), one.get(), rows, parts_of_product(products));
      }
      return panels;
    }
  }
  pack(packed, rows, cols, source, row, col, together);
  return panels;
}

// One operand of a product: rows and the packed matrix that multiplies them.
template <class T>
struct Operand {
  const T* rows;  // row r begins at rows + r * stride
  isize stride;
  Panels<T> panels;
  isize depth;
  isize step = 1;  // from an element of a row to the next
};

// The factor of rows r, r + 1, ... and vectors v, v + 1, ... of a block.
template <class T>
EIGENRNN_INLINE Factor<T> factor(const Operand<T>& operand, isize r, isize v) {
  const isize panel = Packed<T>::panel(operand.depth);
  return {operand.rows + r * operand.stride, operand.stride, operand.step,
          operand.panels.data + v * panel, LANES<T>, panel, operand.depth};
}

constexpr int MOST_OPERANDS = 4;

template <class T>
constexpr isize MOST_OF_BLOCK = larger(MOST_ROWS* MOST_COLUMNS* LANES<T>,
                                       std::is_same_v<T, float> ? MOST_BY_TILES : 0);

// Where the sums of a product are stored: row r at data + r * stride, all vectors side by side. If they
// have begun, the product is added to them. Without data they stay in a block on the stack.
template <class T>
struct Sums {
  T* data = nullptr;
  isize stride = 0;
  bool begun = false;
};

// The sum of operands[i].rows * matrix[i] for `count` rows, of which each block is computed separately.
template <class T>
class Product {
 public:
  EIGENRNN_INLINE Product(const Operand<T>* operands, int how_many, isize count)
      : operands_(operands), how_many_(how_many) {
    if (by_tiles()) narrow_rows(count);
  }

  // The vectors of the blocks of `count` rows, of which `together` stay together, and the rows of the next one.
  template <int together>
  EIGENRNN_INLINE isize columns_of_blocks(isize count) const {
    if (by_tiles()) return columns_by_tiles(together);
    return columns(static_cast<int>(next_rows(count, together)), together);
  }
  template <int together>
  EIGENRNN_INLINE isize rows_of_block(isize left) const {
    return by_tiles() ? smaller(ROWS_BY_TILES, left) : next_rows(left, together);
  }

  // Rows r .. r + R - 1 and vectors v .. v + C - 1. They are computed where their sums are or, if these have
  // no data, in `block`; the result and the distance of its rows are returned.
  template <int together>
  EIGENRNN_INLINE std::pair<T*, isize> compute(isize r, isize R, isize v, isize C, T* block, const Sums<T>& sums = {}) const {
    if (by_tiles()) return compute_by_tiles(r, R, v, C, block, sums);
    T* z = sums.data == nullptr ? block : sums.data + r * sums.stride + v * LANES<T>;
    const isize row = sums.data == nullptr ? C * LANES<T> : sums.stride;
    Factor<T> factors[MOST_OPERANDS];
    for (isize c = 0, some; c < C; c += some) {
      some = smaller(C - c, at_once(static_cast<int>(R), together));
      for (int i = 0; i < how_many_; ++i) factors[i] = factor(operands_[i], r, v + c);
      Blocks<T>::all.table[R][some](factors, how_many_, z + c * LANES<T>, row, sums.begun);
    }
    return {z, row};
  }

 private:
  EIGENRNN_INLINE bool by_tiles() const { return how_many_ > 0 && operands_[0].panels.by_tiles(); }

  __attribute__((noinline)) void narrow_rows(isize count) {
    if constexpr (std::is_same_v<T, float>) {
      const Parts parts = parts_of_product(operands_[0].panels.products);
      isize words = 0;
      for (int i = 0; i < how_many_; ++i) {
        begin_[i] = words;
        words += left_size(count, operands_[i].depth, parts);
      }
      left_.emplace(words);
      for (int i = 0; i < how_many_; ++i)
        fill_left(words_of(i), operands_[i].rows, operands_[i].stride, operands_[i].step, count, operands_[i].depth,
                  parts);
    }
  }
  Word* words_of(int i) const { return reinterpret_cast<Word*>(left_->get() + begin_[i]); }

  // A block of whole tiles may have more rows than the sums, so it is computed beside them.
  __attribute__((noinline)) std::pair<T*, isize> compute_by_tiles(isize r, isize R, isize v, isize C, T* block,
                                                                  const Sums<T>& sums) const {
    const isize row = C * LANES<T>;
    if constexpr (std::is_same_v<T, float>) {
      const std::size_t bytes = static_cast<std::size_t>(row) * sizeof(T);
      const auto stored = [&](isize i) { return sums.data + (r + i) * sums.stride + v * LANES<T>; };
      for (isize i = 0; i < R && sums.begun; ++i) std::memcpy(block + i * row, stored(i), bytes);
      const Parts parts = parts_of_product(operands_[0].panels.products);
      TileFactor factors[MOST_OPERANDS];
      for (isize c = 0; c < C; c += 2) {
        for (int i = 0; i < how_many_; ++i) {
          const isize tiles = tiles_of(operands_[i].depth), apart = tiles * parts.left * LEFT_TILE;
          const isize column = right_size(operands_[i].depth, parts);
          factors[i] = {words_of(i) + r / TILE_ROWS * apart, apart,
                        reinterpret_cast<const Word*>(operands_[i].panels.data) + (v + c) * column, column, tiles};
        }
        tile_functions->multiply(factors, how_many_, parts, R, smaller(2, C - c), block + c * LANES<T>, row, sums.begun);
      }
      for (isize i = 0; i < R && sums.data != nullptr; ++i) std::memcpy(stored(i), block + i * row, bytes);
    }
    return {block, row};
  }

  const Operand<T>* operands_;
  int how_many_;
  isize begin_[MOST_OPERANDS];  // of the words of each operand
  std::optional<Scratch<T>> left_;
};

// For rows 0 .. count - 1: z = [z +] sum of operands[i].rows * matrix[i], block by block. `use` gets each
// block while it is in the L1 cache: use(z, stride, first row, rows, first vector, vectors).
// The vectors of a block are a multiple of `together`, as all of them are.
//
// The outer loop runs over columns: a pair of panels is read once per step and stays cached for any
// number of rows, as long as the rows are short.
template <class T, int together = 1, class Use>
EIGENRNN_INLINE void through(const Operand<T>* operands, int how_many, isize count, Vectors which,
                             Use&& use, const Sums<T>& sums = {}) {
  alignas(64) T block[MOST_OF_BLOCK<T>];
  if (count <= 0) return;
  const Product<T> product(operands, how_many, count);
  const isize wide = product.template columns_of_blocks<together>(count);
  for (isize v = which.from; v < which.to; v += wide) {
    const isize C = smaller(wide, which.to - v);
    for (isize r = 0, R; r < count; r += R) {
      R = product.template rows_of_block<together>(count - r);
      const auto [z, row] = product.template compute<together>(r, R, v, C, block, sums);
      use(z, row, r, R, v, C);
    }
  }
}

// to = [more +] the sum of the operands, of `cols` columns; row r of `more` begins at r * width.
template <class T>
void write_product(const Operand<T>* operands, int how_many, isize cols, isize count,
                   const T* more, isize width, T* to, isize stride) {
  through<T>(operands, how_many, count, vectors<T>(cols),
             [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
    for (isize r = 0; r < R; ++r)
      for (isize v = 0; v < C; ++v) {
        const isize j = (first_v + v) * LANES<T>;
        vec<T> sum = load<T>(z + r * row + v * LANES<T>);
        if (more != nullptr) sum += load<T>(more + (r0 + r) * width + j);
        store_some<T>(to + (r0 + r) * stride + j, sum, smaller(LANES<T>, cols - j));
      }
  });
}

}  // namespace eigenrnn::EIGENRNN_ISA
