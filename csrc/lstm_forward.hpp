// The LSTM over one thread's rows, with the products of its gates in common blocks.
#pragma once
#include "gates.hpp"
#include "math.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The cell after a step: f cell + i g.
template <class T>
EIGENRNN_INLINE vec<T> next_cell(vec<T> f, vec<T> cell, vec<T> i, vec<T> g) {
  return f * cell + i * g;
}

template <class T>
struct LstmForward {
  const Lstm& call;
  GatePanels<T, LSTM_GATES> panels;
  Share share;
  States<T> states;
  T* cells;  // (rows, width): the cell of each row, updated in place
  isize ahead;  // the steps whose inputs are mapped at once; zero: each step maps its own
  T* mapped;    // (ahead, B, 4 width): the mapped inputs, the gates of each vector of units side by side

  static isize width(isize N) { return vectors<T>(N) * LANES<T>; }
  // How many steps are mapped ahead. One by one, a few sequences would read all of U in every step.
  static isize steps_ahead(const Lstm& call) {
    const bool few = call.steps.B <= MOST_ROWS / 3;
    return few && call.M > 0 && call.steps.T > 1 ? smaller(call.steps.T, 2 * MOST_ROWS) : 0;
  }

  void run() {
    const isize N = call.N, wide = width(N);
    Vectors mine = share.vectors(vectors<T>(N));
    for (isize r = 0; r < share.last - share.first; ++r)
      for (isize j = mine.from * LANES<T>; j < smaller(N, mine.to * LANES<T>); j += LANES<T>)
        store<T>(cells + r * wide + j, load_some<T>(at<T>(call.c0, share.first + r, 0) + j,
                                                    smaller(LANES<T>, N - j)));
    for (isize s = 0; s < call.steps.T; ++s) {
      const isize now = share.running(call.steps, s);
      if (ahead > 0 && s % ahead == 0) map_inputs(s);
      states.advance(s, now, call.h0, *this);
      share.meet();
      if (share.left) return;
      if (share.leads()) states.finish(s, now);
    }
    mine = share.vectors(vectors<T>(N));
    for (isize r = 0; r < share.last - share.first; ++r)
      for (isize j = mine.from * LANES<T>; j < smaller(N, mine.to * LANES<T>); j += LANES<T>)
        store_some<T>(at<T>(call.last_cell, share.first + r, 0) + j, load<T>(cells + r * wide + j),
                      smaller(LANES<T>, N - j));
  }

  // Where the mapped inputs of a row begin, and how far those of the next step are.
  T* mapped_at(isize s, isize row) const {
    return mapped + ((s % ahead) * call.steps.B + row) * LSTM_GATES * width(call.N);
  }
  Vectors of_gates() const {
    return share.vectors(LSTM_GATES * vectors<T>(call.N), LSTM_GATES);
  }

  // Map the inputs of steps s, s + 1, ...: a block of many steps of a sequence reads U once.
  void map_inputs(isize s) const {
    const isize step = call.steps.B * LSTM_GATES * width(call.N);
    for (isize row = share.first; row < share.last; ++row) {
      const Operand<T> x{at<T>(call.x, call.steps.time(s), row), -call.steps.back(call.x),
                         panels.U[INPUT], call.M};
      through<T, LSTM_GATES>(&x, 1, smaller(ahead, call.steps.T - s), of_gates(),
                             [](const T*, isize, isize, isize, isize, isize) {},
                             {mapped_at(s, row), step, false});
    }
  }

  // Rows [from, to) of step s, with their states before it.
  void operator()(isize s, isize from, isize to, const T* before, isize before_stride) const {
    const isize N = call.N, wide = width(N), t = call.steps.time(s);
    const Kept<T> layout(call);
    const bool has_map = call.M > 0;
    const T* x = at<T>(call.x, t, share.first + from);
    const T* shift = static_cast<const T*>(call.c.data);
    isize stride;
    T* h = states.after(s, stride) + from * stride;
    T* cell = cells + from * wide;
    for (isize r = 0; r < to - from; ++r)
      if (call.steps.begins_anew(s, share.first + from + r))
        std::memset(cell + r * wide, 0, static_cast<std::size_t>(wide) * sizeof(T));
    T* kept = layout.at(t, share.first + from);
    // the inputs first, so that sums are the same bits whenever the inputs were mapped
    const Operand<T> operands[2] = {{x, call.x.second, panels.U[INPUT], call.M},
                                    {before, before_stride, panels.W[INPUT], call.N}};
    const bool maps = has_map && ahead == 0;
    Sums<T> inputs;
    if (ahead > 0) inputs = {mapped_at(s, share.first + from), LSTM_GATES * wide, true};
    through<T, LSTM_GATES>(operands + (maps ? 0 : 1), maps ? 2 : 1, to - from, of_gates(),
                           [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
      for (isize k = 0; k < C; k += LSTM_GATES) {
        const isize v = (first_v + k) / LSTM_GATES, j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        vec<T> more[LSTM_GATES] = {};
        if (has_map && shift != nullptr)
          for (int gate = 0; gate < LSTM_GATES; ++gate)
            more[gate] = load_some<T>(shift + gate * N + j, n);
        for (isize r = r0; r < r0 + R; ++r) {
          vec<T> sums[LSTM_GATES];
          for (int gate = 0; gate < LSTM_GATES; ++gate) {
            if (!has_map) more[gate] = load_some<T>(x + r * call.x.second + gate * N + j, n);
            sums[gate] = load<T>(z + (r - r0) * row + (k + gate) * LANES<T>) + more[gate];
          }
          const vec<T> i = logistic<T>(sums[INPUT]), f = logistic<T>(sums[FORGET]);
          const vec<T> g = tanh<T>(sums[CELL]), o = logistic<T>(sums[OUTPUT]);
          const vec<T> old = load<T>(cell + r * wide + j), next = next_cell<T>(f, old, i, g);
          store<T>(cell + r * wide + j, next);
          store_some<T>(h + r * stride + j, o * tanh<T>(next), n);
          if (kept != nullptr) {
            T* saved = kept + r * layout.row() + v * layout.apart();
            store<T>(saved + layout.of(INPUT), i);
            store<T>(saved + layout.of(FORGET), f);
            store<T>(saved + layout.of(CELL), g);
            store<T>(saved + layout.of(OUTPUT), o);
            store<T>(saved + layout.of(Lstm::OLD_CELL), old);
          }
        }
      }
    }, inputs);
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
