// The forward pass and the single steps of the LSTM.
#include "lstm.hpp"
#include "kernels.hpp"
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
static void add(KernelsOf<T>& all) {
  all.lstm.forward = lstm_forward<T>;
  all.lstm_stepper = make<LstmStepper<T>, Lstm>;
}
void add_lstm_forward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
