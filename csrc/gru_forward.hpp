// The gated recurrence over one thread's rows, with the products of its gates in common blocks.
#pragma once
#include "activations.hpp"
#include "gates.hpp"
#include "norm_zoneout.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

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
    run(call.reset_after ? &GruForward::reset_after<F> : &GruForward::reset_before<F>);
  }

  // Compute some rows of a step. Nothing else depends on f, so all nonlinearities share one loop.
  using Advance = void (GruForward::*)(const Rows& rows);

  void run(Advance advance_rows) {
    for (isize s = 0; s < call.steps.T; ++s) {
      const isize now = share.running(call.steps, s);
      states.advance(s, now, call.h0, [&](isize, isize from, isize to, const T* before, isize before_stride) {
        const isize t = call.steps.time(s), first = share.first + from;
        isize stride;
        T* h = states.after(s, stride) + from * stride;
        const Rows rows{to - from, before, before_stride, at<T>(call.x, t, first),
                        h,         stride, Kept<T>(call).at(t, first), {call.norm_zoneout, t, first}};
        (this->*advance_rows)(rows);
      });
      share.meet();
      if (share.left) return;
      if (share.leads()) states.finish(s, now);
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

  // The states of some rows of a step, in gru_reset_after.hpp and gru_reset_before.hpp.
  template <class F>
  void reset_after(const Rows& rows);
  template <class F>
  void reset_before(const Rows& rows);
  void gates_before(const Rows& rows) const;
  template <class F>
  void candidate_before(const Rows& rows) const;

  // The sums of all units of r and u are saved: normalise them, and compute r and u. Then follows what
  // the candidate needs of r.
  void normed_gates(const Rows& rows) const {
    const isize N = call.N, wide = width(N);
    const Kept<T> layout(call);
    const LayerNorm<T> norms[2] = {{call.norm_zoneout, N, RESET}, {call.norm_zoneout, N, UPDATE}};
    for (isize r = 0; r < rows.count; ++r) {
      T* row = rows.kept + r * layout.row();
      for (int i = 0; i < 2; ++i)
        row[layout.scales() + i] = norms[i].normalise(row + layout.of(call.normed(i)), layout.apart());
      for (isize v = 0; v < layout.all; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        T* to = row + v * layout.apart();
        const vec<T> z_r = load<T>(to + layout.of(call.normed(RESET)));
        const vec<T> z_u = load<T>(to + layout.of(call.normed(UPDATE)));
        const vec<T> reset_ = logistic<T>(norms[RESET].apply(z_r, j, n));
        const vec<T> update_ = logistic<T>(norms[UPDATE].apply(z_u, j, n));
        store<T>(to + layout.of(RESET), reset_);
        store<T>(to + layout.of(UPDATE), update_);
        T* sum = to + layout.of(call.normed(CANDIDATE));
        if (call.reset_after)
          store<T>(sum, load<T>(sum) + reset_ * load<T>(to + layout.of(Gru::PRODUCT)));
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
    const isize normed = layout.of(call.normed(CANDIDATE));
    for (isize r = 0; r < rows.count; ++r) {
      T* row = rows.kept + r * layout.row();
      row[layout.scales() + CANDIDATE] = norm.normalise(row + normed, layout.apart());
      for (isize v = 0; v < layout.all; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        T* to = row + v * layout.apart();
        const vec<T> c = F::template apply<T>(norm.apply(load<T>(to + normed), j, n),
                                              optional(call.bias, j, n), static_cast<T>(call.slope));
        store<T>(to + layout.of(CANDIDATE), c);
        write_states(rows, r, j, n, load<T>(to + layout.of(UPDATE)), c);
      }
    }
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
