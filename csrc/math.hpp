// exp(x) - 1, tanh, the logistic function and softplus, on vectors.
//
// The first three are fractions of sums such as s p + (s - 1), where exp(x) = s (1 + p) and s = 2^n. Such
// a sum is rounded once, since s is a power of two. csrc/README.md has the measured errors.
#pragma once
#include "vec.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct Exp;
template <>
struct Exp<float> {
  static constexpr float LOG2E = 1.44269504f, HIGH = 0.693359375f, LOW = -2.12194440e-4f;
  static constexpr float MAGIC = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr int SHIFT = 23, BIAS = 127, DEGREE = 8;
  static constexpr float FLAT = 20.0f;     // 1 + exp(-FLAT) is 1
  static constexpr float GREAT = 104.0f;   // exp(-GREAT) is 0, not even subnormal
  static constexpr float LEAST = -87.0f, MOST = 88.0f;  // exp of them, and of all between, is a normal number
};
template <>
struct Exp<double> {
  static constexpr double LOG2E = 1.4426950408889634, HIGH = 6.93147180369123816490e-01,
                          LOW = 1.90821492927058770002e-10;
  static constexpr double MAGIC = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr int SHIFT = 52, BIAS = 1023, DEGREE = 13;
  static constexpr double FLAT = 44.0, GREAT = 746.0;
  static constexpr double LEAST = -708.0, MOST = 709.0;
};

// In place of the logarithm of zero: any power but that to zero vanishes, and that is one.
constexpr double LOG_OF_ZERO = -1e20;

// exp(x) = 2^lift scale (1 + p).
template <class T>
struct Power {
  vec<T> scale, p;
};

// For x such that 2^-lift exp(x) is a normal number. With x = n log 2 + r and |r| <= log(2)/2, the
// Taylor polynomial of exp(r) - 1 of degree 8 (double: 13) is exact to rounding.
template <class T, int lift>
EIGENRNN_INLINE Power<T> power(vec<T> x) {
  using E = Exp<T>;
  const vec<T> shifted = x * E::LOG2E + E::MAGIC;
  const vec<T> n = shifted - E::MAGIC;
  const vec<T> near = x - n * E::HIGH, r = near - n * E::LOW;
  T factor = 1;
  for (int k = 2; k <= E::DEGREE; ++k) factor *= static_cast<T>(k);
  vec<T> q = splat<T>(T(1) / factor);
#pragma GCC unroll 16
  for (int k = E::DEGREE; k > 2; --k) {
    factor /= static_cast<T>(k);
    q = q * r + T(1) / factor;
  }
  vec<T> bend = (q * r) * r;
  // the rounding error of r: up to half a unit in double precision, and little in single
  if constexpr (sizeof(T) == 8) bend += (near - r) - n * E::LOW;
  // the low bits of `shifted` hold n as an integer
  const integers<T> exponent = as_bits<T>(shifted) + (E::BIAS - lift);
  return {from_bits<T>(exponent << E::SHIFT), bend + r};
}

template <class T>
EIGENRNN_INLINE vec<T> clamp(vec<T> x, T low, T high) {
  // in this order NaN stays NaN
  const vec<T> a = x < low ? splat<T>(low) : x;
  return a > high ? splat<T>(high) : a;
}

// exp(x) - 1 for x <= 0, as ELU needs it.
template <class T>
EIGENRNN_INLINE vec<T> expm1_nonpositive(vec<T> x) {
  const auto [s, p] = power<T, 0>(clamp<T>(x, -Exp<T>::FLAT, T(0)));
  return s * p + (s - T(1));  // no cancellation: for n = 0 it is p itself
}

// (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)). Neither part is computed from the other or overflows.
template <class T>
EIGENRNN_INLINE vec<T> tanh(vec<T> x) {
  const auto [s, p] = power<T, 0>(clamp<T>(magnitude<T>(x) * T(-2), -Exp<T>::FLAT, T(0)));
  return with_sign_of<T>(((T(1) - s) - s * p) / ((T(1) + s) + s * p), x);
}

// 1 / (1 + exp(-x)), both parts scaled by 2^-64: even if exp(-x) overflows, its inverse may be a
// subnormal number. For large s, the rounding error of 1 + s is added back before the sum is
// rounded.
template <class T>
EIGENRNN_INLINE vec<T> logistic(vec<T> x) {
  constexpr T one = T(0x1p-64);
  const auto [s, p] = power<T, 64>(clamp<T>(-x, -Exp<T>::FLAT, Exp<T>::GREAT));
  const vec<T> sum = s + one, lost = one - (sum - s);
  return one / ((s * p + lost) + sum);
}

// log(1 + u) for 0 <= u <= 1, as 2 artanh(q) with q = u / (2 + u) <= 1/3. The next term of the series of
// artanh is below half a unit in the last place.
template <class T>
EIGENRNN_INLINE vec<T> log1p_of_fraction(vec<T> u) {
  constexpr int TERMS = sizeof(T) == 4 ? 7 : 16;
  const vec<T> q = u / (u + T(2)), square = q * q;
  vec<T> sum = splat<T>(T(1) / T(2 * TERMS + 1));
#pragma GCC unroll 16
  for (int k = TERMS - 1; k >= 1; --k) sum = sum * square + T(1) / T(2 * k + 1);
  return T(2) * q + (T(2) * q) * (square * sum);
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
template <class T>
EIGENRNN_INLINE vec<T> softplus(vec<T> x) {
  // scaled by 2^64, as exp(-|x|) may be a subnormal number
  const auto [s, p] = power<T, -64>(clamp<T>(-magnitude<T>(x), -Exp<T>::GREAT, T(0)));
  return (x > T(0) ? x : vec<T>{}) + log1p_of_fraction<T>((s * p + s) * T(0x1p-64));
}

}  // namespace eigenrnn::EIGENRNN_ISA
