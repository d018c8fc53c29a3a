// The gated recurrence over one thread's rows, with the products of its gates in common blocks.
#pragma once
#include "activations.hpp"
#include "gates.hpp"
#include "norm_zoneout.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

enum Gate : int { RESET, UPDATE, CANDIDATE };

// The weight of the old state, u or 1 - u, and its derivative by u.
template <class T>
struct Mix {
  T slope, start;
  explicit Mix(const Gru& call)
      : slope(call.update_keeps ? 1 : -1), start(call.update_keeps ? 0 : 1) {}
  EIGENRNN_INLINE vec<T> kept(vec<T> u) const { return u * slope + start; }
  // The same formula as in the definition, so infinite states give the same result.
  EIGENRNN_INLINE vec<T> mixed(vec<T> u, vec<T> h, vec<T> c) const {
    const vec<T> k = kept(u);
    return k * h + (T(1) - k) * c;
  }
};

template <class T>
struct GruForward {
  const Gru& call;
  GatePanels<T, 3> panels;
  Share share;
  States<T> states;
  T* reset;   // (rows, width): r h, with the reset before the matrix
  T* update;  // (rows, width): u, until the candidate is computed

  // Some rows of a step.
  struct Rows {
    isize count;
    const T* before;
    isize before_stride;
    const T* x;
    T* h;
    isize stride;
    T* kept;
    Zoneout<T> zoneout;
  };

  static isize width(isize N) { return vectors<T>(N) * LANES<T>; }

  template <class F>
  void run() {
    for (isize s = 0; s < call.steps.T; ++s) {
      const isize now = share.running(call.steps, s);
      states.advance(s, now, call.h0, [&](auto... rows) { advance<F>(rows...); });
      share.meet();
      if (share.left) return;
      if (share.leads()) states.finish(s, now);
    }
  }

  template <class F>
  void advance(isize s, isize from, isize to, const T* before, isize before_stride) {
    const isize t = call.steps.time(s), first = share.first + from;
    isize stride;
    T* h = states.after(s, stride) + from * stride;
    const Rows rows{to - from, before, before_stride, at<T>(call.x, t, first),
                    h,         stride, Kept<T>(call).at(t, first), {call.norm_zoneout, t, first}};
    if (call.reset_after) {
      all_at_once<F>(rows);
    } else {
      gates(rows);
      share.meet();
      candidate<F>(rows);
    }
  }

  // The inputs of row r, mapped already, for n units of a gate from unit j on.
  EIGENRNN_INLINE vec<T> input(const Rows& rows, Gate gate, isize r, isize j, isize n) const {
    return load_some<T>(rows.x + r * call.x.second + gate * call.N + j, n);
  }
  EIGENRNN_INLINE vec<T> shift(Gate gate, isize j, isize n) const {
    if (call.c.data == nullptr) return vec<T>{};
    return load_some<T>(static_cast<const T*>(call.c.data) + gate * call.N + j, n);
  }
  EIGENRNN_INLINE vec<T> optional(const View& view, isize j, isize n) const {
    if (view.data == nullptr) return vec<T>{};
    return load_some<T>(static_cast<const T*>(view.data) + j, n);
  }

  // The new states of n units of row r from unit j on.
  EIGENRNN_INLINE void write_states(const Rows& rows, isize r, isize j, isize n, vec<T> u, vec<T> c) const {
    const vec<T> before = load_some<T>(rows.before + r * rows.before_stride + j, n);
    vec<T> h = Mix<T>(call).mixed(u, before, c);
    if (rows.zoneout.active) h = Zoneout<T>::mix(rows.zoneout.kept(r, j, n), before, h);
    store_some<T>(rows.h + r * rows.stride + j, h, n);
  }

