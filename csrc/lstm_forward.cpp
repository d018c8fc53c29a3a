// The forward pass and the single steps of the LSTM.
#include "lstm.hpp"
#include "recurrences.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class LstmStepper final : public Stepper {
 public:
  explicit LstmStepper(const Lstm& call)
      : Stepper(LSTM_GATES * call.N * (call.N + call.M), call.N),
        call_(call),
        packed_(GatePack<T, LSTM_GATES>::forward(call, LSTM_GATES)),
        c_(call_.c, LSTM_GATES * call.N) {}
  void run(const Step& step, int threads) const override {
    Lstm call = one_step(call_, step);
    call.c0 = {step.cell, call.N, 1};
    call.last_cell = {step.next_cell, call.N, 1};
    lstm_forward(call, packed_.panels, threads);
  }

 private:
  Lstm call_;
  GatePack<T, LSTM_GATES> packed_;
  Copied<T> c_;
};

template <class T>
Stepper* lstm_stepper(const Lstm& call) {
  return new LstmStepper<T>(call);
}
template void lstm_forward<float>(const Lstm&, int);
template void lstm_forward<double>(const Lstm&, int);
template Stepper* lstm_stepper<float>(const Lstm&);
template Stepper* lstm_stepper<double>(const Lstm&);

}  // namespace eigenrnn::EIGENRNN_ISA
