// Whole calls of the LSTM: pack matrices, distribute rows, sum the threads' gradients.
#pragma once
#include "lstm_backward.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
void lstm_forward(const Lstm& call, const GatePanels<T, LSTM_GATES>& panels, int threads) {
  const int team = members(call.steps, threads);
  const isize B = call.steps.B;
  const Scratch<T> states(call.h.data == nullptr ? 2 * B * call.N : 0);
  const Scratch<T> cells(B * LstmForward<T>::width(call.N));
  struct Context {
    const Lstm& call;
    const GatePanels<T, LSTM_GATES>& panels;
    int team;
    T* states;
    T* cells;
  } context{call, panels, team, states.get(), cells.get()};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        const isize N = c.call.N;
        const Share share = Share::of(c.call.steps, member, c.team);
        LstmForward<T>{c.call,
                       c.panels,
                       share,
                       {c.call.steps, c.call.h, c.call.last, N, share,
                        c.states + 2 * share.first * N},
                       c.cells + share.first * LstmForward<T>::width(N)}
            .run();
      },
      &context);
}
template <class T>
void lstm_forward(const Lstm& call, int threads) {
  lstm_forward(call, GatePack<T, LSTM_GATES>::forward(call, LSTM_GATES).panels, threads);
}

// One thread's part of the backward pass, with its memory.
template <class T>
struct LstmWorker {
  Share share;
  GateMemory<T> memory;

  LstmWorker(const Lstm& call, const LstmBack&, int member, int team)
      : share(Share::of(call.steps, member, team)),
        memory({call.N, call.M, share.last - share.first, LSTM_GATES, LSTM_GATES, LSTM_GATES}) {}

  void run(const Lstm& call, const LstmBack& back, const GatePanels<T, LSTM_GATES>& panels) const {
    memory.clear_sums();
    LstmBackward<T>{call,           back,          panels,           share,
                    memory.scratch, memory.ring(), memory.carry(),   memory.sums(),
                    memory.bias_sums(), memory.past(), memory.inputs()}
        .run();
  }

  void gather_into(const Lstm& call, const LstmBack& back, bool first) const {
    const isize N = call.N, width = memory.scratch.width(), row = LSTM_GATES * width;
    for (int gate = 0; gate < LSTM_GATES; ++gate) {
      const T* sums = memory.sums() + gate * width;
      gather<T>(back.dWt, N, N, sums, row, first, gate * N);
      gather<T>(back.dUt, call.M, N, sums + N * row, row, first, gate * N);
      gather<T>(back.dc, 1, N, memory.bias_sums() + gate * width, width, first, gate * N);
    }
  }
};

template <class T>
void lstm_backward(const Lstm& call, const LstmBack& back, int threads) {
  run_workers<LstmWorker<T>>(call, back, GatePack<T, LSTM_GATES>::backward(call).panels, threads);
}

}  // namespace eigenrnn::EIGENRNN_ISA
