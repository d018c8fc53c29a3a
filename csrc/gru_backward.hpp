// The backward pass through the gates over one thread's rows, and the gradients that follow.
#pragma once
#include "gru_forward.hpp"
#include "outer.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// A row of deltas has four parts of `width`: the delta of q with the reset after the matrix, or r h
// with the reset before it, and the deltas of r, u and c. So the parts that are multiplied by W are
// adjacent, and so are those that go to the inputs.
enum Part : int { INNER, D_RESET, D_UPDATE, D_CANDIDATE, PARTS };

// The place of the gradients of a LayerNorm's gain and shift among the sums of single vectors.
constexpr isize norm_sums(int gate) { return PARTS + 1 + 2 * gate; }

template <class T>
struct GruBackward {
  const Gru& call;
  const Gru& grad;
  GatePanels<T, 3> panels;
  Share share;
  GateScratch<T> scratch;
  Ring<T> ring;  // rows of (PARTS, width)
  T* carry;      // (share, width): gradient of the previous state that bypasses W
  T* sums;       // (N + M, 3, width), the gradients of W and U so far, transposed
  T* bias_sums;  // (PARTS + 1 [+ 6], width): sums of the parts, the gradient of modReLU's bias, and
                 // those of the gain and shift of each LayerNorm
  Factor<T>* past;    // two per step in the ring
  Factor<T>* inputs;  // one per step in the ring
  isize counted = 0;  // rows of the ring that the sums include already
  Buffer<T> packed{}, anew{};
  PassedOn<T> passed{};

  // Some rows of a step: the states before it, and the deltas of the next step, if any.
  struct Rows {
    isize s, from, to;
    const T* before;
    isize before_stride, before_next;
    const T* later;
    T* delta;
  };

  template <class F>
  void run() {
    run(call.reset_after ? &GruBackward::pull<F, true> : &GruBackward::pull<F, false>);
  }

  // Find the deltas of some rows of a step. Nothing else depends on f, so all nonlinearities share one loop.
  using Pull = void (GruBackward::*)(const Rows& rows);

  void run(Pull pull_rows) {
    const isize mine = share.last - share.first;
    if (mine == 0) return;
    int pasts = 0, steps = 0;
    for (isize s = call.steps.T - 1; s >= 0; --s) {
      const isize now = share.running(call.steps, s);
      if (grad.x.data != nullptr)
        clear<T>(grad.x, call.M > 0 ? call.M : 3 * call.N, call.steps.time(s), share.first + now,
                 share.last);
      if (now == 0) continue;
      T* delta = ring.next(now, [&] {
        flush(pasts, steps);
        pasts = steps = 0, counted = ring.after;
      });
      pull_all(pull_rows, s, now, smaller(now, ring.after), passed.of(ring.later()), delta);
      passed.keep(call.steps, share, s, now, delta, scratch.row(), carry, scratch.width());
      pasts = remember(s, now, delta, pasts);
      if (call.M > 0) {
        steps = append_inputs(inputs, steps, call, share, s, now,
                              delta + D_RESET * scratch.width(), scratch.row());
        if (grad.x.data != nullptr) through_inputs(s, now, delta);
      }
      ring.advance(now);
    }
    flush(pasts, steps);
  }

  // Split the rows: those that continue after step s or end with it, and those that began before
  // step s or begin with it.
  void pull_all(Pull pull_rows, isize s, isize now, isize on, const T* later, T* delta) {
    const isize old = smaller(now, share.running(call.steps, s - 1));
    const isize ends[4] = {0, smaller(on, old), larger(on, old), now};
    for (int i = 0; i < 3; ++i) {
      const isize from = ends[i], to = ends[i + 1];
      if (from == to) continue;
      Rows rows{s, from, to, nullptr, 0, 0, to <= on ? later : nullptr, delta};
      if (to <= old) {
        const isize t = call.steps.time(s - 1);
        rows.before = at<T>(call.h, t, share.first);
        rows.before_stride = call.h.second;
        rows.before_next = s > 1 ? (call.steps.time(s - 2) - t) * call.h.first : 0;
      } else {
        rows.before = at<T>(call.h0, share.first, 0), rows.before_stride = call.h0.first;
      }
      if (call.steps.any_begins_anew(s, share.first + from, share.first + to)) {
        T* copies = anew.at_least((share.last - share.first) * call.N);
        copy_states<T>(call.steps, share, s, from, to, rows.before, rows.before_stride, call.N, copies);
        rows.before = copies, rows.before_stride = call.N, rows.before_next = 0;
      }
      (this->*pull_rows)(rows);
      if (!call.reset_after) pull_reset(rows);
    }
  }

