#include "isa.hpp"

#include <stdexcept>

namespace eigenrnn {

#define EIGENRNN_DECLARE(isa) \
  namespace isa {             \
  extern const Kernels KERNELS; \
  }
#ifdef EIGENRNN_X86
EIGENRNN_DECLARE(avx512)
EIGENRNN_DECLARE(avx2)
#endif
#ifdef EIGENRNN_ARM64
EIGENRNN_DECLARE(neon)
#endif
EIGENRNN_DECLARE(portable)

namespace {

std::vector<const Kernels*> possible() {
  std::vector<const Kernels*> found;
#ifdef EIGENRNN_X86
  __builtin_cpu_init();
  const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (fused && wide) found.push_back(&avx512::KERNELS);
  if (fused) found.push_back(&avx2::KERNELS);
#endif
#ifdef EIGENRNN_ARM64
  found.push_back(&neon::KERNELS);
#endif
  found.push_back(&portable::KERNELS);
  return found;
}

}  // namespace

std::vector<std::string> possible_isas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : possible()) names.emplace_back(kernels->isa);
  return names;
}

const Kernels& choose_kernels(const char* name) {
  if (name == nullptr || *name == '\0') return *possible().front();
  std::string known;
  for (const Kernels* kernels : possible()) {
    if (name == std::string(kernels->isa)) return *kernels;
    known += known.empty() ? kernels->isa : std::string(", ") + kernels->isa;
  }
  throw std::runtime_error("expected EIGENRNN_ISA among " + known + ", got " + name);
}

}  // namespace eigenrnn
