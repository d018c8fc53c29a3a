// Numbers of 16 bits: bfloat16 is the upper half of a float.
#pragma once
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

inline void widen(const std::uint16_t* from, isize count, float* to) {
  for (isize i = 0; i < count; ++i) {
    const std::uint32_t bits = std::uint32_t{from[i]} << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

// The nearest bfloat16. Ties are rounded to even, and NaN stays NaN, as in torch.
inline std::uint32_t nearest_bfloat16(float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return is_nan ? 0x7fc0 : rounded;
}
inline void narrow(const float* from, isize count, std::uint16_t* to) {
  for (isize i = 0; i < count; ++i) to[i] = static_cast<std::uint16_t>(nearest_bfloat16(from[i]));
}

// What the nearest bfloat16 leaves of each number; nothing of infinity and NaN, and of what rounds to infinity.
inline void remainders(const float* from, isize count, float* to) {
  for (isize i = 0; i < count; ++i) {
    const std::uint32_t bits = nearest_bfloat16(from[i]) << 16;
    float rounded;
    std::memcpy(&rounded, &bits, sizeof rounded);
    to[i] = (bits & 0x7f800000) == 0x7f800000 ? 0.0f : from[i] - rounded;
  }
}

}  // namespace eigenrnn::EIGENRNN_ISA
