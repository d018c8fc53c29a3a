// The backward pass of the Elman recurrence.
#include "elman.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
static void add(KernelsOf<T>& all) {
  all.elman.backward = elman_backward<T>;
}
void add_elman_backward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
