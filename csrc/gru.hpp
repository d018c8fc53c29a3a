// Whole calls of the gated recurrence: pack matrices, distribute rows, sum the threads' gradients.
#pragma once
#include "gru_reset_after.hpp"
#include "gru_reset_before.hpp"
#include "windows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
GatePack<T, 3> gru_pack(const Gru& call) {
  return GatePack<T, 3>::forward(call, call.reset_after ? 3 : 2);
}

template <class T>
void gru_forward(Gru call, const GatePanels<T, 3>& panels, int threads) {
  Buffer<T> one_step;
  save_one_step(call, one_step);
  const isize B = call.steps.B, width = call.reset_after ? 0 : GruForward<T>::width(call.N);
  // LayerNorm needs all units of a row, so threads do not share them; nor do they share windows
  const bool alone = call.norm_zoneout.has_norm() || call.x.is_16_bit;
  const isize multiply_adds = alone ? 0 : 3 * call.N * (call.N + call.M);
  const Scratch<T> states(call.h.data == nullptr ? 2 * B * call.N : 0);
  const Scratch<T> anew(call.steps.resets.data == nullptr ? 0 : B * call.N);
  const Scratch<T> between(2 * B * width);
  for_shares(call.steps, multiply_adds, threads, [&](const Share& share) {
    T* mine = between.get() + 2 * share.first * width;
    const TilesInUse tiles(products_of<T>(call));
    run_forward<T>(call, share, [&](const Gru& part) {
      GruForward<T> forward{
          part,
          panels,
          share,
          {part.steps, part.h, part.last, part.N, share, states.get() + 2 * share.first * part.N,
           anew.get() + share.first * part.N},
          mine,
          mine + (share.last - share.first) * width};
      with_real_activation(part.activation, forward);
    });
  });
}
template <class T>
void gru_forward(const Gru& call, int threads) {
  gru_forward(call, gru_pack<T>(call).panels, threads);
}

// One thread's part of the backward pass, with its memory.
template <class T>
struct GruWorker {
  Share share;
  GateMemory<T> memory;

  GruWorker(const Gru& call, const Gru&, int member, int team)
      : share(Share::of(call.steps, member, team)),
        memory({call.N, call.M, share.last - share.first, 3, PARTS,
                PARTS + 1 + 2 * call.norms()}) {}

  void run(const Gru& call, const Gru& grad, const GatePanels<T, 3>& panels) const {
    memory.clear_sums();
    const TilesInUse tiles(products_of<T>(call));
    run_backward<T>(call, grad, share, [&](const Gru& part, const Gru& part_grad) {
      with_real_activation(part.activation,
                           GruBackward<T>{part, part_grad, panels, share, memory.scratch, memory.ring(),
                                          memory.carry(), memory.sums(), memory.bias_sums(),
                                          memory.past(), memory.inputs()});
    });
  }

  void gather_into(const Gru& call, const Gru& grad, bool first) const {
    const isize N = call.N, width = memory.scratch.width(), row = 3 * width;
    const T* sums = memory.sums();
    const T* biases = memory.bias_sums();
    for (int gate = 0; gate < 3; ++gate) {
      // with the reset after the matrix, the candidate's sums are the first ones
      const int place = call.reset_after ? (gate + 1) % 3 : gate;
      gather_transposed<T>(grad.W, N, N, sums + place * width, row, first, gate * N);
      gather_transposed<T>(grad.U, call.M, N, sums + N * row + gate * width, row, first, gate * N);
      gather<T>(grad.c, 1, N, biases + (D_RESET + gate) * width, width, first, gate * N);
      const T* norm = biases + norm_sums(gate) * width;
      gather<T>(grad.norm_zoneout.gain, 1, N, norm, width, first, gate * N);
      gather<T>(grad.norm_zoneout.shift, 1, N, norm + width, width, first, gate * N);
    }
    gather<T>(grad.recurrent_bias, 1, N, biases + INNER * width, width, first);
    gather<T>(grad.bias, 1, N, biases + PARTS * width, width, first);
  }
};

template <class T>
void gru_backward(const Gru& call, const Gru& grad, int threads) {
  run_workers<GruWorker<T>>(call, grad, GatePack<T, 3>::backward(call).panels, threads);
}

}  // namespace eigenrnn::EIGENRNN_ISA
