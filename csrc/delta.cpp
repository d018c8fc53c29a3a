// The delta rule, in both directions, and a single step.
#include "delta.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void delta_forward<float>(const Delta&, int);
template void delta_forward<double>(const Delta&, int);
template void delta_backward<float>(const Delta&, const DeltaBack&, int);
template void delta_backward<double>(const Delta&, const DeltaBack&, int);
template void delta_step<float>(const DeltaStep&, int);
template void delta_step<double>(const DeltaStep&, int);

}  // namespace eigenrnn::EIGENRNN_ISA
