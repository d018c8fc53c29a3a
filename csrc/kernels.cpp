// Compiled once per instruction set; the macro EIGENRNN_ISA is its name.
#include "kernels.hpp"

#include "elman.hpp"
#include "evaluate.hpp"
#include "gru.hpp"
#include "linear.hpp"
#include "lstm.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

#define EIGENRNN_TEXT_OF(name) #name
#define EIGENRNN_TEXT(name) EIGENRNN_TEXT_OF(name)

extern const Kernels KERNELS;
const Kernels KERNELS = {
    EIGENRNN_TEXT(EIGENRNN_ISA), EIGENRNN_VECTOR_BYTES,
    elman_forward<float>,        elman_forward<double>,
    elman_backward<float>,       elman_backward<double>,
    gru_forward<float>,          gru_forward<double>,
    gru_backward<float>,         gru_backward<double>,
    lstm_forward<float>,         lstm_forward<double>,
    lstm_backward<float>,        lstm_backward<double>,
    make_stepper<ElmanStepper<float>, Elman>,  make_stepper<ElmanStepper<double>, Elman>,
    make_stepper<GruStepper<float>, Gru>,      make_stepper<GruStepper<double>, Gru>,
    make_stepper<LstmStepper<float>, Lstm>,    make_stepper<LstmStepper<double>, Lstm>,
    make_stepper<LinearStepper<float>, Elman>, make_stepper<LinearStepper<double>, Elman>,
    linear_forward<float>,       linear_forward<double>,
    linear_backward<float>,      linear_backward<double>,
    evaluate<float>,             evaluate<double>,
};

}  // namespace eigenrnn::EIGENRNN_ISA