  // The reset after the matrix: one block gives r, u and h W_c^T, and c and h follow at once.
  template <class F>
  void all_at_once(const Rows& rows) const {
    const isize N = call.N;
    const T slope = static_cast<T>(call.slope);
    const Kept<T> layout(call);
    const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
    const Operand<T> old{rows.before, rows.before_stride, panels.W[RESET], N};
    const Operand<T> inputs{rows.x, call.x.second, panels.U[RESET], call.M};
    // r must not scale the candidate's input, so the inputs have a separate block
    alignas(64) T more[MOST_OF_BLOCK<T>];
    through<T, 3>(&old, 1, rows.count, share.vectors(3 * layout.all, 3),
                  [&](const T* z, isize row, isize r0, isize R, isize v0, isize C) EIGENRNN_INLINE_LAMBDA {
      if (mapped) {
        const Factor<T> one = factor(inputs, r0, v0);
        BLOCKS<T>.table[R][C](&one, 1, more, row, false);
      }
      for (isize g = 0; g < C; g += 3) {
        const isize v = (v0 + g) / 3, j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const vec<T> b = optional(call.bias, j, n), inner = optional(call.recurrent_bias, j, n);
        vec<T> shifts[3];
        for (int i = 0; i < 3; ++i) shifts[i] = shift(static_cast<Gate>(i), j, n);
        for (isize r = 0; r < R; ++r) {
          vec<T> x[3];
          for (int i = 0; i < 3; ++i)
            x[i] = mapped ? load<T>(more + r * row + (g + i) * LANES<T>) + shifts[i]
                          : input(rows, static_cast<Gate>(i), r0 + r, j, n);
          const T* sums = z + r * row + g * LANES<T>;
          if (normed) {
            T* to = rows.kept + (r0 + r) * layout.row() + v * layout.apart();
            store<T>(to + 3 * LANES<T>, load<T>(sums + 2 * LANES<T>) + inner);
            store<T>(to + 4 * LANES<T>, load<T>(sums) + x[RESET]);
            store<T>(to + 5 * LANES<T>, load<T>(sums + LANES<T>) + x[UPDATE]);
            store<T>(to + 6 * LANES<T>, x[CANDIDATE]);
            continue;
          }
          const vec<T> reset_ = logistic<T>(load<T>(sums) + x[RESET]);
          const vec<T> update_ = logistic<T>(load<T>(sums + LANES<T>) + x[UPDATE]);
          const vec<T> q = load<T>(sums + 2 * LANES<T>) + inner;
          const vec<T> c = F::template apply<T>(x[CANDIDATE] + reset_ * q, b, slope);
          write_states(rows, r0 + r, j, n, update_, c);
          if (rows.kept != nullptr) {
            T* to = rows.kept + (r0 + r) * layout.row() + v * layout.apart();
            store<T>(to, reset_);
            store<T>(to + LANES<T>, update_);
            store<T>(to + 2 * LANES<T>, c);
            store<T>(to + 3 * LANES<T>, q);
          }
        }
      }
    });
    if (!normed) return;
    normed_gates(rows);
    normed_candidate<F>(rows);
  }

  // The sums of all units of r and u are saved: normalise them, and compute r and u. Then follows what
  // the candidate needs of r.
  void normed_gates(const Rows& rows) const {
    const isize N = call.N, wide = width(N);
    const Kept<T> layout(call);
    const LayerNorm<T> norms[2] = {{call.norm_zoneout, N, RESET}, {call.norm_zoneout, N, UPDATE}};
    const isize normed = (layout.parts - 3) * LANES<T>;
    for (isize r = 0; r < rows.count; ++r) {
      T* row = rows.kept + r * layout.row();
      for (int i = 0; i < 2; ++i)
        row[layout.scales() + i] = norms[i].normalise(row + normed + i * LANES<T>, layout.apart());
      for (isize v = 0; v < layout.all; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        T* to = row + v * layout.apart();
        const vec<T> reset_ = logistic<T>(norms[0].apply(load<T>(to + normed), j, n));
        const vec<T> update_ = logistic<T>(norms[1].apply(load<T>(to + normed + LANES<T>), j, n));
        store<T>(to, reset_);
        store<T>(to + LANES<T>, update_);
        if (call.reset_after)
          store<T>(to + 6 * LANES<T>,
                   load<T>(to + 6 * LANES<T>) + reset_ * load<T>(to + 3 * LANES<T>));
        else
          store<T>(reset + r * wide + j,
                   reset_ * load_some<T>(rows.before + r * rows.before_stride + j, n));
      }
    }
  }

