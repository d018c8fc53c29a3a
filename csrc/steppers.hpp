// What the steppers share: each packs its weights once and calls the forward pass of its recurrence.
#pragma once
#include <cmath>
#include <cstring>

#include "math.hpp"
#include "rows.hpp"
#include "scratch.hpp"
#include "stepper.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class Made, class... Given>
Stepper* make(const Given&... given) {
  return new Made(given...);
}

// A copy of a vector, to which the view then points.
template <class T>
class Copied {
 public:
  Copied(View& view, isize count) : memory_(count) {
    if (view.data == nullptr) return;
    std::memcpy(memory_.get(), view.data, static_cast<std::size_t>(count) * sizeof(T));
    view.data = memory_.get();
  }

 private:
  Scratch<T> memory_;
};

// A copy of a vector, zero up to a whole number of vectors of lanes, and all zero without one.
template <class T>
class PaddedVector {
 public:
  PaddedVector(const View& view, isize count) : memory_(vectors<T>(count) * LANES<T>) {
    for (isize i = 0; i < vectors<T>(count) * LANES<T>; ++i) {
      const bool inside = view.data != nullptr && i < count;
      memory_.get()[i] = inside ? static_cast<const T*>(view.data)[i] : T(0);
    }
  }
  const T* get() const { return memory_.get(); }

 private:
  Scratch<T> memory_;
};

// to[i] = use(from[i], i, the lanes of the vector at i).
template <class T, class Use>
EIGENRNN_INLINE void each_vector(const T* from, isize count, T* to, const Use& use) {
  for (isize i = 0; i < count; i += LANES<T>) {
    const isize n = smaller(LANES<T>, count - i);
    store_some<T>(to + i, use(load_some<T>(from + i, n), i, n), n);
  }
}

// A matrix of `rows` rows, packed as the factor that maps inputs to them.
template <class T>
class PackedMap {
 public:
  PackedMap(const View& weight, isize rows, isize inputs)
      : packed_(Packed<T>::size(inputs, rows)), inputs_(inputs) {
    pack(packed_.get(), inputs, rows, static_cast<const T*>(weight.data), weight.second, weight.first);
  }
  Operand<T> operand(const T* x, isize stride) const { return {x, stride, packed_.get(), inputs_}; }

 private:
  Scratch<T> packed_;
  isize inputs_;
};

// A copy of the leak of each unit, to which the view then points. After gaps in time it is 1 - (1 - leak)^dt for each
// sequence and unit.
template <class T>
class Leaks {
 public:
  Leaks(View& leak, isize N) : exist(leak.data != nullptr), N_(N), copied_(leak, N), log_kept_(exist ? N : 0) {
    if (!exist) return;
    for (isize j = 0; j < N; ++j) {
      const T each = static_cast<const T*>(leak.data)[j];
      log_kept_.get()[j] = each >= 1 ? T(LOG_OF_ZERO) : std::log1p(-each);
    }
  }

  const bool exist;

  // Give a call those of a step, in memory that must outlive it.
  void set(const Step& step, NormZoneout& norm_zoneout, Buffer<T>& memory) const {
    if (step.dt == nullptr) return;
    T* to = memory.at_least(step.B * N_);
    for (isize b = 0; b < step.B; ++b) {
      const T dt = static_cast<const T*>(step.dt)[b];
      each_vector<T>(log_kept_.get(), N_, to + b * N_,
                     [&](vec<T> log, isize, isize) { return -expm1_nonpositive<T>(log * dt); });
    }
    norm_zoneout.leak = {to, 0, N_};
    norm_zoneout.leak_changes = true;
  }

 private:
  isize N_;
  Copied<T> copied_;
  Scratch<T> log_kept_;
};

// The call of one time step: its weights, and the rows of `step`.
template <class Call>
Call one_step(const Call& weights, const Step& step) {
  Call call = weights;
  call.steps.T = 1;
  call.steps.B = step.B;
  call.x = step.x;
  call.h0 = {step.h, call.N, 1};
  // The only step writes to its destination as if that were all states, which needs no copy to the last.
  call.h = {step.next, 0, call.N};
  return call;
}

}  // namespace eigenrnn::EIGENRNN_ISA
