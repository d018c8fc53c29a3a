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
    lstm_forward(call, packed_.panels, call.N, threads);
  }

 private:
  Lstm call_;
  GatePack<T, LSTM_GATES> packed_;
  Copied<T> c_;
};

// An LSTM step from the projected states, and the projection of its result.
template <class T>
class ProjectedLstmStepper final : public Stepper {
 public:
  explicit ProjectedLstmStepper(const ProjectedLstm& layer)
      : Stepper(LSTM_GATES * layer.N * (layer.P + layer.M) + layer.P * layer.N, layer.P),
        call_(unprojected(layer)),
        P_(layer.P),
        packed_(GatePack<T, LSTM_GATES>::forward(call_, LSTM_GATES, layer.P)),
        projection_(layer.R, layer.P, layer.N),
        c_(call_.c, LSTM_GATES * layer.N) {}

  std::ptrdiff_t cell_size() const override { return call_.N; }

  void run(const Step& step, int threads) const override {
    const isize N = call_.N;
    const Scratch<T> memory(step.B * N);
    T* m = memory.get();
    Lstm call = one_step(call_, step);
    call.h0 = {step.h, P_, 1};
    call.h = {m, 0, N};
    call.c0 = {step.cell, N, 1};
    call.last_cell = {step.next_cell, N, 1};
    lstm_forward(call, packed_.panels, P_, threads);
    for_shares(call.steps, P_ * N, threads, [&](const Share& share) {
      const Operand<T> operand = projection_.operand(m + share.first * N, N);
      T* next = static_cast<T*>(step.next) + share.first * P_;
      write_product<T>(&operand, 1, P_, share.last - share.first, nullptr, 0, next, P_);
    });
  }

 private:
  static Lstm unprojected(const ProjectedLstm& layer) {
    Lstm call;
    call.N = layer.N;
    call.M = layer.M;
    call.U = layer.U;
    call.c = layer.c;
    call.W = layer.W;
    return call;
  }

  Lstm call_;
  isize P_;
  GatePack<T, LSTM_GATES> packed_;
  PackedMap<T> projection_;
  Copied<T> c_;
};

template <class T>
Stepper* lstm_stepper(const Lstm& call) {
  return new LstmStepper<T>(call);
}
template <class T>
Stepper* projected_lstm_stepper(const ProjectedLstm& layer) {
  return new ProjectedLstmStepper<T>(layer);
}

template void lstm_forward<float>(const Lstm&, int);
template void lstm_forward<double>(const Lstm&, int);
template Stepper* lstm_stepper<float>(const Lstm&);
template Stepper* lstm_stepper<double>(const Lstm&);
template Stepper* projected_lstm_stepper<float>(const ProjectedLstm&);
template Stepper* projected_lstm_stepper<double>(const ProjectedLstm&);

}  // namespace eigenrnn::EIGENRNN_ISA
