#include "stepper.hpp"

namespace eigenrnn {

// Here and not in the header: that is compiled once per instruction set.
Stepper::Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_)
    : products(products_), columns(columns_), state_size(columns_), outputs_states(true) {}
Stepper::Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_, std::ptrdiff_t state_size_)
    : products(products_), columns(columns_), state_size(state_size_), outputs_states(false) {}
Stepper::~Stepper() = default;

}  // namespace eigenrnn
