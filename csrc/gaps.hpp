// What a gap in time does to a complex unit whose input is held: after dt steps its state has been multiplied by
// decay^dt, and its input by (1 - decay^dt) / (1 - decay).
#pragma once
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "math.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct ComplexVec {
  vec<T> real, imaginary;

  EIGENRNN_INLINE ComplexVec operator*(const ComplexVec& other) const {
    return {real * other.real - imaginary * other.imaginary, real * other.imaginary + imaginary * other.real};
  }
  EIGENRNN_INLINE ComplexVec operator*(vec<T> factor) const { return {real * factor, imaginary * factor}; }
  EIGENRNN_INLINE ComplexVec operator+(const ComplexVec& other) const {
    return {real + other.real, imaginary + other.imaginary};
  }
  EIGENRNN_INLINE ComplexVec operator-(const ComplexVec& other) const {
    return {real - other.real, imaginary - other.imaginary};
  }
  EIGENRNN_INLINE ComplexVec conjugate() const { return {real, -imaginary}; }
};

// The first where a condition is true, the second elsewhere.
template <class T, class Mask>
EIGENRNN_INLINE ComplexVec<T> choose(Mask is_true, const ComplexVec<T>& one, const ComplexVec<T>& other) {
  return {is_true ? one.real : other.real, is_true ? one.imaginary : other.imaginary};
}

template <class T>
struct Angle;
template <>
struct Angle<float> {
  // a turn, 2 pi, in two parts; products of the first with a small integer are exact
  static constexpr float HIGH = 6.28125f, LOW = 1.93530717958647693e-3f;
  static constexpr int TERMS = 7;
};
template <>
struct Angle<double> {
  static constexpr double HIGH = 6.28318530693650245668, LOW = 2.43084020260247704e-10;
  static constexpr int TERMS = 11;
};

// The sine and the cosine of half an angle, up to their common sign, by Taylor polynomials: half the angle less whole
// turns is at most pi / 2. Squares of both, and their product, do not depend on the sign.
template <class T>
EIGENRNN_INLINE ComplexVec<T> half_angle(vec<T> angle) {
  using A = Angle<T>;
  // a larger angle is rounded by a quarter and more; the integer below must not lose its digits
  const vec<T> bounded = clamp<T>(angle, -Exp<T>::MAGIC / 4, Exp<T>::MAGIC / 4);
  const vec<T> turns = (bounded * T(0.159154943091895336) + Exp<T>::MAGIC) - Exp<T>::MAGIC;
  const vec<T> within_a_turn = (bounded - turns * A::HIGH) - turns * A::LOW;
  const vec<T> half = within_a_turn * T(0.5), square = half * half;
  // in reverse: the coefficient of the last power first
  T of_sine = 1, of_cosine = 1;
  for (int k = 1; k < A::TERMS; ++k) {
    of_sine /= -T((2 * k) * (2 * k + 1));
    of_cosine /= -T((2 * k - 1) * (2 * k));
  }
  vec<T> sine = splat<T>(of_sine), cosine = splat<T>(of_cosine);
#pragma GCC unroll 16
  for (int k = A::TERMS - 1; k >= 1; --k) {
    of_sine *= -T((2 * k) * (2 * k + 1));
    of_cosine *= -T((2 * k - 1) * (2 * k));
    sine = sine * square + of_sine;
    cosine = cosine * square + of_cosine;
  }
  return {cosine, sine * half};
}

// exp(z) and exp(z) - 1, both to rounding: with z = a + ib, the latter is
// (exp(a) - 1) cos b - 2 sin^2(b/2) + i exp(a) sin b.
template <class T>
struct Exponential {
  ComplexVec<T> value, less_one;

