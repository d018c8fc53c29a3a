// Evaluates one function over an array, for the tests that measure its error.
#pragma once
#include "activations.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
void evaluate(Function function, const T* from, T* to, std::ptrdiff_t count) {
  for (isize i = 0; i < count; i += LANES<T>) {
    const isize n = smaller(LANES<T>, count - i);
    const vec<T> x = load_some<T>(from + i, n);
    vec<T> y = x;
    switch (function) {
      case Function::tanh: y = tanh<T>(x); break;
      case Function::logistic: y = logistic<T>(x); break;
      case Function::elu: y = Elu::apply<T>(x, x, T(0)); break;
      case Function::softplus: y = softplus<T>(x); break;
    }
    store_some<T>(to + i, y, n);
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA
