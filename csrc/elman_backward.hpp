// delta_t = (g_t + dy_t V + delta_{t+1} W) f'(z_t) over one thread's rows, and the gradients that follow.
#pragma once
#include "elman_forward.hpp"
#include "ring.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The memory of one thread.
template <class T>
struct ElmanScratch {
  isize N, M;
  isize share;
  isize rows;  // capacity of the ring of deltas
  bool normed, zones_out, leaks;

  ElmanScratch(const Elman& call, isize mine)
      : N(call.N),
        M(call.M),
        share(larger(1, mine)),
        rows(Ring<T>::rows_for(mine)),
        normed(call.norm_zoneout.has_norm()),
        zones_out(call.norm_zoneout.has_zoneout()),
        leaks(call.norm_zoneout.has_leak()) {}

  isize width() const { return vectors<T>(N) * LANES<T>; }
  isize deltas_size() const { return rows * width(); }
  isize sums_size() const { return (N + M) * width(); }
  isize norm_sums_size() const { return normed ? 2 * width() : 0; }
  isize leak_sums_size() const { return leaks ? width() : 0; }
  isize carry_size() const { return zones_out ? share * width() : 0; }
  isize size() const {
    return deltas_size() + sums_size() + 2 * width() + norm_sums_size() + leak_sums_size() +
           carry_size();
  }
};

template <class T>
struct ElmanBackward {
  const Elman& call;
  const Elman& grad;
  ElmanPanels<T> panels;  // W, U and V, not transposed
  Share share;
  ElmanScratch<T> scratch;
  ReadoutBack<T>& readout;
  Ring<T> ring;     // rows of `width`
  T* sums;          // (N + M, width), the gradients of W and U so far, transposed
  T* bias_sums;     // (width,)
  T* shift_sums;    // (width,)
  T* norm_sums;     // (2, width), the gradients of LayerNorm's gain and shift
  T* leak_sums;     // (width,), the gradient of the leak
  T* carry;         // (share, width): gradient of the previous state that bypasses W; with zoneout
  Factor<T>* past;  // two per step in the ring
  Factor<T>* inputs;
  Buffer<T> packed{};
  PassedOn<T> passed{};

  template <class F>
  void run() {
    const NormZoneout& options = call.norm_zoneout;
    if (options.has_norm() || options.has_zoneout()) run(&ElmanBackward::pull<F, false>);
    else run(&ElmanBackward::pull<F, true>);
  }

 private:
  // Find the deltas of some rows of a step. Nothing else depends on f, so all nonlinearities share one loop.
  using Pull = void (ElmanBackward::*)(isize s, isize from, isize to, const T* later, T* delta);

  void run(Pull pull_rows) {
    const isize mine = share.last - share.first;
    if (mine == 0) return;
    int pasts = 0, steps = 0;
    for (isize s = call.steps.T - 1; s >= 0; --s) {
      const isize now = share.running(call.steps, s);
      if (grad.x.data != nullptr)
        clear<T>(grad.x, call.M > 0 ? call.M : call.N, call.steps.time(s), share.first + now,
                 share.last);
      if (call.norm_zoneout.leak_changes && grad.norm_zoneout.leak.data != nullptr)
        clear<T>(grad.norm_zoneout.leak, call.N, call.steps.time(s), share.first + now, share.last);
      if (now == 0) continue;
      T* delta = ring.next(now, [&] {
        flush(pasts, steps);
        pasts = steps = 0;
      });
      const isize on = smaller(now, ring.after);
      (this->*pull_rows)(s, 0, on, passed.of(ring.later()), delta);
      (this->*pull_rows)(s, on, now, nullptr, delta);
      passed.keep(call.steps, share, s, now, delta, scratch.width(), carry, scratch.width());
      pasts = remember(s, now, delta, pasts);
      readout.hold(s, now, ring.held);
      if (call.M > 0) {
        steps = append_inputs(inputs, steps, call, share, s, now, delta, scratch.width());
        if (grad.x.data != nullptr) through_inputs(s, now, delta);
      }
      ring.advance(now);
    }
    flush(pasts, steps);
  }

  // Some rows of step s. Row 0 is row `from` of the thread.
  struct Rows {
    isize s, from;
    Row<T> h;        // the states after the step
    Row<T> g;        // their gradients; may be missing
    Row<T> end;      // the gradients of the last states; missing if the sequences go on after the step
    Row<T> moduli;   // of modReLU of pairs
    Row<T> saved;    // a value for each unit, if units mix
    Row<T> bypass;   // the gradients of the states before, as far as they bypass W; with zoneout
    bool goes_on;    // whether the step after has sent some there
    Row<T> delta;    // the gradients of the arguments of f
    Row<T> dx;       // those of mapped inputs; missing if they are not wanted
    Zoneout<T> zoneout;
  };

