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
  const ElmanBack& back;
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
      if (back.dx.data != nullptr)
        clear<T>(back.dx, call.M > 0 ? call.M : call.N, call.steps.time(s), share.first + now,
                 share.last);
      if (call.norm_zoneout.leak_changes && back.dleak.data != nullptr)
        clear<T>(back.dleak, call.N, call.steps.time(s), share.first + now, share.last);
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
        if (back.dx.data != nullptr) through_inputs(s, now, delta);
      }
      ring.advance(now);
    }
    flush(pasts, steps);
  }

  // Rows [from, to) of step s; rows whose sequence ends here start from the last states' gradient.
  template <class F, bool plain>
  void pull(isize s, isize from, isize to, const T* later, T* delta) {
    const isize N = call.N, t = call.steps.time(s), width = scratch.width();
    const T* h = at<T>(call.h, t, share.first + from);
    const T* g = back.dh.data == nullptr ? nullptr : at<T>(back.dh, t, share.first + from);
    const T* end = later != nullptr || back.dlast.data == nullptr
                       ? nullptr
                       : at<T>(back.dlast, share.first + from, 0);
    T* dx = call.M > 0 || back.dx.data == nullptr ? nullptr : at<T>(back.dx, t, share.first + from);
    delta += from * width;
    const T* moduli =
        call.moduli.data == nullptr ? nullptr : at<T>(call.moduli, t, share.first + from);
    const T slope = static_cast<T>(call.slope);
    const Kept<T> layout(call);
    const T* kept = layout.at(t, share.first + from);
    const T* mixed = plain || !call.norm_zoneout.mixes() ? nullptr : kept + layout.of(call.value());
    const bool of_arguments = !plain && call.mixes_arguments();
    const T* values = of_arguments ? nullptr : mixed;
    const bool pull_leak = !plain && back.dleak.data != nullptr;
    const bool leak_changes = call.norm_zoneout.leak_changes;
    const bool normed = !plain && call.norm_zoneout.has_norm();
    const Zoneout<T> zoneout(call.norm_zoneout, t, share.first + from);
    T* carried = carry == nullptr ? nullptr : carry + from * width;
    // prefetch the rows of the next step while this step computes
    const isize next = s > 0 ? call.steps.time(s - 1) - t : 0;
    const isize next_h = next * (values == nullptr ? call.h.first : layout.step());
    const isize next_g = next * back.dh.first;
    const Operand<T> operands[2] = {{later == nullptr ? nullptr : later + from * width, width,
                                     panels.W, later == nullptr ? 0 : N},
                                    readout.operand(s, from, panels.V)};
    through<T>(operands, readout.wanted() ? 2 : 1, to - from, vectors<T>(N),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
                 for (isize v = 0; v < C; ++v) {
                   const isize j = (first_v + v) * LANES<T>, n = smaller(LANES<T>, N - j);
                   vec<T> moved = load<T>(bias_sums + j), all = load<T>(shift_sums + j);
                   vec<T> leaked = pull_leak ? load<T>(leak_sums + j) : vec<T>{};
                   for (isize r = 0; r < R; ++r) {
                     vec<T> d = load<T>(z + r * row + v * LANES<T>);
                     if (g != nullptr) d += load_some<T>(g + (r0 + r) * back.dh.second + j, n);
                     const vec<T> of_last =
                         end == nullptr ? vec<T>{} : load_some<T>(end + (r0 + r) * back.dlast.first + j, n);
                     if (!of_arguments) d += of_last;
                     const T* value = values == nullptr
                                          ? h + (r0 + r) * call.h.second + j
                                          : values + (r0 + r) * layout.row() + (first_v + v) * layout.apart();
                     __builtin_prefetch(value + next_h, 0, 2);
                     if (g != nullptr)
                       __builtin_prefetch(g + (r0 + r) * back.dh.second + j + next_g, 0, 2);
                     vec<T> state = values == nullptr ? load_some<T>(value, n) : load<T>(value);
                     const auto through_mix = [&]() EIGENRNN_INLINE_LAMBDA {
                       T* bypass = carried + (r0 + r) * width + j;
                       if (later != nullptr) d += load<T>(bypass);
                       const vec<T> m = zoneout.kept(r0 + r, j, n);
                       const vec<T> renewed = zoneout.renewed(m, r0 + r, j, n);
                       if (pull_leak) {
                         vec<T> change = load<T>(mixed + (r0 + r) * layout.row() + (first_v + v) * layout.apart());
                         if (!of_arguments && !call.steps.begins_anew(s, share.first + from + r0 + r))
                           change -= load_some<T>(state_before(s, from + r0 + r) + j, n);
                         if (leak_changes)
                           store_some<T>(at<T>(back.dleak, t, share.first + from + r0 + r) + j, d * change, n);
                         else leaked += d * change;
                       }
                       store<T>(bypass, Zoneout<T>::mix(m, renewed, d, vec<T>{}));
                       d = Zoneout<T>::mix(m, renewed, vec<T>{}, d);
                       // it is not a value of f
                       if (!of_arguments) state = m == T(1) ? vec<T>{} : state;
                     };
                     if (!plain && zoneout.active && !of_arguments) through_mix();
                     // before pull, which may make d so large across the phase that d along it rounds
                     if constexpr (HAS_PHASE<F>) moved += d * F::template phase<T>(state);
                     vec<T> m{};
                     if constexpr (NEEDS_MODULI<F>)
                       m = F::template load_moduli<T>(
                           moduli + (r0 + r) * call.moduli.second + j / 2, n);
                     d = F::template pull<T>(d, state, m, slope);
                     if (of_arguments) {
                       d += of_last;
                       through_mix();
                     }
                     store<T>(delta + (r0 + r) * width + j, d);
                     if (normed) continue;
                     if (dx != nullptr) store_some<T>(dx + (r0 + r) * back.dx.second + j, d, n);
                     all += d;
                   }
                   store<T>(bias_sums + j, moved);
                   if (pull_leak) store<T>(leak_sums + j, leaked);
                   store<T>(shift_sums + j, all);
                 }
               });
    if (!normed) return;
    const LayerNorm<T> norm(call.norm_zoneout, N);
    for (isize r = 0; r < to - from; ++r) {
      const T* row = kept + r * layout.row();
      norm.pull(delta + r * width, row + layout.of(Elman::NORMED), layout.apart(),
                row[layout.scales()], norm_sums, norm_sums + width);
      add_and_store(delta + r * width, N, shift_sums, dx == nullptr ? nullptr : dx + r * back.dx.second);
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
    if (old < now && back.dh0.data != nullptr)
      out(panels.W, call.N, passed.of(delta) + old * width, now - old,
          call.mixes_arguments() ? nullptr : bypass, at<T>(back.dh0, share.first + old, 0),
          back.dh0.first);
    for (isize r = old; r < now && back.dv0.data != nullptr; ++r)
      std::memcpy(at<T>(back.dv0, share.first + r, 0), carry + r * width,
                  static_cast<std::size_t>(call.N) * sizeof(T));
    return append_states(past, count, call, share, s, old, now, delta, width);
  }

  void through_inputs(isize s, isize now, const T* delta) {
    out(panels.U, call.M, delta, now, nullptr, at<T>(back.dx, call.steps.time(s), share.first),
        back.dx.second);
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
    if (back.dW.data != nullptr) add_products(past, pasts, call.N, all, sums, width, packed, products_of<T>(call));
    if (back.dU.data != nullptr && call.M > 0)
      add_products(inputs, steps, call.M, all, sums + call.N * width, width, packed, products_of<T>(call));
    readout.flush();
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
