// The delta rule, in both directions, and a single step.
#include "delta.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void delta_step<float>(const DeltaStep&, int);
template void delta_step<double>(const DeltaStep&, int);

template <class T>
static void add(KernelsOf<T>& all) {
  all.delta = {delta_forward<T>, delta_backward<T>};
}
void add_delta(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
