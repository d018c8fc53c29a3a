// The steppers of one instruction set: they pack once and call the same forward passes.
#pragma once
#include "elman.hpp"
#include "gru.hpp"
#include "lstm.hpp"
#include "stepper.hpp"

namespace eigenrnn::EIGENRNN_ISA {

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

// The call of one time step: the weights of `call`, and the rows of `step`.
template <class Call>
Call one_step(Call call, const Step& step) {
  call.steps.T = 1;
  call.steps.B = step.B;
  call.x = step.x;
  call.h0 = {step.h, call.N, 1};
  call.last = {step.next, call.N, 1};
  return call;
}

template <class T>
class ElmanStepper final : public Stepper {
 public:
  explicit ElmanStepper(const Elman& call)
      : Stepper(call.N * (call.N + call.M), call.N),
        call_(call),
        packed_(call, false),
        c_(call_.c, call.N),
        bias_(call_.bias, call.N),
        leak_(call_.norm_zoneout.leak, call.N) {}
  void run(const Step& step, int threads) const override {
    elman_forward(one_step(call_, step), packed_.panels, threads);
  }

 private:
  Elman call_;
  ElmanPack<T> packed_;
  Copied<T> c_, bias_, leak_;
};

template <class T>
class GruStepper final : public Stepper {
 public:
  explicit GruStepper(const Gru& call)
      : Stepper(3 * call.N * (call.N + call.M), call.N),
        call_(call),
        packed_(gru_pack<T>(call)),
        c_(call_.c, 3 * call.N),
        bias_(call_.bias, call.N),
        recurrent_bias_(call_.recurrent_bias, call.N) {}
  void run(const Step& step, int threads) const override {
    gru_forward(one_step(call_, step), packed_.panels, threads);
  }

 private:
  Gru call_;
  GatePack<T, 3> packed_;
  Copied<T> c_, bias_, recurrent_bias_;
};

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

// y = x V^T [+ d], with the weights of an Elman recurrence's outputs.
template <class T>
class LinearStepper final : public Stepper {
 public:
  explicit LinearStepper(const Elman& call)
      : Stepper(call.K * call.N, call.K),
        call_(call),
        packed_(Packed<T>::size(call.N, call.K)),
        d_(call_.d, call.K) {
    pack(packed_.get(), call.N, call.K, static_cast<const T*>(call.V.data), call.V.second,
         call.V.first);
  }
  void run(const Step& step, int) const override {
    Elman call = call_;
    call.steps.T = 1;
    call.steps.B = step.B;
    call.y = {step.next, 0, call.K};
    const Readout<T> readout{call, packed_.get(), {0, step.B}};
    readout.write(0, step.B, static_cast<const T*>(step.x.data), step.x.second);
  }

 private:
  Elman call_;
  Scratch<T> packed_;
  Copied<T> d_;
};

template <class Made, class Call>
Stepper* make_stepper(const Call& call) {
  return new Made(call);
}

}  // namespace eigenrnn::EIGENRNN_ISA
