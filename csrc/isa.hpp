// The available instruction sets, and the best one for this machine.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace eigenrnn {

// The names of the instruction sets that this machine can run, the best first.
std::vector<std::string> possible_isas();

// The named instruction set, by default the best one.
Isa choose_isa(const char* name);

}  // namespace eigenrnn
