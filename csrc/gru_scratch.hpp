// What one thread holds on its way back through a gated recurrence.
#pragma once
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// A row of deltas has four parts of `width`: what the candidate's matrix gave or was given
// (its delta where the reset comes after, r h where it comes before), and the deltas of r, u and c.
// So those that go back through W lie side by side, and so do those that go back to the inputs.
enum Part : int { INNER, D_RESET, D_UPDATE, D_CANDIDATE, PARTS };

// What one thread has for itself.
template <class T>
struct GruScratch {
  isize N, M;
  isize share;
  isize rows;  // the most deltas that are held at once

  // So many rows that their sums are worth a walk through the matrix of sums.
  static constexpr isize ENOUGH = 256;

  GruScratch(isize n, isize m, isize mine)
      : N(n),
        M(m),
        share(larger(1, mine)),
        rows(share * larger(2, (ENOUGH + share) / share)) {}

  isize width() const { return vectors<T>(N) * LANES<T>; }
  // an odd number of cache lines: rows of 2^k would all fall on the same ones
  isize row() const { return PARTS * width() + LANES<T>; }
  isize deltas_size() const { return rows * row(); }
  isize carry_size() const { return share * width(); }
  isize sums_size() const { return (N + M) * 3 * width(); }
  isize bias_size() const { return (PARTS + 1) * width(); }
  isize size() const { return deltas_size() + carry_size() + sums_size() + bias_size(); }
};

}  // namespace eigenrnn::EIGENRNN_ISA
