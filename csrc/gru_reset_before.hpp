// The reset before the matrix: c = f(x^c + (r h) W_c^T).
#pragma once
#include "gru_backward.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// First r, r h and u of all units, then c and h, which need r h of all units.
template <class T>
template <class F>
void GruForward<T>::reset_before(const Rows& rows) {
  gates_before(rows);
  share.meet();
  candidate_before<F>(rows);
}

template <class T>
void GruForward<T>::gates_before(const Rows& rows) const {
  const isize N = call.N, wide = width(N);
  const Kept<T> layout(call);
  const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
  const Operand<T> operands[2] = {{rows.before, rows.before_stride, panels.W[RESET], N},
                                  {rows.x, call.x.second, panels.U[RESET], call.M}};
  through<T, 2>(operands, mapped ? 2 : 1, rows.count, share.vectors(2 * layout.all, 2),
                [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
    for (isize g = 0; g < C; g += 2) {
      const isize v = (first_v + g) / 2, j = v * LANES<T>, n = smaller(LANES<T>, N - j);
      const vec<T> shifts[2] = {shift(RESET, j, n), shift(UPDATE, j, n)};
      for (isize r = r0; r < r0 + R; ++r) {
        const auto sum = [&](Gate gate) EIGENRNN_INLINE_LAMBDA {
          return load<T>(z + (r - r0) * row + (g + gate) * LANES<T>) +
                 (mapped ? shifts[gate] : input(rows, gate, r, j, n));
        };
        const vec<T> z_r = sum(RESET), z_u = sum(UPDATE);
        if (normed) {
          T* to = rows.kept + r * layout.row() + v * layout.apart();
          store<T>(to + layout.of(call.normed(RESET)), z_r);
          store<T>(to + layout.of(call.normed(UPDATE)), z_u);
          continue;
        }
        const vec<T> reset_ = logistic<T>(z_r), update_ = logistic<T>(z_u);
        const vec<T> h = load_some<T>(rows.before + r * rows.before_stride + j, n);
        store<T>(reset + r * wide + j, reset_ * h);
        store<T>(update + r * wide + j, update_);
        if (rows.kept != nullptr) {
          T* to = rows.kept + r * layout.row() + v * layout.apart();
          store<T>(to + layout.of(RESET), reset_);
          store<T>(to + layout.of(UPDATE), update_);
        }
      }
    }
  });
  if (normed) normed_gates(rows);
}

template <class T>
template <class F>
void GruForward<T>::candidate_before(const Rows& rows) const {
  const isize N = call.N, wide = width(N);
  const T slope = static_cast<T>(call.slope);
  const Kept<T> layout(call);
  const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
  const Operand<T> operands[2] = {{reset, wide, panels.W[CANDIDATE], N},
                                  {rows.x, call.x.second, panels.U[CANDIDATE], call.M}};
  through<T>(operands, mapped ? 2 : 1, rows.count, share.vectors(layout.all),
             [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
    for (isize v = first_v; v < first_v + C; ++v) {
      const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
      const vec<T> b = optional(call.bias, j, n), shift_ = shift(CANDIDATE, j, n);
      for (isize r = r0; r < r0 + R; ++r) {
        const vec<T> x = mapped ? shift_ : input(rows, CANDIDATE, r, j, n);
        const vec<T> sum = load<T>(z + (r - r0) * row + (v - first_v) * LANES<T>);
        T* to = rows.kept == nullptr ? nullptr
                                     : rows.kept + r * layout.row() + v * layout.apart();
        if (normed) {
          store<T>(to + layout.of(call.normed(CANDIDATE)), sum + x);
          continue;
        }
        const vec<T> c = F::template apply<T>(sum + x, b, slope);
        write_states(rows, r, j, n, load<T>(update + r * wide + j), c);
        if (to != nullptr) store<T>(to + layout.of(CANDIDATE), c);
      }
    }
  });
  if (normed) normed_candidate<F>(rows);
}

// The delta of the reset gate, which needs the candidate's deltas of all units.
template <class T>
void GruBackward<T>::pull_reset(const Rows& rows) {
  const isize N = call.N, t = call.steps.time(rows.s), width = scratch.width();
  const Kept<T> layout(call);
  const bool normed = call.norm_zoneout.has_norm();
  const T* gates = layout.at(t, share.first);
  T* dx = call.M > 0 || grad.x.data == nullptr ? nullptr : at<T>(grad.x, t, share.first);
  const Operand<T> operand{rows.delta + rows.from * scratch.row() + D_CANDIDATE * width,
                           scratch.row(), panels.W[CANDIDATE], N};
  through<T>(&operand, 1, rows.to - rows.from, vectors<T>(N),
             [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
    for (isize v = first_v; v < first_v + C; ++v) {
      const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
      vec<T> all = load<T>(bias_sums + D_RESET * width + j);
      for (isize i = r0; i < r0 + R; ++i) {
        const isize r = rows.from + i;
        const vec<T> dq = load<T>(z + (i - r0) * row + (v - first_v) * LANES<T>);
        const vec<T> reset = load<T>(gates + r * layout.row() + v * layout.apart() + layout.of(RESET));
        const vec<T> h = load_some<T>(rows.before + r * rows.before_stride + j, n);
        const vec<T> dr = dq * h * (reset * (T(1) - reset));
        T* to = rows.delta + r * scratch.row() + j;
        store<T>(to + INNER * width, reset * h);
        store<T>(to + D_RESET * width, dr);
        T* bypass = carry + r * width + j;
        store<T>(bypass, load<T>(bypass) + dq * reset);
        if (normed) continue;
        all += dr;
        if (dx != nullptr) store_some<T>(dx + r * grad.x.second + j, dr, n);
      }
      store<T>(bias_sums + D_RESET * width + j, all);
    }
  });
  if (normed) through_norm(rows, RESET);
}

}  // namespace eigenrnn::EIGENRNN_ISA
