// The backward pass of the gated recurrence.
#include "gru.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
static void add(KernelsOf<T>& all) {
  all.gru.backward = gru_backward<T>;
}
void add_gru_backward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
