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
  void* next = nullptr;  // (B, N), the new states, or (B, K), the outputs of a linear map
  void* next_cell = nullptr;  // (B, N)
};

// A recurrence, or a linear map, with its own copy of its weights.
class Stepper {
 public:
  // What a step multiplies, and the columns of `next`.
  const std::ptrdiff_t products, columns;

  Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_);
  virtual ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  virtual void run(const Step& step, int threads) const = 0;
};

}  // namespace eigenrnn