  EIGENRNN_INLINE static Exponential of(const ComplexVec<T>& z) {
    using E = Exp<T>;
    // exp(a) = scale (1 + p); the smallest normal number stands for all that are smaller
    const auto [normal, p] = power<T, 0>(clamp<T>(z.real, E::LEAST, E::MOST));
    const vec<T> scale = z.real > E::MOST ? splat<T>(std::numeric_limits<T>::infinity()) : normal;
    const vec<T> modulus = scale * p + scale, modulus_less_one = scale * p + (scale - T(1));
    const auto [cosine, sine] = half_angle<T>(z.imaginary);
    const vec<T> one_less_cosine = T(2) * sine * sine, cosine_of_all = T(1) - one_less_cosine;
    const vec<T> imaginary = modulus * (T(2) * sine * cosine);
    return {{modulus * cosine_of_all, imaginary}, {modulus_less_one * cosine_of_all - one_less_cosine, imaginary}};
  }
};

// The eigenvalues of K units, and what their powers need of them. With l = log decay and phi(z) = (exp(z) - 1) / z,
// the factor of an input is dt phi(dt l) / phi(l).
template <class T>
class HeldUnits {
 public:
  struct Held {
    ComplexVec<T> power, factor;
  };
  struct Slopes {
    Held held;
    ComplexVec<T> of_factor;  // its derivative by l; that of the power is dt power
  };

  // `pairs` holds the real and the imaginary part of each eigenvalue side by side.
  HeldUnits(const T* pairs, isize units)
      : stride_(vectors<T>(units) * LANES<T>), memory_(PARTS * stride_), has_near_(vectors<T>(units)) {
    std::memset(memory_.get(), 0, static_cast<std::size_t>(PARTS * stride_) * sizeof(T));
    std::memset(has_near_.get(), 0, static_cast<std::size_t>(vectors<T>(units)) * sizeof(bool));
    for (isize j = 0; j < units; ++j) set_unit(j, {pairs[2 * j], pairs[2 * j + 1]});
  }

  ComplexVec<T> log(isize j) const { return get(LOG, j); }
  // The derivative of the factor by dt, as a multiple of the power.
  ComplexVec<T> factor_by_gap(isize j) const { return get(INVERSE_MEAN, j); }
  ComplexVec<T> inverse_decay(isize j) const { return get(INVERSE_DECAY, j); }

  // The units from j on, after a gap.
  EIGENRNN_INLINE Held held(isize j, T dt) const {
    const Exponential<T> exponential = Exponential<T>::of(get(LOG, j) * splat<T>(dt));
    return held_of(exponential, j, dt);
  }
  EIGENRNN_INLINE Slopes slopes(isize j, T dt) const {
    const ComplexVec<T> z = get(LOG, j) * splat<T>(dt);
    const Exponential<T> exponential = Exponential<T>::of(z);
    const Held held = held_of(exponential, j, dt);
    ComplexVec<T> slope = (held.power * splat<T>(dt) - held.factor * get(DECAY, j)) * get(INVERSE, j);
    if (has_near_.get()[j / LANES<T>]) {
      const auto is_near = get(NEAR, j).real > T(0);
      slope = choose<T>(is_near, slope_near_one(z, exponential, j, dt), slope);
    }
    return {held, slope};
  }

 private:
  enum Part : int { DECAY, INVERSE_DECAY, LOG, INVERSE, ONE, INVERSE_MEAN, SLOPE, NEAR, COMPLEX_PARTS };
  static constexpr isize PARTS = 2 * COMPLEX_PARTS;
  // Below the first number the polynomials are exact to rounding; the others are their last powers.
  static constexpr double SMALL = 0.1;
  static constexpr int LAST = sizeof(T) == 4 ? 4 : 9, LAST_OF_DOUBLES = 9;

  using Number = std::complex<double>;

