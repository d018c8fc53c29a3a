// The table of functions of one instruction set; the macro EIGENRNN_ISA is its name.
#include "kernels.hpp"

#include "recurrences.hpp"
#include "tiles.hpp"

namespace eigenrnn::EIGENRNN_ISA {

#define EIGENRNN_TEXT_OF(name) #name
#define EIGENRNN_TEXT(name) EIGENRNN_TEXT_OF(name)

// By name, because several functions have the same type. constexpr: on a processor without this
// instruction set nothing of this file may run when the module is loaded.
static constexpr Kernels table() {
  Kernels table{};
  table.isa = EIGENRNN_TEXT(EIGENRNN_ISA);
  table.vector_bytes = EIGENRNN_VECTOR_BYTES;
  table.elman_forward_float = elman_forward<float>;
  table.elman_forward_double = elman_forward<double>;
  table.elman_backward_float = elman_backward<float>;
  table.elman_backward_double = elman_backward<double>;
  table.gru_forward_float = gru_forward<float>;
  table.gru_forward_double = gru_forward<double>;
  table.gru_backward_float = gru_backward<float>;
  table.gru_backward_double = gru_backward<double>;
  table.lstm_forward_float = lstm_forward<float>;
  table.lstm_forward_double = lstm_forward<double>;
  table.lstm_backward_float = lstm_backward<float>;
  table.lstm_backward_double = lstm_backward<double>;
  table.elman_stepper_float = elman_stepper<float>;
  table.elman_stepper_double = elman_stepper<double>;
  table.current_stepper_float = current_stepper<float>;
  table.current_stepper_double = current_stepper<double>;
  table.gru_stepper_float = gru_stepper<float>;
  table.gru_stepper_double = gru_stepper<double>;
  table.lstm_stepper_float = lstm_stepper<float>;
  table.lstm_stepper_double = lstm_stepper<double>;
  table.lru_stepper_float = lru_stepper<float>;
  table.lru_stepper_double = lru_stepper<double>;
  table.min_gru_stepper_float = min_gru_stepper<float>;
  table.min_gru_stepper_double = min_gru_stepper<double>;
  table.delta_stepper_float = delta_stepper<float>;
  table.delta_stepper_double = delta_stepper<double>;
  table.feature_stepper_float = feature_stepper<float>;
  table.feature_stepper_double = feature_stepper<double>;
  table.block_stepper_float = block_stepper<float>;
  table.block_stepper_double = block_stepper<double>;
  table.head_stepper_float = head_stepper<float>;
  table.head_stepper_double = head_stepper<double>;
  table.linear_forward_float = linear_forward<float>;
  table.linear_forward_double = linear_forward<double>;
  table.linear_backward_float = linear_backward<float>;
  table.linear_backward_double = linear_backward<double>;
  table.lru_forward_float = lru_forward<float>;
  table.lru_forward_double = lru_forward<double>;
  table.lru_backward_float = lru_backward<float>;
  table.lru_backward_double = lru_backward<double>;
  table.delta_forward_float = delta_forward<float>;
  table.delta_forward_double = delta_forward<double>;
  table.delta_backward_float = delta_backward<float>;
  table.delta_backward_double = delta_backward<double>;
  table.evaluate_float = evaluate<float>;
  table.evaluate_double = evaluate<double>;
  return table;
}

extern const Kernels KERNELS;
constexpr Kernels KERNELS = table();

#ifdef EIGENRNN_HAS_AMX
static constexpr Kernels table_with_tiles() {
  Kernels with_tiles = table();
  with_tiles.isa = "amx";
  with_tiles.use_tiles = use_amx;
  return with_tiles;
}
extern const Kernels KERNELS_WITH_TILES;
constexpr Kernels KERNELS_WITH_TILES = table_with_tiles();
#endif

}  // namespace eigenrnn::EIGENRNN_ISA
