// The backward pass of the LSTM.
#include "lstm.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void lstm_backward<float>(const Lstm&, const LstmBack&, int);
template void lstm_backward<double>(const Lstm&, const LstmBack&, int);

}  // namespace eigenrnn::EIGENRNN_ISA
