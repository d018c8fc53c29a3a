// The backward pass of the gated recurrence.
#include "gru.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void gru_backward<float>(const Gru&, const GruBack&, int);
template void gru_backward<double>(const Gru&, const GruBack&, int);

}  // namespace eigenrnn::EIGENRNN_ISA
