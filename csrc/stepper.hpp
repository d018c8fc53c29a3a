// Recurrences whose matrices stay packed from one call to the next, for one time step at a time.
#pragma once
#include "arguments.hpp"

namespace eigenrnn {

// One time step of B sequences. The rows of states are contiguous.
struct Step {
  std::ptrdiff_t B = 0;
  View x;                // (1, B, M)
  void* h = nullptr;     // (B, N)
  void* cell = nullptr;  // (B, N), of an LSTM
  void* next = nullptr;  // the new states, as h, or (B, K), the outputs of a linear map
  void* next_cell = nullptr;  // (B, N)
  void* y = nullptr;     // (B, columns), the outputs of a layer that are not its states
  const void* dt = nullptr;  // (B,), gaps in time, for those that know them; null: all are one
};

// A recurrence, or a linear map, with its own copy of its weights.
class Stepper {
 public:
  // What a step multiplies, the columns of the outputs, and the numbers of a state.
  const std::ptrdiff_t products, columns, state_size;
  // Whether the outputs are the new states.
  const bool outputs_states;

  Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_);
  // The outputs of such a layer go to `y`.
  Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_, std::ptrdiff_t state_size_);
  virtual ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  virtual void run(const Step& step, int threads) const = 0;
  virtual bool knows_gaps() const { return false; }
};

}  // namespace eigenrnn
