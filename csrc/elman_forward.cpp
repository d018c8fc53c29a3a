// The forward pass and the single steps of the Elman recurrence.
#include "elman.hpp"
#include "recurrences.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class ElmanStepper final : public Stepper {
 public:
  explicit ElmanStepper(const Elman& call)
      : Stepper(call.N * (call.N + call.M), call.N),
        call_(call),
        packed_(call, false),
        c_(call_.c, call.N),
        bias_(call_.bias, call.N),
        leak_(call_.norm_zoneout.leak, call.N),
        leaks_(call_.norm_zoneout.leak, call.N),
        gain_(call_.norm_zoneout.gain, call.N),
        shift_(call_.norm_zoneout.shift, call.N) {}
  void run(const Step& step, int threads) const override {
    Elman call = one_step(call_, step);
    Buffer<T> memory;
    leaks_.set(step, call.norm_zoneout, memory);
    elman_forward(call, packed_.panels, threads);
  }
  bool knows_gaps() const override { return leaks_.exist(); }

 private:
  Elman call_;
  ElmanPack<T> packed_;
  Copied<T> c_, bias_, leak_;
  Leaks<T> leaks_;
  Copied<T> gain_, shift_;
};

// The values of f of some rows of arguments, which are contiguous.
template <class T>
struct Rates {
  const Elman& call;
  const T* arguments;
  T* to;
  isize count;

  template <class F>
  void run() const {
    const T* bias = static_cast<const T*>(call.bias.data);
    for (isize row = 0; row < count; ++row)
      for (isize j = 0; j < call.N; j += LANES<T>) {
        const isize n = smaller(LANES<T>, call.N - j), i = row * call.N + j;
        const vec<T> b = bias == nullptr ? vec<T>{} : load_some<T>(bias + j, n);
        const vec<T> v = load_some<T>(arguments + i, n);
        store_some<T>(to + i, F::template apply<T>(v, b, static_cast<T>(call.slope)), n);
      }
  }
};

// A layer whose states are the arguments v of f. It reads f(v), and its outputs are f of the new states.
template <class T>
class CurrentStepper final : public Stepper {
 public:
  explicit CurrentStepper(const Elman& call)
      : Stepper(call.N * (call.N + call.M), call.N, call.N),
        call_(call),
        packed_(call, false),
        c_(call_.c, call.N),
        bias_(call_.bias, call.N),
        leak_(call_.norm_zoneout.leak, call.N),
        leaks_(call_.norm_zoneout.leak, call.N),
        gain_(call_.norm_zoneout.gain, call.N),
        shift_(call_.norm_zoneout.shift, call.N) {}
  void run(const Step& step, int threads) const override {
    const Scratch<T> rates(step.B * call_.N);
    with_real_activation(call_.activation,
                         Rates<T>{call_, static_cast<const T*>(step.h), rates.get(), step.B});
    Elman call = one_step(call_, step);
    call.v0 = call.h0;
    call.h0.data = rates.get();
    call.h.data = step.y;
    call.last = {step.next, call_.N, 1};
    Buffer<T> memory;
    leaks_.set(step, call.norm_zoneout, memory);
    elman_forward(call, packed_.panels, threads);
  }
  bool knows_gaps() const override { return leaks_.exist(); }

 private:
  Elman call_;
  ElmanPack<T> packed_;
  Copied<T> c_, bias_, leak_;
  Leaks<T> leaks_;
  Copied<T> gain_, shift_;
};

template <class T>
Stepper* elman_stepper(const Elman& call) {
  return new ElmanStepper<T>(call);
}
template <class T>
Stepper* current_stepper(const Elman& call) {
  return new CurrentStepper<T>(call);
}

template void elman_forward<float>(const Elman&, int);
template void elman_forward<double>(const Elman&, int);
template Stepper* elman_stepper<float>(const Elman&);
template Stepper* elman_stepper<double>(const Elman&);
template Stepper* current_stepper<float>(const Elman&);
template Stepper* current_stepper<double>(const Elman&);

}  // namespace eigenrnn::EIGENRNN_ISA