  void set_unit(isize j, Number decay) {
    // the inverses of smaller numbers may be infinite
    constexpr double TINY = 4.0 * std::numeric_limits<T>::min();
    const bool is_one = std::abs(decay - 1.0) < TINY;
    const Number log = decay == 0.0 ? Number(LOG_OF_ZERO) : std::log(decay);
    const Number mean = is_one ? Number(1) : (decay - 1.0) / log;  // phi(l)
    const bool is_near = std::abs(log) < SMALL;
    const Number slope = is_near ? series(log, 2) : (decay - mean) / log;  // phi'(l)
    set(DECAY, j, decay);
    // the gradient at zero is taken as zero: it would be infinite for gaps below one
    set(INVERSE_DECAY, j, std::abs(decay) < TINY ? 0.0 : 1.0 / decay);
    set(LOG, j, log);
    set(INVERSE, j, is_one ? 0.0 : 1.0 / (decay - 1.0));
    set(ONE, j, is_one ? 1.0 : 0.0);
    set(INVERSE_MEAN, j, 1.0 / mean);
    set(SLOPE, j, slope / (mean * mean));
    set(NEAR, j, is_near ? 1.0 : 0.0);
    if (is_near) has_near_.get()[j / LANES<T>] = true;
  }
  void set(Part part, isize j, Number value) {
    memory_.get()[2 * part * stride_ + j] = static_cast<T>(value.real());
    memory_.get()[(2 * part + 1) * stride_ + j] = static_cast<T>(value.imag());
  }
  EIGENRNN_INLINE ComplexVec<T> get(Part part, isize j) const {
    return {load<T>(memory_.get() + 2 * part * stride_ + j), load<T>(memory_.get() + (2 * part + 1) * stride_ + j)};
  }
  EIGENRNN_INLINE Held held_of(const Exponential<T>& exponential, isize j, T dt) const {
    return {exponential.value, exponential.less_one * get(INVERSE, j) + get(ONE, j) * splat<T>(dt)};
  }
  // The derivative of the factor by l, where decay - 1 would lose digits:
  // dt (dt phi'(z) / phi(l) - phi(z) phi'(l) / phi(l)^2).
  EIGENRNN_INLINE ComplexVec<T> slope_near_one(const ComplexVec<T>& z, const Exponential<T>& exponential, isize j,
                                               T dt) const {
    // phi'(z) is (exp(z) - phi(z)) / z, which loses digits near zero
    const vec<T> square = z.real * z.real + z.imaginary * z.imaginary;
    const ComplexVec<T> inverse = z.conjugate() * (T(1) / square);
    const ComplexVec<T> quotient = exponential.less_one * inverse;
    const auto is_small = square < T(SMALL * SMALL);
    const ComplexVec<T> mean = choose<T>(is_small, series(z, 1), quotient);
    const ComplexVec<T> slope = choose<T>(is_small, series(z, 2), (exponential.value - quotient) * inverse);
    return (get(INVERSE_MEAN, j) * slope * splat<T>(dt) - get(SLOPE, j) * mean) * splat<T>(dt);
  }
  // The Taylor polynomial of phi, or with `order` 2 of its derivative: the sum of z^k / (k! (k + order)).
  EIGENRNN_INLINE static ComplexVec<T> series(const ComplexVec<T>& z, int order) {
    T factorial = 1;
    for (int k = 2; k <= LAST; ++k) factorial *= T(k);
    ComplexVec<T> sum{};
#pragma GCC unroll 16
    for (int k = LAST; k >= 0; --k) {
      sum = sum * z;
      sum.real += T(1) / (factorial * T(k + order));
      if (k > 0) factorial /= T(k);
    }
    return sum;
  }
  static Number series(Number z, int order) {
    Number sum = 0, term = 1;  // z^k / k!
    for (int k = 0; k <= LAST_OF_DOUBLES; ++k) {
      sum += term / static_cast<double>(k + order);
      term *= z / static_cast<double>(k + 1);
    }
    return sum;
  }

  isize stride_;
  Scratch<T> memory_;
  Scratch<bool> has_near_;  // of each vector, whether one of its eigenvalues is near one
};

}  // namespace eigenrnn::EIGENRNN_ISA
