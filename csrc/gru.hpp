// Whole calls of the gated recurrence: pack matrices, distribute rows, sum the threads' gradients.
#pragma once
#include <deque>

#include "gru_backward.hpp"
#include "scratch.hpp"
#include "team.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The recurrent and input matrices of the three gates, packed side by side.
template <class T>
struct GruPack {
  Scratch<T> memory;
  GruPanels<T> panels{};

  GruPack(const Gru& call, bool back)
      : memory(3 * (Packed<T>::size(call.N, call.N) +
                    (back ? Packed<T>::size(call.N, call.M) : Packed<T>::size(call.M, call.N)))) {
    T* to = memory.get();
    to = back ? apart(call.W, call.N, call.N, to, panels.W)
              : together(call, call.W, call.N, to, panels.W);
    if (call.M == 0) return;
    back ? apart(call.U, call.N, call.M, to, panels.U)
         : together(call, call.U, call.M, to, panels.U);
  }

 private:
  // The backward pass multiplies rows by each gate's matrix separately.
  static T* apart(const View& view, isize N, isize cols, T* to, const T** panels_) {
    for (int gate = 0; gate < 3; ++gate, to += Packed<T>::size(N, cols)) {
      pack(to, N, cols, at<T>(view, gate * N, 0), view.first, view.second);
      panels_[gate] = to;
    }
    return to;
  }
  // The forward pass multiplies by the transposed matrices of all three gates or of the first two.
  static T* together(const Gru& call, const View& view, isize depth, T* to, const T** panels_) {
    const int first = call.reset_after ? 3 : 2;
    const isize panel = Packed<T>::panel(depth), size = Packed<T>::size(depth, call.N);
    for (int gate = 0; gate < 3; ++gate) {
      T* start = gate < first ? to + gate * panel : to + first * size;
      pack(start, depth, call.N, at<T>(view, gate * call.N, 0), view.second, view.first,
           gate < first ? first : 1);
      panels_[gate] = start;
    }
    return to + 3 * size;
  }
};

template <class T>
void gru_forward(const Gru& call, int threads) {
  const GruPack<T> packed(call, false);
  const int team = members(call.steps, threads);
  const isize B = call.steps.B, width = call.reset_after ? 0 : GruForward<T>::width(call.N);
  const Scratch<T> states(call.h.data == nullptr ? 2 * B * call.N : 0);
  const Scratch<T> between(2 * B * width);
  struct Context {
    const Gru& call;
    const GruPanels<T>& panels;
    int team;
    T* states;
    T* between;
    isize width;
  } context{call, packed.panels, team, states.get(), between.get(), width};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        const Share share = Share::of(c.call.steps, member, c.team);
        const isize mine = share.last - share.first;
        T* between_ = c.between + 2 * share.first * c.width;
        const GruForward<T> forward{c.call,
                                    c.panels,
                                    share,
                                    {c.call.steps, c.call.h, c.call.last, c.call.N, share,
                                     c.states + 2 * share.first * c.call.N},
                                    between_,
                                    between_ + mine * c.width};
        with_real_activation(c.call.activation, forward);
      },
      &context);
}

// One thread's part of the backward pass, with its memory.
template <class T>
struct GruWorker {
  Share share;
  GruScratch<T> scratch;
  Scratch<T> memory;
  Scratch<Factor<T>> factors;

  GruWorker(const Gru& call, int member, int team)
      : share(Share::of(call.steps, member, team)),
        scratch{call.N, call.M, share.last - share.first},
        memory(scratch.size()),
        factors(3 * scratch.rows) {}

  T* deltas() const { return memory.get(); }
  T* carry() const { return deltas() + scratch.deltas_size(); }
  T* sums() const { return carry() + scratch.carry_size(); }
  T* bias_sums() const { return sums() + scratch.sums_size(); }

  void run(const Gru& call, const GruBack& back, const GruPanels<T>& panels) const {
    std::memset(sums(), 0,
                static_cast<std::size_t>(scratch.sums_size() + scratch.bias_size()) * sizeof(T));
    with_real_activation(call.activation,
                         GruBackward<T>{call, back, panels, share, scratch, deltas(), carry(),
                                        sums(), bias_sums(), factors.get(),
                                        factors.get() + 2 * scratch.rows});
  }

  void gather_into(const Gru& call, const GruBack& back, bool first) const {
    const isize N = call.N, width = scratch.width(), row = 3 * width;
    for (int gate = 0; gate < 3; ++gate) {
      // with the reset after the matrix, the candidate's sums are the first ones
      const int place = call.reset_after ? (gate + 1) % 3 : gate;
      add(back.dWt, gate * N, N, N, sums() + place * width, row, first);
      add(back.dUt, gate * N, call.M, N, sums() + N * row + gate * width, row, first);
      add(back.dc, gate * N, 1, N, bias_sums() + (D_RESET + gate) * width, width, first);
    }
    add(back.drecurrent_bias, 0, 1, N, bias_sums() + INNER * width, width, first);
    add(back.dbias, 0, 1, N, bias_sums() + PARTS * width, width, first);
  }

  // Writes to the columns from `from` on.
  static void add(View to, isize from, isize rows, isize cols, const T* sums, isize width,
                  bool first) {
    if (to.data == nullptr) return;
    to.data = static_cast<T*>(to.data) + from;
    gather<T>(to, rows, cols, sums, width, first);
  }
};

template <class T>
void gru_backward(const Gru& call, const GruBack& back, int threads) {
  const GruPack<T> packed(call, true);
  const int team = members(call.steps, threads);
  std::deque<GruWorker<T>> workers;
  for (int member = 0; member < team; ++member) workers.emplace_back(call, member, team);
  struct Context {
    const Gru& call;
    const GruBack& back;
    const GruPanels<T>& panels;
    std::deque<GruWorker<T>>& workers;
  } context{call, back, packed.panels, workers};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        c.workers[static_cast<std::size_t>(member)].run(c.call, c.back, c.panels);
      },
      &context);
  // in the order of the threads, for reproducible sums
  for (const GruWorker<T>& worker : workers)
    worker.gather_into(call, back, &worker == &workers.front());
}

}  // namespace eigenrnn::EIGENRNN_ISA