  // Rows [from, to) of step s; rows whose sequence ends here start from the last states' gradient.
  template <class F, bool plain>
  void pull(isize s, isize from, isize to, const T* later, T* delta) {
    const isize N = call.N, t = call.steps.time(s), width = scratch.width(), first = share.first + from;
    const Kept<T> layout(call);
    const Row<T> kept = Row<T>::of(call.saved, t, first);
    const bool of_arguments = !plain && call.mixes_arguments();
    const bool of_states = !plain && call.norm_zoneout.has_zoneout() && !of_arguments;
    const bool of_leak = !plain && grad.norm_zoneout.leak.data != nullptr;
    const bool normed = !plain && call.norm_zoneout.has_norm();
    Rows rows{s, from, Row<T>::of(call.h, t, first), Row<T>::of(grad.h, t, first), {},
              Row<T>::of(call.moduli, t, first), {}, {}, later != nullptr, {delta + from * width, width}, {},
              {call.norm_zoneout, t, first}};
    if (later == nullptr && grad.last.data != nullptr) rows.end = {at<T>(grad.last, first, 0), grad.last.first};
    if (!plain && call.norm_zoneout.mixes()) rows.saved = {kept.data + layout.of(call.value()), kept.stride};
    if (carry != nullptr) rows.bypass = {carry + from * width, width};
    if (call.M == 0) rows.dx = Row<T>::of(grad.x, t, first);
    const bool saved_value = rows.saved && !of_arguments;
    // prefetch the rows of the next step while this step computes
    const isize next = s > 0 ? call.steps.time(s - 1) - t : 0;
    const isize next_h = next * (saved_value ? layout.step() : call.h.first);
    const isize next_g = next * grad.h.first;
    const Operand<T> operands[2] = {{later == nullptr ? nullptr : later + from * width, width,
                                     panels.W, later == nullptr ? 0 : N},
                                    readout.operand(s, from, panels.V)};
    through<T>(operands, readout.wanted() ? 2 : 1, to - from, vectors<T>(N),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
                 for (isize v = 0; v < C; ++v) {
                   const isize j = (first_v + v) * LANES<T>, n = smaller(LANES<T>, N - j);
                   vec<T> moved = load<T>(bias_sums + j), all = load<T>(shift_sums + j);
                   vec<T> leaked = of_leak ? load<T>(leak_sums + j) : vec<T>{};
                   for (isize i = 0; i < R; ++i) {
                     const isize r = r0 + i;
                     vec<T> d = load<T>(z + i * row + v * LANES<T>);
                     if (rows.g) d += load_some<T>(rows.g.at(r, j), n);
                     const vec<T> of_last = rows.end ? load_some<T>(rows.end.at(r, j), n) : vec<T>{};
                     if (!of_arguments) d += of_last;
                     const T* value = saved_value ? rows.saved.at(r, j * layout.parts) : rows.h.at(r, j);
                     __builtin_prefetch(value + next_h, 0, 2);
                     if (rows.g) __builtin_prefetch(rows.g.at(r, j) + next_g, 0, 2);
                     vec<T> state = saved_value ? load<T>(value) : load_some<T>(value, n);
                     if (of_states) {
                       const vec<T> m = through_mix(rows, d, leaked, of_leak, r, j, n);
                       state = m == T(1) ? vec<T>{} : state;  // it is not a value of f
                     }
                     // before f, which may make d so large across the phase that d along it rounds
                     if constexpr (HAS_PHASE<F>) moved += d * F::template phase<T>(state);
                     vec<T> m{};
                     if constexpr (NEEDS_MODULI<F>) m = F::template load_moduli<T>(rows.moduli.at(r, j / 2), n);
                     d = F::template pull<T>(d, state, m, static_cast<T>(call.slope));
                     if (of_arguments) {
                       d += of_last;
                       through_mix(rows, d, leaked, of_leak, r, j, n);
                     }
                     store<T>(rows.delta.at(r, j), d);
                     if (normed) continue;
                     if (rows.dx) store_some<T>(rows.dx.at(r, j), d, n);
                     all += d;
                   }
                   store<T>(bias_sums + j, moved);
                   if (of_leak) store<T>(leak_sums + j, leaked);
                   store<T>(shift_sums + j, all);
                 }
               });
    if (normed) through_norm(rows, to - from, layout, kept);
  }

  // Turn d, the gradient of a mix of old and new states or arguments, into that of the new ones. What the old ones
  // get bypasses W. Returns their part m of the mix.
  EIGENRNN_INLINE vec<T> through_mix(const Rows& rows, vec<T>& d, vec<T>& leaked, bool of_leak, isize r, isize j,
                                     isize n) const {
    T* bypass = rows.bypass.at(r, j);
    if (rows.goes_on) d += load<T>(bypass);
    const vec<T> m = rows.zoneout.kept(r, j, n), renewed = rows.zoneout.renewed(m, r, j, n);
    if (of_leak) leaked += through_leak(rows, d, r, j, n);
    store<T>(bypass, Zoneout<T>::mix(m, renewed, d, vec<T>{}));
    d = Zoneout<T>::mix(m, renewed, vec<T>{}, d);
    return m;
  }

  // The gradient of the leak, d times the change that it scales. Stored and zero if the leak changes.
  EIGENRNN_INLINE vec<T> through_leak(const Rows& rows, vec<T> d, isize r, isize j, isize n) const {
    const isize b = share.first + rows.from + r;
    vec<T> change = load<T>(rows.saved.at(r, j * call.parts()));
    if (!call.mixes_arguments() && !call.steps.begins_anew(rows.s, b))
      change -= load_some<T>(state_before(rows.s, rows.from + r) + j, n);
    if (!call.norm_zoneout.leak_changes) return d * change;
    store_some<T>(at<T>(grad.norm_zoneout.leak, call.steps.time(rows.s), b) + j, d * change, n);
    return vec<T>{};
  }

  // Turn the deltas, gradients of normalised arguments, into those of the arguments.
  void through_norm(const Rows& rows, isize count, const Kept<T>& layout, const Row<T>& kept) {
    const LayerNorm<T> norm(call.norm_zoneout, call.N);
    for (isize r = 0; r < count; ++r) {
      norm.pull(rows.delta.at(r, 0), kept.at(r, layout.of(Elman::NORMED)), layout.apart(),
                *kept.at(r, layout.scales()), norm_sums, norm_sums + scratch.width());
      add_and_store(rows.delta.at(r, 0), call.N, shift_sums, rows.dx ? rows.dx.at(r, 0) : nullptr);
    }
  }

  // The state of a row before step s.
  const T* state_before(isize s, isize row) const {
    if (row >= share.running(call.steps, s - 1)) return at<T>(call.h0, share.first + row, 0);
    return at<T>(call.h, call.steps.time(s - 1), share.first + row);
  }

  // Record the states before step s for the gradient of W; compute the gradients of h0 and v0.
  int remember(isize s, isize now, const T* delta, int count) {
    const isize width = scratch.width(), old = smaller(now, share.running(call.steps, s - 1));
    const T* bypass = carry == nullptr ? nullptr : carry + old * width;
    if (old < now && grad.h0.data != nullptr)
      out(panels.W, call.N, passed.of(delta) + old * width, now - old,
          call.mixes_arguments() ? nullptr : bypass, at<T>(grad.h0, share.first + old, 0),
          grad.h0.first);
    for (isize r = old; r < now && grad.v0.data != nullptr; ++r)
      std::memcpy(at<T>(grad.v0, share.first + r, 0), carry + r * width,
                  static_cast<std::size_t>(call.N) * sizeof(T));
    return append_states(past, count, call, share, s, old, now, delta, width);
  }

  void through_inputs(isize s, isize now, const T* delta) {
    out(panels.U, call.M, delta, now, nullptr, at<T>(grad.x, call.steps.time(s), share.first),
        grad.x.second);
  }

  // to = delta * matrix [+ more], of `cols` columns.
  void out(const Panels<T>& matrix, isize cols, const T* delta, isize count, const T* more, T* to,
           isize stride) {
    const Operand<T> operand{delta, scratch.width(), matrix, call.N};
    write_product<T>(&operand, 1, cols, count, more, scratch.width(), to, stride);
  }

  // Add the outer products of all deltas in the ring with their states and inputs.
  void flush(int pasts, int steps) {
    const isize width = scratch.width(), all = vectors<T>(call.N);
    if (grad.W.data != nullptr) add_products(past, pasts, call.N, all, sums, width, packed, products_of<T>(call));
    if (grad.U.data != nullptr && call.M > 0)
      add_products(inputs, steps, call.M, all, sums + call.N * width, width, packed, products_of<T>(call));
    readout.flush();
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
