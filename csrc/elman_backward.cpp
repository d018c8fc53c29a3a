// The backward pass of the Elman recurrence.
#include "elman.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void elman_backward<float>(const Elman&, const ElmanBack&, int);
template void elman_backward<double>(const Elman&, const ElmanBack&, int);

}  // namespace eigenrnn::EIGENRNN_ISA
