// h_t = f(x_t + h_{t-1} W^T), or f(x_t U^T + c + h_{t-1} W^T), over one thread's rows, and its outputs.
#pragma once
#include "activations.hpp"
#include "norm_zoneout.hpp"
#include "readout.hpp"
#include "states.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The matrices packed for `block`, once per call and shared by all threads.
template <class T>
struct ElmanPanels {
  Panels<T> W, U, V;
};

template <class T>
struct ElmanForward {
  const Elman& call;
  ElmanPanels<T> panels;
  Share share;
  States<T> states;
  States<T> arguments;  // v, if arguments of f mix
  Readout<T> readout;

  template <class F>
  void run() {
    const NormZoneout& options = call.norm_zoneout;
    if (options.has_norm() || options.has_zoneout()) run(&ElmanForward::advance<F, false>);
    else run(&ElmanForward::advance<F, true>);
  }

 private:
  // Compute some rows of a step. Nothing else depends on f, so all nonlinearities share one loop.
  using Advance = void (ElmanForward::*)(isize s, isize from, isize to, const T* before,
                                         isize before_stride) const;

  void run(Advance advance_rows) {
    for (isize s = 0; s < call.steps.T; ++s) {
      const isize now = share.running(call.steps, s);
      states.advance(s, now, call.h0, [&](auto... rows) { (this->*advance_rows)(rows...); });
      share.meet();
      if (share.left) return;
      if (!share.leads()) continue;
      isize stride;
      const T* h = states.after(s, stride);
      readout.write(s, now, h, stride);
      states.finish(s, now);
      if (call.mixes_arguments()) arguments.finish(s, now);
      if (call.moduli.data != nullptr)
        clear<T>(call.moduli, call.N / 2, call.steps.time(s), share.first + now, share.last);
    }
  }

  // Some rows of a step.
  struct Rows {
    isize count;
    const T* before;
    isize before_stride;
    T* h;
    isize stride;
    T* moduli;
    T* kept;
    Zoneout<T> zoneout;
    const T* v_before;
    isize v_before_stride;
    T* v;
    isize v_stride;
  };

  // `plain`: without LayerNorm and zoneout, whose tests would cost a small network a tenth of its time.
  template <class F, bool plain>
  void advance(isize s, isize from, isize to, const T* before, isize before_stride) const {
    const isize N = call.N, t = call.steps.time(s), first = share.first + from;
    isize stride;
    T* h = states.after(s, stride) + from * stride;
    const Kept<T> layout(call);
    const bool normed = !plain && call.norm_zoneout.has_norm();
    Rows rows{to - from, before, before_stride, h, stride,
              call.moduli.data == nullptr ? nullptr : at<T>(call.moduli, t, first),
              layout.at(t, first), {call.norm_zoneout, t, first}, nullptr, 0, nullptr, 0};
    if (!plain && call.mixes_arguments()) {
      rows.v = arguments.after(s, rows.v_stride) + from * call.N;
      const bool begins = from >= share.running(call.steps, s - 1);
      rows.v_before = begins ? at<T>(call.v0, first, 0)
                             : arguments.after(s - 1, rows.v_before_stride) + from * call.N;
      if (begins) rows.v_before_stride = call.v0.first;
    }
    const T* x = at<T>(call.x, t, first);
    const T* bias = static_cast<const T*>(call.bias.data);
    const T* c = static_cast<const T*>(call.c.data);
    const Operand<T> operands[2] = {{before, before_stride, panels.W, N},
                                    {x, call.x.second, panels.U, call.M}};
    const bool mapped = call.M > 0;
    through<T>(operands, mapped ? 2 : 1, rows.count, share.vectors(vectors<T>(N)),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
                 for (isize v = 0; v < C; ++v) {
                   const isize j = (first_v + v) * LANES<T>, n = smaller(LANES<T>, N - j);
                   const vec<T> b = bias == nullptr ? vec<T>{} : load_some<T>(bias + j, n);
                   const vec<T> shift = c == nullptr ? vec<T>{} : load_some<T>(c + j, n);
                   for (isize r = 0; r < R; ++r) {
                     const vec<T> sum = load<T>(z + r * row + v * LANES<T>);
                     const vec<T> more =
                         mapped ? shift : load_some<T>(x + (r0 + r) * call.x.second + j, n);
                     if (normed)
                       store<T>(rows.kept + (r0 + r) * layout.row() + (first_v + v) * layout.apart() +
                                    layout.of(Elman::NORMED),
                                sum + more);
                     else
                       write_states<F, plain>(rows, layout, r0 + r, j, n, sum + more, b);
                   }
                 }
               });
    if (!normed) return;
    const LayerNorm<T> norm(call.norm_zoneout, N);
    for (isize r = 0; r < rows.count; ++r) {
      T* kept = rows.kept + r * layout.row();
      T* z = kept + layout.of(Elman::NORMED);
      kept[layout.scales()] = norm.normalise(z, layout.apart());
      for (isize v = 0; v < layout.all; ++v) {
        const isize j = v * LANES<T>, n = smaller(LANES<T>, N - j);
        const vec<T> b = bias == nullptr ? vec<T>{} : load_some<T>(bias + j, n);
        write_states<F, plain>(rows, layout, r, j, n, norm.apply(load<T>(z + v * layout.apart()), j, n), b);
      }
    }
  }

  // The states of n units of row r from unit j on; z is the argument of f.
  template <class F, bool plain>
  EIGENRNN_INLINE void write_states(const Rows& rows, const Kept<T>& layout, isize r, isize j, isize n,
                            vec<T> z, vec<T> b) const {
    if constexpr (NEEDS_MODULI<F>)
      if (rows.moduli != nullptr)
        F::template store_moduli<T>(rows.moduli + r * call.moduli.second + j / 2,
                                    F::template modulus<T>(z), n);
    T* saved = nullptr;
    vec<T> m{}, renewed{};
    if (!plain && rows.zoneout.active) {
      m = rows.zoneout.kept(r, j, n);
      renewed = rows.zoneout.renewed(m, r, j, n);
      if (rows.kept != nullptr && call.norm_zoneout.mixes())
        saved = rows.kept + r * layout.row() + (j / LANES<T>) * layout.apart() + layout.of(call.value());
    }
    if (!plain && call.mixes_arguments()) {
      const vec<T> before = load_some<T>(rows.v_before + r * rows.v_before_stride + j, n);
      if (saved != nullptr) store<T>(saved, z - before);
      z = Zoneout<T>::mix(m, renewed, before, z);
      store_some<T>(rows.v + r * rows.v_stride + j, z, n);
    }
    vec<T> h = F::template apply<T>(z, b, static_cast<T>(call.slope));
    if (!plain && rows.zoneout.active && !call.mixes_arguments()) {
      if (saved != nullptr) store<T>(saved, h);
      h = Zoneout<T>::mix(m, renewed, load_some<T>(rows.before + r * rows.before_stride + j, n), h);
    }
    store_some<T>(rows.h + r * rows.stride + j, h, n);
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
