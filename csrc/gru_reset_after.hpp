// The reset after the matrix, as in torch.nn.GRU: c = f(x^c + r (h W_c^T + b)).
#pragma once
#include "gru_backward.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// One block gives r, u and h W_c^T, and c and h follow at once.
template <class T>
template <class F>
void GruForward<T>::reset_after(const Rows& rows) {
  const isize N = call.N;
  const T slope = static_cast<T>(call.slope);
  const Kept<T> layout(call);
  const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
  const Operand<T> old{rows.before, rows.before_stride, panels.W[RESET], N};
  const Operand<T> inputs{rows.x, call.x.second, panels.U[RESET], call.M};
  // r must not scale the candidate's input, so the inputs have a separate block
  alignas(64) T block[MOST_OF_BLOCK<T>];
  const Product<T> of_inputs(&inputs, mapped ? 1 : 0, rows.count);
  through<T, GATES>(&old, 1, rows.count, share.vectors(GATES * layout.all, GATES),
                [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
    const T* more = block;
    if (mapped) more = of_inputs.template compute<GATES>(r0, R, first_v, C, block).first;
    for (isize g = 0; g < C; g += GATES) {
      const isize v = (first_v + g) / GATES, j = v * LANES<T>, n = smaller(LANES<T>, N - j);
      const vec<T> b = optional(call.bias, j, n), inner = optional(call.recurrent_bias, j, n);
      vec<T> shifts[GATES];
      for (int i = 0; i < GATES; ++i) shifts[i] = shift(static_cast<Gate>(i), j, n);
      for (isize r = 0; r < R; ++r) {
        vec<T> x[GATES];
        for (int i = 0; i < GATES; ++i)
          x[i] = mapped ? load<T>(more + r * row + (g + i) * LANES<T>) + shifts[i]
                        : input(rows, static_cast<Gate>(i), r0 + r, j, n);
        const auto sum = [&](Gate gate) EIGENRNN_INLINE_LAMBDA {
          return load<T>(z + r * row + (g + gate) * LANES<T>);
        };
        if (normed) {
          T* to = rows.kept + (r0 + r) * layout.row() + v * layout.apart();
          store<T>(to + layout.of(Gru::PRODUCT), sum(CANDIDATE) + inner);
          store<T>(to + layout.of(call.normed(RESET)), sum(RESET) + x[RESET]);
          store<T>(to + layout.of(call.normed(UPDATE)), sum(UPDATE) + x[UPDATE]);
          store<T>(to + layout.of(call.normed(CANDIDATE)), x[CANDIDATE]);
          continue;
        }
        const vec<T> reset_ = logistic<T>(sum(RESET) + x[RESET]);
        const vec<T> update_ = logistic<T>(sum(UPDATE) + x[UPDATE]);
        const vec<T> q = sum(CANDIDATE) + inner;
        const vec<T> c = F::template apply<T>(x[CANDIDATE] + reset_ * q, b, slope);
        write_states(rows, r0 + r, j, n, update_, c);
        if (rows.kept != nullptr) {
          T* to = rows.kept + (r0 + r) * layout.row() + v * layout.apart();
          store<T>(to + layout.of(RESET), reset_);
          store<T>(to + layout.of(UPDATE), update_);
          store<T>(to + layout.of(CANDIDATE), c);
          store<T>(to + layout.of(Gru::PRODUCT), q);
        }
      }
    }
  });
  if (!normed) return;
  normed_gates(rows);
  normed_candidate<F>(rows);
}

// With LayerNorm: from the delta of r q to those of q, the product, and of r.
template <class T>
void GruBackward<T>::through_product(const Rows& rows) const {
  const isize N = call.N, width = scratch.width();
  const Kept<T> layout(call);
  const T* gates = layout.at(call.steps.time(rows.s), share.first);
  for (isize r = rows.from; r < rows.to; ++r) {
    T* delta = rows.delta + r * scratch.row();
    const T* from = gates + r * layout.row();
    for (isize j = 0; j < N; j += LANES<T>, from += layout.apart()) {
      const vec<T> dc = load<T>(delta + D_CANDIDATE * width + j), reset = load<T>(from + layout.of(RESET));
      store<T>(delta + D_RESET * width + j,
               dc * load<T>(from + layout.of(Gru::PRODUCT)) * (reset * (T(1) - reset)));
      store<T>(delta + INNER * width + j, dc * reset);
    }
    add_and_store<T>(delta + INNER * width, N, bias_sums + INNER * width, nullptr);
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA
