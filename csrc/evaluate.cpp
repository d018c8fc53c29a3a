// Single functions over an array.
#include "evaluate.hpp"
#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template void evaluate<float>(Function, const float*, float*, std::ptrdiff_t);
template void evaluate<double>(Function, const double*, double*, std::ptrdiff_t);

}  // namespace eigenrnn::EIGENRNN_ISA
