// The linear recurrence, in both directions.
#include "linear.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
static void add(KernelsOf<T>& all) {
  all.linear = {linear_forward<T>, linear_backward<T>};
}
void add_linear(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
