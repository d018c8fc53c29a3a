// The linear recurrence, in both directions.
#include "linear.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void linear_forward<float>(const Linear&, int);
template void linear_forward<double>(const Linear&, int);
template void linear_backward<float>(const Linear&, const LinearBack&, int);
template void linear_backward<double>(const Linear&, const LinearBack&, int);

}  // namespace eigenrnn::EIGENRNN_ISA
