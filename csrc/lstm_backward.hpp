// The backward pass through the LSTM over one thread's rows, and the gradients that follow.
#pragma once
#include "lstm_forward.hpp"
#include "outer.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct LstmBackward {
  const Lstm& call;
  const Lstm& grad;
  GatePanels<T, LSTM_GATES> panels;
  Share share;
  GateScratch<T> scratch;
  Ring<T> ring;       // rows of (LSTM_GATES, width)
  T* carry;           // (share, width): gradient of the cell before the step
  T* sums;            // (N + M, LSTM_GATES, width), the gradients of W and U so far, transposed
  T* bias_sums;       // (LSTM_GATES, width)
  Factor<T>* past;    // two per step in the ring
  Factor<T>* inputs;  // one per step in the ring
  Buffer<T> packed{};
  PassedOn<T> passed{};

  void run() {
    if (share.last == share.first) return;
    int pasts = 0, steps = 0;
    for (isize s = call.steps.T - 1; s >= 0; --s) {
      const isize now = share.running(call.steps, s);
      if (grad.x.data != nullptr)
        clear<T>(grad.x, call.M > 0 ? call.M : LSTM_GATES * call.N, call.steps.time(s),
                 share.first + now, share.last);
      if (now == 0) continue;
      T* delta = ring.next(now, [&] {
        flush(pasts, steps);
        pasts = steps = 0;
      });
      const isize on = smaller(now, ring.after);
      pull(s, 0, on, passed.of(ring.later()), delta);
      pull(s, on, now, nullptr, delta);
      passed.keep(call.steps, share, s, now, delta, ring.row, carry, scratch.width());
      begin(s, now, passed.of(delta));
      pasts = append_states(past, pasts, call, share, s,
                            smaller(now, share.running(call.steps, s - 1)), now, delta, ring.row);
      if (call.M > 0) {
        steps = append_inputs(inputs, steps, call, share, s, now, delta, ring.row);
        if (grad.x.data != nullptr) through_inputs(s, now, delta);
      }
      ring.advance(now);
    }
    flush(pasts, steps);
  }

  // The deltas of rows [from, to) of step s. Rows whose sequence ends with it have no later step, and
  // start from the gradients of the last states.
  void pull(isize s, isize from, isize to, const T* later, T* delta) {
    if (from == to) return;
    const isize N = call.N, t = call.steps.time(s), width = scratch.width();
    const Kept<T> layout(call);
    const Ahead<T> ahead(N, to - from);
    const isize step = s > 0 ? call.steps.time(s - 1) - t : 0;
    const bool ends = later == nullptr;
    const T* kept = layout.at(t, share.first);
    const T* g_h = grad.h.data == nullptr ? nullptr : at<T>(grad.h, t, share.first);
    const T* last = optional(grad.last, ends);
    const T* last_cell = optional(grad.last_cell, ends);
    T* dx = call.M > 0 || grad.x.data == nullptr ? nullptr : at<T>(grad.x, t, share.first);
    Operand<T> operands[LSTM_GATES];
    operands_of(ends ? nullptr : later + from * ring.row, panels.W, operands);
    through<T>(operands, ends ? 0 : LSTM_GATES, to - from, vectors<T>(N),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
      for (isize v = first_v; v < first_v + C; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const isize next_kept = ahead(v, layout.apart(), step * layout.step());
        const isize next_g = ahead(v, LANES<T>, step * grad.h.first);
        vec<T> all[LSTM_GATES];
        for (int k = 0; k < LSTM_GATES; ++k) all[k] = load<T>(bias_sums + k * width + j);
        for (isize each = r0; each < r0 + R; ++each) {
          const isize r = from + each;
          vec<T> dh = load<T>(z + (each - r0) * row + (v - first_v) * LANES<T>);
          vec<T> dcell = ends ? vec<T>{} : load<T>(carry + r * width + j);
          if (g_h != nullptr) {
            dh += load_some<T>(g_h + r * grad.h.second + j, n);
            __builtin_prefetch(g_h + r * grad.h.second + j + next_g, 0, 2);
          }
          if (last != nullptr) dh += load_some<T>(last + r * grad.last.first + j, n);
          if (last_cell != nullptr)
            dcell += load_some<T>(last_cell + r * grad.last_cell.first + j, n);
          const T* values = kept + r * layout.row() + v * layout.apart();
          for (isize part = 0; part < layout.parts; ++part)
            __builtin_prefetch(values + next_kept + layout.of(part), 0, 2);
          const vec<T> i = load<T>(values + layout.of(INPUT));
          const vec<T> f = load<T>(values + layout.of(FORGET));
          const vec<T> g = load<T>(values + layout.of(CELL));
          const vec<T> o = load<T>(values + layout.of(OUTPUT));
          const vec<T> old = load<T>(values + layout.of(Lstm::OLD_CELL));
          const vec<T> bent = tanh<T>(next_cell<T>(f, old, i, g));
          dcell += dh * o * (T(1) - bent * bent);
          store<T>(carry + r * width + j, dcell * f);
          const vec<T> deltas[LSTM_GATES] = {
              dcell * g * (i * (T(1) - i)), dcell * old * (f * (T(1) - f)),
              dcell * i * (T(1) - g * g), dh * bent * (o * (T(1) - o))};
          for (int k = 0; k < LSTM_GATES; ++k) {
            store<T>(delta + r * ring.row + k * width + j, deltas[k]);
            all[k] += deltas[k];
            if (dx != nullptr) store_some<T>(dx + r * grad.x.second + k * N + j, deltas[k], n);
          }
        }
        for (int k = 0; k < LSTM_GATES; ++k) store<T>(bias_sums + k * width + j, all[k]);
      }
    });
  }

  const T* optional(const View& view, bool wanted) const {
    return wanted && view.data != nullptr ? at<T>(view, share.first, 0) : nullptr;
  }

  // The operands that multiply deltas by a matrix of each gate.
  void operands_of(const T* delta, const Panels<T>* matrices, Operand<T>* operands) const {
    for (int k = 0; k < LSTM_GATES; ++k)
      operands[k] = {delta == nullptr ? nullptr : delta + k * scratch.width(), ring.row,
                     matrices[k], call.N};
  }

  // The gradients of the initial states of the sequences that begin with step s.
  void begin(isize s, isize now, const T* delta) {
    const isize N = call.N, width = scratch.width();
    const isize old = smaller(now, share.running(call.steps, s - 1));
    if (old < now && grad.h0.data != nullptr) {
      Operand<T> operands[LSTM_GATES];
      operands_of(delta + old * ring.row, panels.W, operands);
      write_product<T>(operands, LSTM_GATES, N, now - old, nullptr, 0,
                       at<T>(grad.h0, share.first + old, 0), grad.h0.first);
    }
    if (grad.c0.data == nullptr) return;
    for (isize r = old; r < now; ++r)
      std::memcpy(at<T>(grad.c0, share.first + r, 0), carry + r * width,
                  static_cast<std::size_t>(N) * sizeof(T));
  }

  void through_inputs(isize s, isize now, const T* delta) {
    Operand<T> operands[LSTM_GATES];
    operands_of(delta, panels.U, operands);
    write_product<T>(operands, LSTM_GATES, call.M, now, nullptr, 0,
                     at<T>(grad.x, call.steps.time(s), share.first), grad.x.second);
  }

  // Add the outer products of all deltas in the ring with their states and inputs.
  void flush(int pasts, int steps) {
    const isize N = call.N, all = LSTM_GATES * vectors<T>(N), row = LSTM_GATES * scratch.width();
    if (grad.W.data != nullptr) add_products(past, pasts, N, all, sums, row, packed, products_of<T>(call));
    if (grad.U.data != nullptr && call.M > 0)
      add_products(inputs, steps, call.M, all, sums + N * row, row, packed, products_of<T>(call));
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
