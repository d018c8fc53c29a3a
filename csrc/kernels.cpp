// The table of functions of one instruction set; the macro EIGENRNN_ISA is its name.
#include "kernels.hpp"

#include "recurrences.hpp"

namespace eigenrnn::EIGENRNN_ISA {

#define EIGENRNN_TEXT_OF(name) #name
#define EIGENRNN_TEXT(name) EIGENRNN_TEXT_OF(name)

extern const Kernels KERNELS;
const Kernels KERNELS = {
    EIGENRNN_TEXT(EIGENRNN_ISA), EIGENRNN_VECTOR_BYTES,
    elman_forward<float>, elman_forward<double>,
    elman_backward<float>, elman_backward<double>,
    gru_forward<float>, gru_forward<double>,
    gru_backward<float>, gru_backward<double>,
    lstm_forward<float>, lstm_forward<double>,
    lstm_backward<float>, lstm_backward<double>,
    elman_stepper<float>, elman_stepper<double>,
    gru_stepper<float>, gru_stepper<double>,
    lstm_stepper<float>, lstm_stepper<double>,
    linear_stepper<float>, linear_stepper<double>,
    linear_forward<float>, linear_forward<double>,
    linear_backward<float>, linear_backward<double>,
    evaluate<float>, evaluate<double>,
};

}  // namespace eigenrnn::EIGENRNN_ISA