  // The sums of all units of the candidate are saved, and r and u: normalise them, and compute c and h.
  template <class F>
  void normed_candidate(const Rows& rows) const {
    const isize N = call.N;
    const Kept<T> layout(call);
    const LayerNorm<T> norm(call.norm_zoneout, N, CANDIDATE);
    const isize normed = (layout.parts - 1) * LANES<T>;
    for (isize r = 0; r < rows.count; ++r) {
      T* row = rows.kept + r * layout.row();
      row[layout.scales() + 2] = norm.normalise(row + normed, layout.apart());
      for (isize v = 0; v < layout.all; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        T* to = row + v * layout.apart();
        const vec<T> c = F::template apply<T>(norm.apply(load<T>(to + normed), j, n),
                                              optional(call.bias, j, n), static_cast<T>(call.slope));
        store<T>(to + 2 * LANES<T>, c);
        write_states(rows, r, j, n, load<T>(to + LANES<T>), c);
      }
    }
  }

  // The reset before the matrix: first r, r h and u of all units ...
  void gates(const Rows& rows) const {
    const isize N = call.N, wide = width(N);
    const Kept<T> layout(call);
    const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
    const Operand<T> operands[2] = {{rows.before, rows.before_stride, panels.W[RESET], N},
                                    {rows.x, call.x.second, panels.U[RESET], call.M}};
    through<T, 2>(operands, mapped ? 2 : 1, rows.count, share.vectors(2 * layout.all, 2),
                  [&](const T* z, isize row, isize r0, isize R, isize v0, isize C) EIGENRNN_INLINE_LAMBDA {
      for (isize g = 0; g < C; g += 2) {
        const isize v = (v0 + g) / 2, j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const vec<T> shifts[2] = {shift(RESET, j, n), shift(UPDATE, j, n)};
        for (isize r = r0; r < r0 + R; ++r) {
          const T* sums = z + (r - r0) * row + g * LANES<T>;
          const vec<T> z_r = load<T>(sums) + (mapped ? shifts[0] : input(rows, RESET, r, j, n));
          const vec<T> z_u =
              load<T>(sums + LANES<T>) + (mapped ? shifts[1] : input(rows, UPDATE, r, j, n));
          if (normed) {
            T* to = rows.kept + r * layout.row() + v * layout.apart();
            store<T>(to + 3 * LANES<T>, z_r);
            store<T>(to + 4 * LANES<T>, z_u);
            continue;
          }
          const vec<T> reset_ = logistic<T>(z_r), update_ = logistic<T>(z_u);
          const vec<T> h = load_some<T>(rows.before + r * rows.before_stride + j, n);
          store<T>(reset + r * wide + j, reset_ * h);
          store<T>(update + r * wide + j, update_);
          if (rows.kept != nullptr) {
            T* to = rows.kept + r * layout.row() + v * layout.apart();
            store<T>(to, reset_);
            store<T>(to + LANES<T>, update_);
          }
        }
      }
    });
    if (normed) normed_gates(rows);
  }

  // ... then c and h.
  template <class F>
  void candidate(const Rows& rows) const {
    const isize N = call.N, wide = width(N);
    const T slope = static_cast<T>(call.slope);
    const Kept<T> layout(call);
    const bool mapped = call.M > 0, normed = call.norm_zoneout.has_norm();
    const Operand<T> operands[2] = {{reset, wide, panels.W[CANDIDATE], N},
                                    {rows.x, call.x.second, panels.U[CANDIDATE], call.M}};
    through<T>(operands, mapped ? 2 : 1, rows.count, share.vectors(layout.all),
               [&](const T* z, isize row, isize r0, isize R, isize v0, isize C) EIGENRNN_INLINE_LAMBDA {
      for (isize v = v0; v < v0 + C; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const vec<T> b = optional(call.bias, j, n), shift_ = shift(CANDIDATE, j, n);
        for (isize r = r0; r < r0 + R; ++r) {
          const vec<T> x = mapped ? shift_ : input(rows, CANDIDATE, r, j, n);
          const vec<T> sum = load<T>(z + (r - r0) * row + (v - v0) * LANES<T>);
          T* to = rows.kept == nullptr ? nullptr
                                       : rows.kept + r * layout.row() + v * layout.apart();
          if (normed) {
            store<T>(to + 5 * LANES<T>, sum + x);
            continue;
          }
          const vec<T> c = F::template apply<T>(sum + x, b, slope);
          write_states(rows, r, j, n, load<T>(update + r * wide + j), c);
          if (to != nullptr) store<T>(to + 2 * LANES<T>, c);
        }
      }
    });
    if (normed) normed_candidate<F>(rows);
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
