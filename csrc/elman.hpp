// Whole calls of the Elman recurrence: pack matrices, distribute rows, sum the threads' gradients.
#pragma once
#include <optional>

#include "elman_backward.hpp"
#include "windows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The recurrent matrix, the input map and the output map, packed side by side.
template <class T>
struct ElmanPack {
  Scratch<T> memory;
  ElmanPanels<T> panels;

  ElmanPack(const Elman& call, bool back)
      : memory(size(call.N, call.N, back, products_of<T>(call)) + size(call.N, call.M, back, products_of<T>(call)) +
               size(call.K, call.N, back, products_of<T>(call))) {
    T* to = memory.get();
    panels.W = add(to, call.W, call.N, call.N, back, products_of<T>(call));
    panels.U = add(to, call.U, call.N, call.M, back, products_of<T>(call));
    panels.V = add(to, call.V, call.K, call.N, back, products_of<T>(call));
  }

 private:
  // The forward pass multiplies rows by the transposed matrix, the backward pass by the matrix.
  static isize size(isize rows, isize cols, bool back, Products products) {
    return back ? packed_size<T>(rows, cols, products) : packed_size<T>(cols, rows, products);
  }
  static Panels<T> add(T*& to, const View& view, isize rows, isize cols, bool back, Products products) {
    const T* from = static_cast<const T*>(view.data);
    T* packed = to;
    to += size(rows, cols, back, products);
    if (back) return pack_for<T>(products, packed, rows, cols, from, view.first, view.second);
    return pack_for<T>(products, packed, cols, rows, from, view.second, view.first);
  }
};

// The call is a copy of the caller's: a single step notices a second one, of some 600 bytes.
template <class T>
void elman_forward(Elman call, const ElmanPanels<T>& panels, int threads) {
  const bool kept = call.h.data != nullptr;
  const isize states = 2 * call.steps.B * call.N;
  const Scratch<T> memory(kept ? 0 : states);
  // a single step notices an allocation that it does not need
  std::optional<Scratch<T>> arguments, anew;
  if (call.mixes_arguments()) arguments.emplace(states);
  if (call.steps.resets.data != nullptr) anew.emplace(call.steps.B * call.N);
  const View none;
  Buffer<T> one_step;
  save_one_step(call, one_step);
  // LayerNorm needs all units of a row, so threads do not share them; nor do they share windows
  const bool alone = call.norm_zoneout.has_norm() || call.x.is_16_bit;
  const isize multiply_adds = alone ? 0 : call.N * (call.N + call.M);
  for_shares(call.steps, multiply_adds, threads, [&](const Share& share) {
    const bool mixed = call.mixes_arguments();
    T* own_arguments = mixed ? arguments->get() + 2 * share.first * call.N : nullptr;
    T* own_anew = anew.has_value() ? anew->get() + share.first * call.N : nullptr;
    const TilesInUse tiles(products_of<T>(call));
    run_forward<T>(call, share, [&](const Elman& part) {
      ElmanForward<T> forward{part, panels, share,
                              {part.steps, part.h, mixed ? none : part.last, part.N, share,
                               memory.get() + 2 * share.first * part.N, own_anew},
                              {part.steps, none, part.last, part.N, share, own_arguments, nullptr},
                              {part, panels.V, share}};
      with_activation(part.activation, forward);
    });
  });
}
template <class T>
void elman_forward(const Elman& call, int threads) {
  elman_forward(call, ElmanPack<T>(call, false).panels, threads);
}

// One thread's part of the backward pass, with its memory.
template <class T>
struct ElmanWorker {
  Share share;
  ElmanScratch<T> scratch;
  Scratch<T> memory;
  Scratch<Factor<T>> factors;
  ReadoutBack<T> readout;

  ElmanWorker(const Elman& call, const Elman& grad, int member, int team)
      : share(Share::of(call.steps, member, team)),
        scratch(call, share.last - share.first),
        memory(scratch.size()),
        factors(3 * scratch.rows),
        readout(call, grad, share, scratch.rows) {}

  T* deltas() const { return memory.get(); }
  T* sums() const { return deltas() + scratch.deltas_size(); }
  T* bias_sums() const { return sums() + scratch.sums_size(); }
  T* shift_sums() const { return bias_sums() + scratch.width(); }
  T* norm_sums() const { return shift_sums() + scratch.width(); }
  T* leak_sums() const { return norm_sums() + scratch.norm_sums_size(); }
  T* carry() const { return leak_sums() + scratch.leak_sums_size(); }

  void run(const Elman& call, const Elman& grad, const ElmanPanels<T>& panels) {
    readout.begin();
    std::memset(sums(), 0,
                static_cast<std::size_t>(carry() - sums()) * sizeof(T));
    const TilesInUse tiles(products_of<T>(call));
    run_backward<T>(call, grad, share, [&](const Elman& part, const Elman& part_grad) {
      with_activation(part.activation,
                      ElmanBackward<T>{part, part_grad, panels, share, scratch, readout,
                                       {scratch.rows, scratch.width(), deltas()},
                                       sums(), bias_sums(), shift_sums(), norm_sums(), leak_sums(),
                                       part.norm_zoneout.has_zoneout() ? carry() : nullptr, factors.get(),
                                       factors.get() + 2 * scratch.rows});
    });
  }

  void gather_into(const Elman& call, const Elman& grad, bool first) const {
    const isize width = scratch.width();
    gather_transposed<T>(grad.W, call.N, call.N, sums(), width, first);
    gather_transposed<T>(grad.U, call.M, call.N, sums() + call.N * width, width, first);
    gather<T>(grad.bias, 1, call.N, bias_sums(), width, first);
    gather<T>(grad.c, 1, call.N, shift_sums(), width, first);
    gather<T>(grad.norm_zoneout.gain, 1, call.N, norm_sums(), width, first);
    gather<T>(grad.norm_zoneout.shift, 1, call.N, norm_sums() + width, width, first);
    if (!call.norm_zoneout.leak_changes) gather<T>(grad.norm_zoneout.leak, 1, call.N, leak_sums(), width, first);
    readout.gather_into(first);
  }
};

template <class T>
void elman_backward(const Elman& call, const Elman& grad, int threads) {
  run_workers<ElmanWorker<T>>(call, grad, ElmanPack<T>(call, true).panels, threads);
}

}  // namespace eigenrnn::EIGENRNN_ISA
