#include "isa.hpp"

#ifdef EIGENRNN_HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <stdexcept>

namespace eigenrnn {

#define EIGENRNN_DECLARE(isa) \
  namespace isa {             \
  extern const Isa ISA;       \
  }
#ifdef EIGENRNN_HAS_AVX512
EIGENRNN_DECLARE(avx512)
#endif
#ifdef EIGENRNN_HAS_AMX
namespace avx512 {
extern const Isa ISA_WITH_TILES;
}
#endif
#ifdef EIGENRNN_HAS_AVX2
EIGENRNN_DECLARE(avx2)
#endif
#ifdef EIGENRNN_HAS_PORTABLE
EIGENRNN_DECLARE(portable)
#endif
#ifdef EIGENRNN_HAS_NEON
EIGENRNN_DECLARE(neon)
#endif

namespace {

#if defined(EIGENRNN_HAS_AVX2) || defined(EIGENRNN_HAS_AVX512)
bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif
#ifdef EIGENRNN_HAS_AVX512
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif
#ifdef EIGENRNN_HAS_AMX
// Linux gives a process the registers of the tiles when it asks for them.
bool has_amx() {
  constexpr long REQUEST_PERMISSION = 0x1023, DATA_OF_TILES = 18;
  static const bool has = has_avx512() && __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
                          syscall(SYS_arch_prctl, REQUEST_PERMISSION, DATA_OF_TILES) == 0;
  return has;
}
#endif

std::vector<Isa> possible() {
  std::vector<Isa> found;
#ifdef EIGENRNN_HAS_AMX
  if (has_amx()) found.push_back(avx512::ISA_WITH_TILES);
#endif
#ifdef EIGENRNN_HAS_AVX512
  if (has_avx512()) found.push_back(avx512::ISA);
#endif
#ifdef EIGENRNN_HAS_AVX2
  if (has_avx2()) found.push_back(avx2::ISA);
#endif
#ifdef EIGENRNN_HAS_PORTABLE
  found.push_back(portable::ISA);
#endif
#ifdef EIGENRNN_HAS_NEON
  found.push_back(neon::ISA);  // every ARM64 has it
#endif
  if (found.empty())
    throw std::runtime_error(
        "the kernels were compiled for another processor than this one. Install eigenrnn again, "
        "or for all processors with CMAKE_ARGS=-DEIGENRNN_ISAS=all");
  return found;
}

}  // namespace

std::vector<std::string> possible_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : possible()) names.emplace_back(isa.name);
  return names;
}

Isa choose_isa(const char* name) {
  if (name == nullptr || *name == '\0') return possible().front();
  std::string known;
  for (const Isa& isa : possible()) {
    if (name == std::string(isa.name)) return isa;
    known += known.empty() ? isa.name : std::string(", ") + isa.name;
  }
  throw std::runtime_error("expected EIGENRNN_ISA among " + known + ", got " + name);
}

}  // namespace eigenrnn
