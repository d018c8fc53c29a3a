// Which instruction sets there are, and which one this machine runs best.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace eigenrnn {

// The names that this machine can run, the best first.
std::vector<std::string> possible_isas();

// The kernels of the best one, or of the one that is named.
const Kernels& choose_kernels(const char* name);

}  // namespace eigenrnn
