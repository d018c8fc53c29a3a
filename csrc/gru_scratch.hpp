// The memory of one thread in the backward pass of a gated recurrence.
#pragma once
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// A row of deltas has four parts of `width`: the delta of q with the reset after the matrix, or r h
// with the reset before it, and the deltas of r, u and c. So the parts that are multiplied by W are
// adjacent, and so are those that go to the inputs.
enum Part : int { INNER, D_RESET, D_UPDATE, D_CANDIDATE, PARTS };

// The memory of one thread.
template <class T>
struct GruScratch {
  isize N, M;
  isize share;
  isize rows;  // capacity of the ring of deltas

  // Enough rows to make a pass over the matrix of sums worthwhile.
  static constexpr isize ENOUGH = 256;

  GruScratch(isize n, isize m, isize mine)
      : N(n),
        M(m),
        share(larger(1, mine)),
        rows(share * larger(2, (ENOUGH + share) / share)) {}

  isize width() const { return vectors<T>(N) * LANES<T>; }
  // an odd number of cache lines: rows of 2^k lines would compete for the same ones
  isize row() const { return PARTS * width() + LANES<T>; }
  isize deltas_size() const { return rows * row(); }
  isize carry_size() const { return share * width(); }
  isize sums_size() const { return (N + M) * 3 * width(); }
  isize bias_size() const { return (PARTS + 1) * width(); }
  isize size() const { return deltas_size() + carry_size() + sums_size() + bias_size(); }
};

}  // namespace eigenrnn::EIGENRNN_ISA
