// Calls whose steps are stored in 16 bits, as bfloat16. Each thread takes its rows through a few steps at a time. The
// tensors of these steps are widened before and narrowed after, while they are cached; all arithmetic is in float32.
// The states that go on to the next steps, and their gradients, are never rounded.
#pragma once
#include <type_traits>

#include "bfloat16.hpp"
#include "ring.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// use(tensor, numbers in a row, whether the pass computes it) for each tensor of all steps; those of a call are
// computed by its forward pass, but for the operands.
template <class Use>
void each_of_steps(Elman& call, Use&& use) {
  use(call.x, call.M > 0 ? call.M : call.N, false);
  if (call.norm_zoneout.leak_changes) use(call.norm_zoneout.leak, call.N, false);
  use(call.h, call.N, true);
  use(call.moduli, call.N / 2, true);
  use(call.saved, Kept<float>::size(call), true);
}
template <class Use>
void each_of_steps(const Elman& call, Elman& grad, Use&& use) {
  use(grad.h, call.N, false);
  use(grad.x, call.M > 0 ? call.M : call.N, true);
  if (call.norm_zoneout.leak_changes) use(grad.norm_zoneout.leak, call.N, true);
}
template <class Use>
void each_of_steps(Gru& call, Use&& use) {
  use(call.x, call.M > 0 ? call.M : 3 * call.N, false);
  use(call.h, call.N, true);
  use(call.saved, Kept<float>::size(call), true);
}
template <class Use>
void each_of_steps(const Gru& call, Gru& grad, Use&& use) {
  use(grad.h, call.N, false);
  use(grad.x, call.M > 0 ? call.M : 3 * call.N, true);
}
template <class Use>
void each_of_steps(Lstm& call, Use&& use) {
  use(call.x, call.M > 0 ? call.M : LSTM_GATES * call.N, false);
  use(call.h, call.N, true);
  use(call.saved, Kept<float>::size(call), true);
}
template <class Use>
void each_of_steps(const Lstm& call, Lstm& grad, Use&& use) {
  use(grad.h, call.N, false);
  use(grad.x, call.M > 0 ? call.M : LSTM_GATES * call.N, true);
}

// use(bytes) for each tensor of all steps that holds bytes.
template <class Call, class Use>
void each_of_bytes(Call& call, Use&& use) {
  use(call.steps.resets);
  if constexpr (!std::is_same_v<Call, Lstm>) use(call.norm_zoneout.mask);
}

// use(before, after) for each state that goes on from step to step, or for its gradients.
template <class Call, class Use>
void each_state(Call& call, Use&& use) {
  use(call.h0, call.last);
  if constexpr (std::is_same_v<Call, Lstm>) use(call.c0, call.last_cell);
}
// A few steps of one thread's rows.
class Window {
 public:
  Window(const Steps& all, const Share& share) : all_(all), share_(share), rows_(share.last - share.first) {}

  // As many as the ring of deltas holds, so that a backward pass adds to the gradients of weights as rarely.
  isize most_steps() const { return Ring<float>::rows_for(rows_) / larger(1, rows_); }

  // Move to steps s .. s + count - 1 of the recurrence, of which the call then consists.
  template <class Call>
  void move(isize s, isize count, Call& call) {
    time_ = all_.reverse ? all_.T - s - count : s;
    count_ = count;
    used_ = 0;
    call.steps.T = count;
    if (call.steps.sizes != nullptr) call.steps.sizes += time_;
    each_of_bytes(call, [&](View& view) {
      if (view.data != nullptr) view.data = at<char>(view, time_, 0);
    });
  }

  // Let the view show these steps, in float32.
  void show(View& view, isize size, bool is_computed) {
    if (view.data == nullptr) return;
    if (!view.is_16_bit) {
      view.data = at<float>(view, time_, 0);
      return;
    }
    Shown& shown = shown_[used_++];
    float* rows = shown.memory.at_least(count_ * rows_ * size);
    shown.stored = view, shown.size = size, shown.is_computed = is_computed;
    if (!is_computed) each_step(shown, [](std::uint16_t* stored, isize n, float* wide) { widen(stored, n, wide); });
    view = of_share(rows, size);
    view.first = rows_ * size, view.second = size;
  }

  // Store what was computed.
  void store_all() {
    for (int i = 0; i < used_; ++i)
      if (shown_[i].is_computed)
        each_step(shown_[i], [](std::uint16_t* stored, isize n, float* wide) { narrow(wide, n, stored); });
  }

