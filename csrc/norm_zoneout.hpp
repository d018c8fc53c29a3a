// LayerNorm of the rows of a step and its backward pass, and what zoneout or a leak keeps of the states.
#pragma once
#include "rows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// v with zeros after its first n lanes.
template <class T>
EIGENRNN_INLINE vec<T> first_lanes(vec<T> v, isize n) {
  if (n < LANES<T>)
    for (isize lane = n; lane < LANES<T>; ++lane) v[lane] = T(0);
  return v;
}

template <class T>
EIGENRNN_INLINE T total(vec<T> v) {
  T sum = 0;
  for (isize lane = 0; lane < LANES<T>; ++lane) sum += v[lane];
  return sum;
}

// g n + c with n = (z - mean) / s and s^2 = variance + EPSILON, over the N units of one gate. In memory,
// the vectors of z and n are `apart` numbers apart, and their lanes after the last unit are zero.
template <class T>
struct LayerNorm {
  static constexpr T EPSILON = T(1e-5);  // as in eigenrnn/ops/norm_zoneout.py

  isize N;
  const T* gain;
  const T* shift;

  LayerNorm(const NormZoneout& options, isize units, isize gate = 0)
      : N(units),
        gain(static_cast<const T*>(options.gain.data) + gate * units),
        shift(static_cast<const T*>(options.shift.data) + gate * units) {}

  // Overwrite z with n; returns 1 / s.
  T normalise(T* z, isize apart) const {
    vec<T> sum{};
    for_vectors([&](isize v, isize, isize) { sum += load<T>(z + v * apart); });
    const T mean = total<T>(sum) / static_cast<T>(N);
    vec<T> squares{};
    for_vectors([&](isize v, isize, isize n) {
      const vec<T> centred = first_lanes<T>(load<T>(z + v * apart) - mean, n);
      store<T>(z + v * apart, centred);
      squares += centred * centred;
    });
    const T s = static_cast<T>(
        __builtin_sqrt(static_cast<double>(total<T>(squares) / static_cast<T>(N) + EPSILON)));
    for_vectors([&](isize v, isize, isize) {
      store<T>(z + v * apart, load<T>(z + v * apart) * (T(1) / s));
    });
    return T(1) / s;
  }

  // Lanes [j, j + n) of g n + c.
  EIGENRNN_INLINE vec<T> apply(vec<T> normed, isize j, isize n) const {
    return load_some<T>(gain + j, n) * normed + load_some<T>(shift + j, n);
  }

  // Overwrite delta, the gradient of g n + c, with that of z; add those of g and c to their sums. The
  // vectors of delta are adjacent.
  void pull(T* delta, const T* normed, isize apart, T scale, T* gain_sums, T* shift_sums) const {
    vec<T> sum{}, along{};
    for_vectors([&](isize v, isize j, isize n) {
      const vec<T> d = load<T>(delta + j), m = load<T>(normed + v * apart);
      store<T>(gain_sums + j, load<T>(gain_sums + j) + d * m);
      store<T>(shift_sums + j, load<T>(shift_sums + j) + d);
      const vec<T> y = d * load_some<T>(gain + j, n);
      store<T>(delta + j, y);
      sum += y;
      along += y * m;
    });
    const T mean = total<T>(sum) / static_cast<T>(N), projection = total<T>(along) / static_cast<T>(N);
    for_vectors([&](isize v, isize j, isize n) {
      const vec<T> m = load<T>(normed + v * apart);
      store<T>(delta + j, first_lanes<T>((load<T>(delta + j) - mean - m * projection) * scale, n));
    });
  }

 private:
  template <class Use>
  EIGENRNN_INLINE void for_vectors(const Use& use) const {
    for (isize v = 0, j = 0; j < N; ++v, j += LANES<T>) use(v, j, smaller(LANES<T>, N - j));
  }
};

// Add a row of deltas to their sums, and store it as the gradient of the inputs, if that is wanted.
template <class T>
EIGENRNN_INLINE void add_and_store(const T* delta, isize N, T* sums, T* dx) {
  for (isize j = 0; j < N; j += LANES<T>) {
    const vec<T> d = load<T>(delta + j);
    store<T>(sums + j, load<T>(sums + j) + d);
    if (dx != nullptr) store_some<T>(dx + j, d, smaller(LANES<T>, N - j));
  }
}

// How much of its state each unit keeps in a step; row 0 is `first`.
template <class T>
class Zoneout {
 public:
  Zoneout(const NormZoneout& options, isize t, isize first)
      : active(options.has_zoneout()),
        mask_(options.mask.data == nullptr ? nullptr : at<signed char>(options.mask, t, first)),
        stride_(options.mask.second),
        rate_(static_cast<T>(options.rate)),
        leak_(options.leak.data == nullptr ? nullptr : at<T>(options.leak, t, first)),
        leak_stride_(options.leak.second) {}

  const bool active;

  // m, for n units of row r from unit j on.
  EIGENRNN_INLINE vec<T> kept(isize r, isize j, isize n) const {
    if (leak_ != nullptr) return T(1) - load_some<T>(leak_ + r * leak_stride_ + j, n);
    if (mask_ == nullptr) return splat<T>(rate_);
    typedef signed char bytes __attribute__((vector_size(LANES<T>)));
    bytes some{};
    const signed char* from = mask_ + r * stride_ + j;
    if (n == LANES<T>) std::memcpy(&some, from, sizeof some);
    else std::memcpy(&some, from, static_cast<std::size_t>(n));
    return __builtin_convertvector(-(some != bytes{}), vec<T>);  // any byte but 0 is true
  }
  // 1 - m, the leak itself if there is one: a small leak would lose digits in 1 - (1 - leak).
  EIGENRNN_INLINE vec<T> renewed(vec<T> m, isize r, isize j, isize n) const {
    return leak_ != nullptr ? load_some<T>(leak_ + r * leak_stride_ + j, n) : T(1) - m;
  }
  // m h + renewed other. A number that is not needed may be infinite.
  static EIGENRNN_INLINE vec<T> mix(vec<T> m, vec<T> renewed, vec<T> h, vec<T> other) {
    const vec<T> mean = m * h + renewed * other;
    return m == T(0) ? other : (m == T(1) ? h : mean);
  }
  static EIGENRNN_INLINE vec<T> mix(vec<T> m, vec<T> h, vec<T> other) {
    return mix(m, T(1) - m, h, other);
  }

 private:
  const signed char* mask_;
  isize stride_;
  T rate_;
  const T* leak_;
  isize leak_stride_;  // zero if the leak is the same for all rows
};

}  // namespace eigenrnn::EIGENRNN_ISA
