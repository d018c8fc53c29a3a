// The forward pass and the single steps of the Elman recurrence.
#include "elman.hpp"
#include "kernels.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The weights of a stepper: copies, and packed matrices.
template <class T>
struct ElmanWeights {
  Elman call;
  ElmanPack<T> packed;
  Copied<T> c, bias;
  Leaks<T> leaks;
  Copied<T> gain, shift;

  explicit ElmanWeights(const Elman& given)
      : call(given),
        packed(given, false),
        c(call.c, given.N),
        bias(call.bias, given.N),
        leaks(call.norm_zoneout.leak, given.N),
        gain(call.norm_zoneout.gain, given.N),
        shift(call.norm_zoneout.shift, given.N) {}

  // Run the call of a step, after its gaps in time.
  void run(Elman of_step, const Step& step, int threads) const {
    Buffer<T> memory;
    leaks.set(step, of_step.norm_zoneout, memory);
    elman_forward(of_step, packed.panels, threads);
  }
};

template <class T>
class ElmanStepper final : public Stepper {
 public:
  explicit ElmanStepper(const Elman& call) : Stepper(call.N * (call.N + call.M), call.N), weights_(call) {}
  void run(const Step& step, int threads) const override {
    weights_.run(one_step(weights_.call, step), step, threads);
  }
  bool knows_gaps() const override { return weights_.leaks.exist; }

 private:
  ElmanWeights<T> weights_;
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
  explicit CurrentStepper(const Elman& call) : Stepper(call.N * (call.N + call.M), call.N, call.N), weights_(call) {}
  void run(const Step& step, int threads) const override {
    const Elman& weights = weights_.call;
    const Scratch<T> rates(step.B * weights.N);
    with_real_activation(weights.activation,
                         Rates<T>{weights, static_cast<const T*>(step.h), rates.get(), step.B});
    Elman call = one_step(weights, step);
    call.v0 = call.h0;
    call.h0.data = rates.get();
    call.h.data = step.y;
    call.last = {step.next, weights.N, 1};
    weights_.run(call, step, threads);
  }
  bool knows_gaps() const override { return weights_.leaks.exist; }

 private:
  ElmanWeights<T> weights_;
};

template <class T>
static void add(KernelsOf<T>& all) {
  all.elman.forward = elman_forward<T>;
  all.elman_stepper = make<ElmanStepper<T>, Elman>;
  all.current_stepper = make<CurrentStepper<T>, Elman>;
}
void add_elman_forward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
