// What the steppers share: each packs its weights once and calls the forward pass of its recurrence.
#pragma once
#include <cstring>

#include "scratch.hpp"
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
