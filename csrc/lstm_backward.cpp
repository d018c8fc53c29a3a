// The backward pass of the LSTM.
#include "lstm.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
static void add(KernelsOf<T>& all) {
  all.lstm.backward = lstm_backward<T>;
}
void add_lstm_backward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