  // The gradient of the state after step s, and from it all deltas but, with the reset before the
  // matrix, that of the reset gate.
  template <class F, bool AFTER>
  void pull(const Rows& rows) {
    const isize N = call.N, t = call.steps.time(rows.s), width = scratch.width();
    const Kept<T> layout(call);
    const bool normed = call.norm_zoneout.has_norm();
    const Zoneout<T> zoneout(call.norm_zoneout, t, share.first);
    const Ahead<T> ahead(N, rows.to - rows.from);
    const isize step = rows.s > 0 ? call.steps.time(rows.s - 1) - t : 0;
    const Mix<T> mix(call);
    const T slope = static_cast<T>(call.slope);
    const T* gates = layout.at(t, share.first);
    const T* g = grad.h.data == nullptr ? nullptr : at<T>(grad.h, t, share.first);
    const T* end = rows.later != nullptr || grad.last.data == nullptr
                       ? nullptr
                       : at<T>(grad.last, share.first, 0);
    T* dx = call.M > 0 || grad.x.data == nullptr ? nullptr : at<T>(grad.x, t, share.first);
    constexpr isize parts = AFTER ? Gru::PRODUCT + 1 : Gru::PRODUCT;
    Operand<T> operands[3];
    const int how_many = operands_of(rows.later, rows.from, AFTER, operands);
    through<T>(operands, how_many, rows.to - rows.from, vectors<T>(N),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
      for (isize v = first_v; v < first_v + C; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const isize next_gates = ahead(v, layout.apart(), step * layout.step());
        const isize next_g = ahead(v, LANES<T>, step * grad.h.first);
        const isize next_old = ahead(v, LANES<T>, rows.before_next);
        vec<T> all[PARTS + 1];
        for (int i = 0; i <= PARTS; ++i) all[i] = load<T>(bias_sums + i * width + j);
        for (isize i = r0; i < r0 + R; ++i) {
          const isize r = rows.from + i;
          vec<T> d = load<T>(z + (i - r0) * row + (v - first_v) * LANES<T>);
          if (rows.later != nullptr) d += load<T>(carry + r * width + j);
          if (g != nullptr) {
            d += load_some<T>(g + r * grad.h.second + j, n);
            __builtin_prefetch(g + r * grad.h.second + j + next_g, 0, 2);
          }
          if (end != nullptr) d += load_some<T>(end + r * grad.last.first + j, n);
          const T* from = gates + r * layout.row() + v * layout.apart();
          for (isize part = 0; part < parts; ++part)
            __builtin_prefetch(from + next_gates + layout.of(part), 0, 2);
          const T* old = rows.before + r * rows.before_stride + j;
          __builtin_prefetch(old + next_old, 0, 2);
          const vec<T> h = load_some<T>(old, n);
          vec<T> bypass{};
          if (zoneout.active) {
            const vec<T> m = zoneout.kept(r, j, n);
            bypass = Zoneout<T>::mix(m, d, vec<T>{});
            d = Zoneout<T>::mix(m, vec<T>{}, d);
          }
          const vec<T> reset = load<T>(from + layout.of(RESET));
          const vec<T> update = load<T>(from + layout.of(UPDATE));
          const vec<T> c = load<T>(from + layout.of(CANDIDATE)), kept = mix.kept(update);
          const vec<T> dc = F::template pull<T>(d * (T(1) - kept), c, vec<T>{}, slope);
          const vec<T> du = d * (h - c) * (update * (T(1) - update)) * mix.slope;
          T* to = rows.delta + r * scratch.row() + j;
          store<T>(to + D_UPDATE * width, du);
          store<T>(to + D_CANDIDATE * width, dc);
          store<T>(carry + r * width + j, d * kept + bypass);
          if constexpr (HAS_PHASE<F>) all[PARTS] += dc * F::template phase<T>(c);
          if (normed) continue;
          all[D_UPDATE] += du;
          all[D_CANDIDATE] += dc;
          if constexpr (AFTER) {
            const vec<T> dq = dc * reset;
            const vec<T> dr = dc * load<T>(from + layout.of(Gru::PRODUCT)) * (reset * (T(1) - reset));
            store<T>(to + INNER * width, dq);
            store<T>(to + D_RESET * width, dr);
            all[INNER] += dq;
            all[D_RESET] += dr;
            if (dx != nullptr) store_some<T>(dx + r * grad.x.second + j, dr, n);
          }
          if (dx != nullptr) {
            store_some<T>(dx + r * grad.x.second + N + j, du, n);
            store_some<T>(dx + r * grad.x.second + 2 * N + j, dc, n);
          }
        }
        for (int i = 0; i <= PARTS; ++i) store<T>(bias_sums + i * width + j, all[i]);
      }
    });
    if (!normed) return;
    through_norm(rows, UPDATE);
    through_norm(rows, CANDIDATE);
    if constexpr (AFTER) {
      through_product(rows);
      through_norm(rows, RESET);
    }
  }

  // With LayerNorm: from the delta of its result to that of its argument, which goes to the inputs.
  void through_norm(const Rows& rows, Gate gate) const {
    const isize N = call.N, t = call.steps.time(rows.s), width = scratch.width();
    const Kept<T> layout(call);
    const LayerNorm<T> norm(call.norm_zoneout, N, gate);
    const T* normed = layout.at(t, share.first) + layout.of(call.normed(gate));
    const T* scales = layout.at(t, share.first) + layout.scales() + gate;
    T* dx = call.M > 0 || grad.x.data == nullptr ? nullptr : at<T>(grad.x, t, share.first) + gate * N;
    T* of_gain = bias_sums + norm_sums(gate) * width;
    for (isize r = rows.from; r < rows.to; ++r) {
      T* delta = rows.delta + r * scratch.row() + (D_RESET + gate) * width;
      norm.pull(delta, normed + r * layout.row(), layout.apart(), scales[r * layout.row()], of_gain,
                of_gain + width);
      add_and_store(delta, N, bias_sums + (D_RESET + gate) * width,
              dx == nullptr ? nullptr : dx + r * grad.x.second);
    }
  }

  // The deltas that the form of the reset adds, in gru_reset_after.hpp and gru_reset_before.hpp.
  void through_product(const Rows& rows) const;
  void pull_reset(const Rows& rows);

  // The operands that take the deltas of a step, from a row on, to the state before it.
  int operands_of(const T* delta, isize from, bool after, Operand<T>* operands) const {
    if (delta == nullptr) {
      operands[0] = {nullptr, 0, panels.W[RESET], 0};
      return 1;
    }
    const T* first = delta + from * scratch.row();
    const isize row = scratch.row(), width = scratch.width();
    int count = 0;
    if (after) operands[count++] = {first + INNER * width, row, panels.W[CANDIDATE], call.N};
    operands[count++] = {first + D_RESET * width, row, panels.W[RESET], call.N};
    operands[count++] = {first + D_UPDATE * width, row, panels.W[UPDATE], call.N};
    return count;
  }

  // Record the states before step s for the gradient of W; compute the gradient of h0.
  int remember(isize s, isize now, const T* delta, int count) {
    const isize row = scratch.row(), width = scratch.width();
    const T* first = delta + (call.reset_after ? INNER : D_RESET) * width;
    const isize old = smaller(now, share.running(call.steps, s - 1));
    if (old < now && grad.h0.data != nullptr) {
      Operand<T> operands[3];
      const int how_many = operands_of(passed.of(delta), old, call.reset_after, operands);
      write_product(operands, how_many, call.N, now - old, carry + old * width, width,
                    at<T>(grad.h0, share.first + old, 0), grad.h0.first);
    }
    return append_states(past, count, call, share, s, old, now, first, row);
  }

  void through_inputs(isize s, isize now, const T* delta) {
    Operand<T> operands[3];
    for (int i = 0; i < 3; ++i)
      operands[i] = {delta + (D_RESET + i) * scratch.width(), scratch.row(), panels.U[i], call.N};
    write_product<T>(operands, 3, call.M, now, nullptr, 0,
                     at<T>(grad.x, call.steps.time(s), share.first), grad.x.second);
  }

  // Add the outer products of all deltas in the ring with their states and inputs.
  void flush(int pasts, int steps) {
    const isize width = scratch.width(), all = vectors<T>(call.N);
    if (grad.W.data != nullptr && call.reset_after)
      add_products(past, pasts, call.N, 3 * all, sums, 3 * width, packed, products_of<T>(call));
    if (grad.W.data != nullptr && !call.reset_after) {
      add_products(past, pasts, call.N, 2 * all, sums, 3 * width, packed, products_of<T>(call));
      const T* first = ring.deltas + counted * scratch.row();
      Factor<T> reset{first + INNER * width, 1,        scratch.row(), first + D_CANDIDATE * width,
                      scratch.row(),         LANES<T>, ring.held - counted};
      add_products(&reset, 1, call.N, all, sums + 2 * width, 3 * width, packed, products_of<T>(call));
    }
    if (grad.U.data != nullptr && call.M > 0)
      add_products(inputs, steps, call.M, 3 * all, sums + call.N * 3 * width, 3 * width, packed, products_of<T>(call));
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
