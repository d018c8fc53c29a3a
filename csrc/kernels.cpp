// The functions of one instruction set. Each file adds its own. The macro EIGENRNN_ISA names the set.
#include "kernels.hpp"

#include "tiles.hpp"

namespace eigenrnn::EIGENRNN_ISA {

void add_elman_forward(Kernels&), add_elman_backward(Kernels&), add_gru_forward(Kernels&), add_gru_backward(Kernels&),
    add_lstm_forward(Kernels&), add_lstm_backward(Kernels&), add_linear(Kernels&), add_lru(Kernels&),
    add_delta(Kernels&), add_delta_net(Kernels&), add_min_gru(Kernels&), add_residual(Kernels&), add_head(Kernels&),
    add_evaluate(Kernels&);

static Kernels kernels() {
  Kernels all{};
  all.vector_bytes = EIGENRNN_VECTOR_BYTES;
  for (const auto add : {add_elman_forward, add_elman_backward, add_gru_forward, add_gru_backward, add_lstm_forward,
                         add_lstm_backward, add_linear, add_lru, add_delta, add_delta_net, add_min_gru, add_residual,
                         add_head, add_evaluate})
    add(all);
  return all;
}

#define EIGENRNN_TEXT_OF(name) #name
#define EIGENRNN_TEXT(name) EIGENRNN_TEXT_OF(name)

// constexpr: on a processor without this instruction set nothing of this file may run when the module is loaded.
extern const Isa ISA;
constexpr Isa ISA{EIGENRNN_TEXT(EIGENRNN_ISA), kernels, nullptr};
#ifdef EIGENRNN_HAS_AMX
extern const Isa ISA_WITH_TILES;
constexpr Isa ISA_WITH_TILES{"amx", kernels, use_amx};
#endif

}  // namespace eigenrnn::EIGENRNN_ISA
