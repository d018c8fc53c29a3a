// The Elman recurrence, whole calls: pack, share the rows out, gather what the threads found.
#pragma once
#include <deque>

#include "elman_backward.hpp"
#include "scratch.hpp"
#include "team.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// A square matrix and a mapping of the inputs, packed side by side in one piece of memory.
template <class T>
struct ElmanPack {
  Scratch<T> memory;
  ElmanPanels<T> panels;

  ElmanPack(const Elman& call, bool back)
      : memory(Packed<T>::size(call.N, call.N) +
               (back ? Packed<T>::size(call.N, call.M) : Packed<T>::size(call.M, call.N))),
        panels{memory.get(), memory.get() + Packed<T>::size(call.N, call.N)} {
    const T* W = static_cast<const T*>(call.W.data);
    const T* U = static_cast<const T*>(call.U.data);
    const auto [first, second] = strides(call.W, back);
    pack(memory.get(), call.N, call.N, W, first, second);
    if (call.M == 0) return;
    const auto [up, down] = strides(call.U, back);
    T* inputs = memory.get() + Packed<T>::size(call.N, call.N);
    pack(inputs, back ? call.N : call.M, back ? call.M : call.N, U, up, down);
  }

 private:
  struct Pair {
    isize first, second;
  };
  // Forward the rows of a product meet the transposed matrix, on the way back the matrix.
  static Pair strides(const View& view, bool back) {
    return back ? Pair{view.first, view.second} : Pair{view.second, view.first};
  }
};

template <class T>
void elman_forward(const Elman& call, int threads) {
  const ElmanPack<T> packed(call, false);
  const int team = members(call.steps, threads);
  const bool kept = call.h.data != nullptr;
  const isize states = 2 * call.steps.B * call.N;
  const Scratch<T> memory(kept ? 0 : states);
  struct Context {
    const Elman& call;
    const ElmanPanels<T>& panels;
    int team;
    T* states;
  } context{call, packed.panels, team, memory.get()};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        const Share share = Share::of(c.call.steps, member, c.team);
        const ElmanForward<T> forward{c.call, c.panels, share,
                                      {c.call.steps, c.call.h, c.call.last, c.call.N, share,
                                       c.states + 2 * share.first * c.call.N}};
        with_activation(c.call.activation, forward);
      },
      &context);
}

// One thread's part of the way back, with its memory.
template <class T>
struct ElmanWorker {
  Share share;
  ElmanScratch<T> scratch;
  Scratch<T> memory;
  Scratch<Factor<T>> factors;

  ElmanWorker(const Elman& call, int member, int team)
      : share(Share::of(call.steps, member, team)),
        scratch(call.N, call.M, share.last - share.first),
        memory(scratch.size()),
        factors(3 * scratch.rows) {}

  T* deltas() const { return memory.get(); }
  T* sums() const { return deltas() + scratch.deltas_size(); }
  T* bias_sums() const { return sums() + scratch.sums_size(); }
  T* shift_sums() const { return bias_sums() + scratch.width(); }

  void run(const Elman& call, const ElmanBack& back, const ElmanPanels<T>& panels) const {
    std::memset(sums(), 0,
                static_cast<std::size_t>(shift_sums() + scratch.width() - sums()) * sizeof(T));
    with_activation(call.activation,
                    ElmanBackward<T>{call, back, panels, share, scratch, deltas(), sums(),
                                     bias_sums(), shift_sums(), factors.get(),
                                     factors.get() + 2 * scratch.rows});
  }

  void gather_into(const Elman& call, const ElmanBack& back, bool first) const {
    const isize width = scratch.width();
    if (back.dWt.data != nullptr) gather<T>(back.dWt, call.N, call.N, sums(), width, first);
    if (back.dUt.data != nullptr)
      gather<T>(back.dUt, call.M, call.N, sums() + call.N * width, width, first);
    if (back.dbias.data != nullptr) gather<T>(back.dbias, 1, call.N, bias_sums(), width, first);
    if (back.dc.data != nullptr) gather<T>(back.dc, 1, call.N, shift_sums(), width, first);
  }
};

template <class T>
void elman_backward(const Elman& call, const ElmanBack& back, int threads) {
  const ElmanPack<T> packed(call, true);
  const int team = members(call.steps, threads);
  std::deque<ElmanWorker<T>> workers;
  for (int member = 0; member < team; ++member) workers.emplace_back(call, member, team);
  struct Context {
    const Elman& call;
    const ElmanBack& back;
    const ElmanPanels<T>& panels;
    std::deque<ElmanWorker<T>>& workers;
  } context{call, back, packed.panels, workers};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        c.workers[static_cast<std::size_t>(member)].run(c.call, c.back, c.panels);
      },
      &context);
  // in the order of the threads, whichever ended first
  for (const ElmanWorker<T>& worker : workers)
    worker.gather_into(call, back, &worker == &workers.front());
}

}  // namespace eigenrnn::EIGENRNN_ISA
