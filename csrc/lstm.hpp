// Whole calls of the LSTM: pack matrices, distribute rows, sum the threads' gradients.
#pragma once
#include "lstm_backward.hpp"
#include "windows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
void lstm_forward(const Lstm& call, const GatePanels<T, LSTM_GATES>& panels, int threads) {
  const isize B = call.steps.B, N = call.N;
  const Scratch<T> states(call.h.data == nullptr ? 2 * B * N : 0);
  const Scratch<T> anew(call.steps.resets.data == nullptr ? 0 : B * N);
  const isize width = LstmForward<T>::width(N), ahead = LstmForward<T>::steps_ahead(call);
  const Scratch<T> cells(B * width), mapped(ahead * B * LSTM_GATES * width);
  const isize multiply_adds = call.x.is_16_bit ? 0 : LSTM_GATES * N * (N + call.M);  // threads share no windows
  for_shares(call.steps, multiply_adds, threads, [&](const Share& share) {
    const TilesInUse tiles(products_of<T>(call));
    run_forward<T>(call, share, [&](const Lstm& part) {
      LstmForward<T>{
          part,
          panels,
          share,
          {part.steps, part.h, part.last, N, share, states.get() + 2 * share.first * N,
           anew.get() + share.first * N},
          cells.get() + share.first * width,
          ahead,
          mapped.get()}
          .run();
    });
  });
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

  LstmWorker(const Lstm& call, const Lstm&, int member, int team)
      : share(Share::of(call.steps, member, team)),
        memory({call.N, call.M, share.last - share.first, LSTM_GATES, LSTM_GATES, LSTM_GATES}) {}

  void run(const Lstm& call, const Lstm& grad, const GatePanels<T, LSTM_GATES>& panels) const {
    memory.clear_sums();
    const TilesInUse tiles(products_of<T>(call));
    run_backward<T>(call, grad, share, [&](const Lstm& part, const Lstm& part_grad) {
      LstmBackward<T>{part,           part_grad,     panels,           share,
                      memory.scratch, memory.ring(), memory.carry(),   memory.sums(),
                      memory.bias_sums(), memory.past(), memory.inputs()}
          .run();
    });
  }

  void gather_into(const Lstm& call, const Lstm& grad, bool first) const {
    const isize N = call.N, width = memory.scratch.width(), row = LSTM_GATES * width;
    for (int gate = 0; gate < LSTM_GATES; ++gate) {
      const T* sums = memory.sums() + gate * width;
      gather_transposed<T>(grad.W, N, N, sums, row, first, gate * N);
      gather_transposed<T>(grad.U, call.M, N, sums + N * row, row, first, gate * N);
      gather<T>(grad.c, 1, N, memory.bias_sums() + gate * width, width, first, gate * N);
    }
  }
};

template <class T>
void lstm_backward(const Lstm& call, const Lstm& grad, int threads) {
  run_workers<LstmWorker<T>>(call, grad, GatePack<T, LSTM_GATES>::backward(call).panels, threads);
}

}  // namespace eigenrnn::EIGENRNN_ISA
