#include "stepper.hpp"

namespace eigenrnn {

// Here and not in the header: that is compiled once per instruction set.
Stepper::Stepper(std::ptrdiff_t products_, std::ptrdiff_t columns_)
    : products(products_), columns(columns_) {}
Stepper::~Stepper() = default;

}  // namespace eigenrnn
