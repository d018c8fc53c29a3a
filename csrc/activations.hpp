// The nonlinearities f and their backward passes, which compute f' from the value of f. Only modReLU
// of pairs also needs |z|: |h| - b would lose the digits of |z| if |z| is far below b.
#pragma once
#include "arguments.hpp"
#include "math.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Each has apply(z, b) = f(z), with the bias b of modReLU; pull(d, h, m) = d f'(z) with h = f(z) and,
// for modReLU of pairs, m = |z|; and phase(h), the direction in which b shifts h. All of them
// propagate NaN.

struct Identity {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return z;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T>, vec<T>, T) {
    return d;
  }
};

struct Tanh {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return tanh<T>(z);
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return d * (T(1) - h * h);
  }
};

struct Relu {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return z <= T(0) ? vec<T>{} : z;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return h <= T(0) ? vec<T>{} : d;
  }
};

struct Elu {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return z >= T(0) ? z : expm1_nonpositive<T>(z);  // -0 also stays unchanged
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return h > T(0) ? d : d * (h + T(1));
  }
};

struct LeakyRelu {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T slope) {
    return z > T(0) ? z : z * slope;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T slope) {
    return h > T(0) ? d : d * slope;
  }
};

struct Softplus {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return softplus<T>(z);
  }
  // f' = 1 - exp(-f)
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return d * -expm1_nonpositive<T>(-h);
  }
};

// The tanh of the positive part.
struct Retanh {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T>, T) {
    return z <= T(0) ? vec<T>{} : tanh<T>(z);
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return h <= T(0) ? vec<T>{} : d * (T(1) - h * h);
  }
};

struct ModRelu {
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T> b, T) {
    const vec<T> modulus = magnitude<T>(z) + b;
    const vec<T> signed_ = with_sign_of<T>(modulus, z);
    return modulus <= T(0) ? vec<T>{} : (z == T(0) ? vec<T>{} : signed_);
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T>, T) {
    return h == T(0) ? vec<T>{} : d;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> phase(vec<T> h) {
    return h > T(0) ? splat<T>(1) : (h < T(0) ? splat<T>(-1) : vec<T>{});
  }
};

// Complex numbers as neighbouring lanes: real part, imaginary part.
struct ModReluPaired {
  template <class T>
  static EIGENRNN_INLINE vec<T> root(vec<T> v) {
    for (isize lane = 0; lane < LANES<T>; ++lane)
      v[lane] = sizeof(T) == 4 ? static_cast<T>(__builtin_sqrtf(static_cast<float>(v[lane])))
                               : static_cast<T>(__builtin_sqrt(static_cast<double>(v[lane])));
    return v;
  }
  // |z|, computed without overflow of squares.
  template <class T>
  static EIGENRNN_INLINE vec<T> modulus(vec<T> z) {
    const vec<T> one = magnitude<T>(z), other = swap_parts<T>(one);
    const vec<T> great = one > other ? one : other, small = one > other ? other : one;
    const vec<T> q = small / (great == T(0) ? splat<T>(1) : great);
    return great * root<T>(q * q + T(1));
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> apply(vec<T> z, vec<T> b, T) {
    const vec<T> m = modulus<T>(z), kept = m + b;
    const vec<T> scaled = (z / (m == T(0) ? splat<T>(1) : m)) * kept;
    return kept <= T(0) ? vec<T>{} : scaled;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> pull(vec<T> d, vec<T> h, vec<T> m, T) {
    const vec<T> size = modulus<T>(h), u = phase<T>(h), product = d * u;
    const vec<T> ratio = size / (size == T(0) ? splat<T>(1) : m);
    const vec<T> along = (product + swap_parts<T>(product)) * u;
    return size == T(0) ? vec<T>{} : ratio * (d - along) + along;
  }
  // Store and load one number per pair, for the first n lanes.
  template <class T>
  static EIGENRNN_INLINE void store_moduli(T* p, vec<T> m, isize n) {
    for (isize lane = 0; lane < n; lane += 2) p[lane / 2] = m[lane];
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> load_moduli(const T* p, isize n) {
    vec<T> m{};
    for (isize lane = 0; lane < n; ++lane) m[lane] = p[lane / 2];
    return m;
  }
  template <class T>
  static EIGENRNN_INLINE vec<T> phase(vec<T> h) {
    const vec<T> m = modulus<T>(h);
    return h / (m == T(0) ? splat<T>(1) : m);
  }
};

// Whether the gradient of the bias needs the phases of the states.
template <class F>
constexpr bool HAS_PHASE = __is_same(F, ModRelu) || __is_same(F, ModReluPaired);

// Whether the backward pass needs |z|.
template <class F>
constexpr bool NEEDS_MODULI = __is_same(F, ModReluPaired);

// Call task.template run<F>() with the type F of an activation of real numbers.
template <class Task>
void with_real_activation(Activation activation, Task&& task) {
  switch (activation) {
    case Activation::identity: return task.template run<Identity>();
    case Activation::tanh: return task.template run<Tanh>();
    case Activation::relu: return task.template run<Relu>();
    case Activation::elu: return task.template run<Elu>();
    case Activation::leaky_relu: return task.template run<LeakyRelu>();
    case Activation::softplus: return task.template run<Softplus>();
    case Activation::retanh: return task.template run<Retanh>();
    case Activation::modrelu: return task.template run<ModRelu>();
    case Activation::modrelu_paired: return;
  }
}

// Call task.template run<F>() with the type F of any activation.
template <class Task>
void with_activation(Activation activation, Task&& task) {
  if (activation == Activation::modrelu_paired) return task.template run<ModReluPaired>();
  with_real_activation(activation, task);
}

}  // namespace eigenrnn::EIGENRNN_ISA
