// What recurrences with several gates share: packed matrices and the memory of a thread.
#pragma once
#include "ring.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The matrices packed for `block`, once per call and shared by all threads. In the backward pass
// each gate has its own. In the forward pass, gates that are multiplied together share the matrix of
// the first of them, in which their vectors alternate.
template <class T, int gates>
struct GatePanels {
  Panels<T> W[gates], U[gates];
};

template <class T, int gates>
struct GatePack {
  Scratch<T> memory;
  GatePanels<T, gates> panels{};

  // For the forward pass, which multiplies by the transposed matrices of the first `together` gates
  // in common.
  template <class Call>
  static GatePack forward(const Call& call, int together) {
    return {call, together,
            packed_size<T>(call.N, call.N, products_of<T>(call)) + packed_size<T>(call.M, call.N, products_of<T>(call))};
  }
  // For the backward pass, which multiplies rows by each gate's matrix separately.
  template <class Call>
  static GatePack backward(const Call& call) {
    return {call, 0,
            packed_size<T>(call.N, call.N, products_of<T>(call)) + packed_size<T>(call.N, call.M, products_of<T>(call))};
  }

 private:
  template <class Call>
  GatePack(const Call& call, int together, isize size) : memory(gates * size) {
    T* to = fill(call.W, call.N, call.N, together, products_of<T>(call), memory.get(), panels.W);
    if (call.M > 0) fill(call.U, call.N, call.M, together, products_of<T>(call), to, panels.U);
  }
  static T* fill(const View& view, isize N, isize cols, int together, Products products, T* to,
                 Panels<T>* panels_) {
    const isize panel = panel_size<T>(cols, products);
    const isize size = together == 0 ? packed_size<T>(N, cols, products) : packed_size<T>(cols, N, products);
    for (int gate = 0; gate < gates; ++gate) {
      const T* from = at<T>(view, gate * N, 0);
      const bool common = gate < together;
      T* start = to + (common ? gate * panel : gate * size);
      if (together == 0)
        panels_[gate] = pack_for<T>(products, start, N, cols, from, view.first, view.second);
      else
        panels_[gate] =
            pack_for<T>(products, start, cols, N, from, view.second, view.first, common ? together : 1);
    }
    return to + gates * size;
  }
};

// The memory of one thread in the backward pass: a ring of deltas of `parts` parts each, a gradient
// of the previous state that bypasses W, the gradients of W and U so far, transposed, and sums of
// single vectors.
template <class T>
struct GateScratch {
  isize N, M, gates, parts, biases;
  isize share;
  isize rows;  // capacity of the ring of deltas

  GateScratch(isize n, isize m, isize mine, isize gates_, isize parts_, isize biases_)
      : N(n),
        M(m),
        gates(gates_),
        parts(parts_),
        biases(biases_),
        share(larger(1, mine)),
        rows(Ring<T>::rows_for(mine)) {}

  isize width() const { return vectors<T>(N) * LANES<T>; }
  // an odd number of cache lines: rows of 2^k lines would compete for the same ones
  isize row() const { return parts * width() + LANES<T>; }
  isize deltas_size() const { return rows * row(); }
  isize carry_size() const { return share * width(); }
  isize sums_size() const { return (N + M) * gates * width(); }
  isize bias_size() const { return biases * width(); }
  isize size() const { return deltas_size() + carry_size() + sums_size() + bias_size(); }
};

// That memory, and the factors of the gradients of W (two per step) and of U (one per step).
template <class T>
struct GateMemory {
  GateScratch<T> scratch;
  Scratch<T> memory;
  Scratch<Factor<T>> factors;

  explicit GateMemory(const GateScratch<T>& layout)
      : scratch(layout), memory(layout.size()), factors(3 * layout.rows) {}

  Ring<T> ring() const { return {scratch.rows, scratch.row(), memory.get()}; }
  T* carry() const { return memory.get() + scratch.deltas_size(); }
  T* sums() const { return carry() + scratch.carry_size(); }
  T* bias_sums() const { return sums() + scratch.sums_size(); }
  Factor<T>* past() const { return factors.get(); }
  Factor<T>* inputs() const { return factors.get() + 2 * scratch.rows; }
  void clear_sums() const {
    std::memset(sums(), 0,
                static_cast<std::size_t>(scratch.sums_size() + scratch.bias_size()) * sizeof(T));
  }
};

// How far ahead to prefetch the memory of a block: one block of columns, and the last block that of
// the next step. A whole step ahead would not fit into the cache.
template <class T>
struct Ahead {
  isize all, wide;

  Ahead(isize N, isize rows)
      : all(vectors<T>(N)), wide(columns(static_cast<int>(next_rows(rows)))) {}
  // For vector v of arrays of `size` numbers per vector, whose steps are `step` apart.
  isize operator()(isize v, isize size, isize step) const {
    if (v + wide < all) return wide * size;
    return (smaller(v + wide - all, all - 1) - v) * size + step;
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