  // The view (B, size) of this memory, which has the thread's rows only.
  View of_share(float* rows, isize size) const {
    const auto place = reinterpret_cast<std::intptr_t>(rows) -
                       share_.first * size * static_cast<isize>(sizeof(float));
    return {reinterpret_cast<void*>(place), size, 1};
  }

 private:
  struct Shown {
    View stored;
    Buffer<float> memory;
    isize size = 0;
    bool is_computed = false;
  };

  template <class Convert>
  void each_step(Shown& shown, Convert&& convert) const {
    float* wide = shown.memory.at_least(0);
    for (isize t = time_; t < time_ + count_; ++t) {
      const bool together = shown.stored.second == shown.size;
      const isize rows = together ? 1 : rows_, n = together ? rows_ * shown.size : shown.size;
      for (isize r = 0; r < rows; ++r, wide += n)
        convert(at<std::uint16_t>(shown.stored, t, share_.first + r), n, wide);
    }
  }

  const Steps& all_;
  const Share& share_;
  isize rows_, time_ = 0, count_ = 0;
  Shown shown_[6];
  int used_ = 0;
};

// Call run(part) for the steps of one thread's rows, a window at a time.
template <class Call, class Run>
void forward_in_windows(const Call& call, const Share& share, Run&& run) {
  const std::size_t bytes = static_cast<std::size_t>(call.N) * sizeof(float);
  Call all = call;
  each_state(all, [&](View& before, const View& after) {
    for (isize b = share.first; b < share.last; ++b)
      std::memcpy(at<float>(after, b, 0), at<float>(before, b, 0), bytes);
    before = after;  // a window begins where the one before it ended
  });
  Window window(call.steps, share);
  const isize most = window.most_steps();
  for (isize s = 0; s < call.steps.T; s += most) {
    Call part = all;
    window.move(s, smaller(most, call.steps.T - s), part);
    each_of_steps(part, [&](View& view, isize size, bool is_computed) {
      window.show(view, size, is_computed);
    });
    run(part);
    window.store_all();
  }
}

// Call run(part, gradients) for the steps of one thread's rows, a window at a time, the last one first.
template <class Call, class Run>
void backward_in_windows(const Call& call, const Call& grad, const Share& share, Run&& run) {
  const isize N = call.N, rows = share.last - share.first;
  const std::size_t bytes = static_cast<std::size_t>(N) * sizeof(float);
  Window window(call.steps, share);
  const isize most = window.most_steps();
  const Scratch<float> states(rows * N), gradients(2 * rows * N);
  float* next = gradients.get();
  Call all = grad;
  each_state(all, [&](View& before, View& after) {
    const View passed = window.of_share(next, N);
    for (isize b = share.first; b < share.last; ++b, next += N) {
      if (after.data == nullptr) std::memset(next, 0, bytes);
      else std::memcpy(next, at<float>(after, b, 0), bytes);
    }
    before = after = passed;  // a window ends where the one after it began
  });
  for (isize s = (call.steps.T - 1) / most * most; s >= 0; s -= most) {
    Call part = call;
    Call part_grad = all;
    const isize old = share.running(call.steps, s - 1);
    part.h0 = window.of_share(states.get(), N);
    for (isize r = 0; r < rows; ++r) {
      float* to = states.get() + r * N;
      if (r >= old) std::memcpy(to, at<float>(call.h0, share.first + r, 0), bytes);
      else widen(at<std::uint16_t>(call.h, call.steps.time(s - 1), share.first + r), N, to);
    }
    window.move(s, smaller(most, call.steps.T - s), part);
    each_of_steps(part, [&](View& view, isize size, bool) { window.show(view, size, false); });
    each_of_steps(call, part_grad, [&](View& view, isize size, bool is_computed) {
      window.show(view, size, is_computed);
    });
    run(part, part_grad);
    window.store_all();
  }
  next = gradients.get();
  Call wanted = grad;
  each_state(wanted, [&](const View& before, const View&) {
    for (isize b = share.first; b < share.last; ++b, next += N)
      if (before.data != nullptr) std::memcpy(at<float>(before, b, 0), next, bytes);
  });
}

// Call run(call), in windows if the steps are stored in 16 bits.
template <class T, class Call, class Run>
void run_forward(const Call& call, const Share& share, Run&& run) {
  if constexpr (std::is_same_v<T, float>)
    if (call.x.is_16_bit) return forward_in_windows(call, share, run);
  run(call);
}
template <class T, class Call, class Run>
void run_backward(const Call& call, const Call& grad, const Share& share, Run&& run) {
  if constexpr (std::is_same_v<T, float>)
    if (call.x.is_16_bit) return backward_in_windows(call, grad, share, run);
  run(call, grad);
}

}  // namespace eigenrnn::EIGENRNN_ISA
