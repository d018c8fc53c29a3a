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

  // Some rows of a step; those of v if arguments of f mix.
  struct Rows {
    isize count;
    Row<const T> before;
    Row<T> h, moduli, kept;
    Zoneout<T> zoneout;
    Row<T> v_before, v;
  };

  // `plain`: without LayerNorm and zoneout, whose tests would cost a small network a tenth of its time.
  template <class F, bool plain>
  void advance(isize s, isize from, isize to, const T* before, isize before_stride) const {
    const isize N = call.N, t = call.steps.time(s), first = share.first + from;
    const Kept<T> layout(call);
    const bool normed = !plain && call.norm_zoneout.has_norm();
    Rows rows{to - from, {before, before_stride}, {}, Row<T>::of(call.moduli, t, first),
              Row<T>::of(call.saved, t, first), {call.norm_zoneout, t, first}, {}, {}};
    rows.h.data = states.after(s, rows.h.stride) + from * rows.h.stride;
    if (!plain && call.mixes_arguments()) {
      rows.v.data = arguments.after(s, rows.v.stride) + from * call.N;
      if (from >= share.running(call.steps, s - 1)) rows.v_before = {at<T>(call.v0, first, 0), call.v0.first};
      else rows.v_before.data = arguments.after(s - 1, rows.v_before.stride) + from * call.N;
    }
    const Row<T> x = Row<T>::of(call.x, t, first);
    const T* bias = static_cast<const T*>(call.bias.data);
    const T* c = static_cast<const T*>(call.c.data);
    const Operand<T> operands[2] = {{before, before_stride, panels.W, N},
                                    {x.data, x.stride, panels.U, call.M}};
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
                         mapped ? shift : load_some<T>(x.at(r0 + r, j), n);
                     if (normed)
                       store<T>(rows.kept.at(r0 + r, j * layout.parts + layout.of(Elman::NORMED)), sum + more);
                     else
                       write_states<F, plain>(rows, layout, r0 + r, j, n, sum + more, b);
                   }
                 }
               });
    if (!normed) return;
    const LayerNorm<T> norm(call.norm_zoneout, N);
    for (isize r = 0; r < rows.count; ++r) {
      T* z = rows.kept.at(r, layout.of(Elman::NORMED));
      *rows.kept.at(r, layout.scales()) = norm.normalise(z, layout.apart());
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
      if (rows.moduli) F::template store_moduli<T>(rows.moduli.at(r, j / 2), F::template modulus<T>(z), n);
    T* saved = nullptr;
    vec<T> m{}, renewed{};
    if (!plain && rows.zoneout.active) {
      m = rows.zoneout.kept(r, j, n);
      renewed = rows.zoneout.renewed(m, r, j, n);
      if (rows.kept && call.norm_zoneout.mixes())
        saved = rows.kept.at(r, j * layout.parts + layout.of(call.value()));
    }
    if (!plain && call.mixes_arguments()) {
      const vec<T> before = load_some<T>(rows.v_before.at(r, j), n);
      if (saved != nullptr) store<T>(saved, z - before);
      z = Zoneout<T>::mix(m, renewed, before, z);
      store_some<T>(rows.v.at(r, j), z, n);
    }
    vec<T> h = F::template apply<T>(z, b, static_cast<T>(call.slope));
    if (!plain && rows.zoneout.active && !call.mixes_arguments()) {
      if (saved != nullptr) store<T>(saved, h);
      h = Zoneout<T>::mix(m, renewed, load_some<T>(rows.before.at(r, j), n), h);
    }
    store_some<T>(rows.h.at(r, j), h, n);
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
