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
        bias_(call_.bias, call.N) {}
  void run(const Step& step, int threads) const override {
    elman_forward(one_step(call_, step), packed_.panels, threads);
  }

 private:
  Elman call_;
  ElmanPack<T> packed_;
  Copied<T> c_, bias_;
};

template <class T>
Stepper* elman_stepper(const Elman& call) {
  return new ElmanStepper<T>(call);
}

template void elman_forward<float>(const Elman&, int);
template void elman_forward<double>(const Elman&, int);
template Stepper* elman_stepper<float>(const Elman&);
template Stepper* elman_stepper<double>(const Elman&);

}  // namespace eigenrnn::EIGENRNN_ISA
