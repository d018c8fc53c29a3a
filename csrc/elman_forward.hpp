// h_t = f(x_t + h_{t-1} W^T), or f(x_t U^T + c + h_{t-1} W^T), over one thread's rows, and its outputs.
#pragma once
#include "activations.hpp"
#include "readout.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The matrices packed for `block`, once per call and shared by all threads.
template <class T>
struct ElmanPanels {
  const T* W;
  const T* U;
  const T* V;
};

template <class T>
struct ElmanForward {
  const Elman& call;
  ElmanPanels<T> panels;
  Share share;
  States<T> states;
  Readout<T> readout;

  template <class F>
  void run() {
    for (isize s = 0; s < call.steps.T; ++s) {
      const isize now = share.running(call.steps, s);
      states.advance(s, now, call.h0, [&](auto... rows) { advance<F>(rows...); });
      share.meet();
      if (share.left) return;
      if (!share.leads()) continue;
      isize stride;
      const T* h = states.after(s, stride);
      readout.write(s, now, h, stride);
      states.finish(s, now);
      if (call.moduli.data != nullptr)
        clear<T>(call.moduli, call.N / 2, call.steps.time(s), share.first + now, share.last);
    }
  }

  template <class F>
  void advance(isize s, isize from, isize to, const T* before, isize before_stride) const {
    const isize N = call.N, t = call.steps.time(s);
    isize stride;
    T* h = states.after(s, stride) + from * stride;
    T* moduli = call.moduli.data == nullptr ? nullptr : at<T>(call.moduli, t, share.first + from);
    const T* x = at<T>(call.x, t, share.first + from);
    const T* bias = static_cast<const T*>(call.bias.data);
    const T* c = static_cast<const T*>(call.c.data);
    const T slope = static_cast<T>(call.slope);
    const Operand<T> operands[2] = {{before, before_stride, panels.W, N},
                                    {x, call.x.second, panels.U, call.M}};
    const bool mapped = call.M > 0;
    through<T>(operands, mapped ? 2 : 1, to - from, share.vectors(vectors<T>(N)),
               [&](const T* z, isize row, isize r0, isize R, isize v0, isize C) {
                 for (isize v = 0; v < C; ++v) {
                   const isize j = (v0 + v) * LANES<T>, n = smaller(LANES<T>, N - j);
                   const vec<T> b = bias == nullptr ? vec<T>{} : load_some<T>(bias + j, n);
                   const vec<T> shift = c == nullptr ? vec<T>{} : load_some<T>(c + j, n);
                   for (isize r = 0; r < R; ++r) {
                     const vec<T> sum = load<T>(z + r * row + v * LANES<T>);
                     const vec<T> more =
                         mapped ? shift : load_some<T>(x + (r0 + r) * call.x.second + j, n);
                     if constexpr (NEEDS_MODULI<F>)
                       if (moduli != nullptr)
                         F::template store_moduli<T>(moduli + (r0 + r) * call.moduli.second + j / 2,
                                                     F::template modulus<T>(sum + more), n);
                     store_some<T>(h + (r0 + r) * stride + j,
                                  F::template apply<T>(sum + more, b, slope), n);
                   }
                 }
               });
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
