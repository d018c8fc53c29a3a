// The vector type of one instruction set, and its loads and stores.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

// All code that is compiled per instruction set is in a namespace of that name. Otherwise the linker
// could merge functions of the same name but with different instructions.
#ifndef EIGENRNN_ISA
#error "define EIGENRNN_ISA, EIGENRNN_VECTOR_BYTES and EIGENRNN_REGISTERS"
#endif

#define EIGENRNN_INLINE inline __attribute__((always_inline))
// GCC limits how much inlining may add to a file. Past the limit it calls a lambda instead, which takes
// a forward pass of the GRU a fifth more time.
#define EIGENRNN_INLINE_LAMBDA __attribute__((always_inline))

// AddressSanitizer does not check the memory accesses of intrinsics.
#if defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
#define EIGENRNN_MASKS
#endif

namespace eigenrnn::EIGENRNN_ISA {

using isize = std::ptrdiff_t;

template <class T>
struct vector_of {
  typedef T type __attribute__((vector_size(EIGENRNN_VECTOR_BYTES)));
};
template <class T>
using vec = typename vector_of<T>::type;

template <class T>
struct integer_of;
template <>
struct integer_of<float> {
  using type = std::int32_t;
};
template <>
struct integer_of<double> {
  using type = std::int64_t;
};
template <class T>
using integers = vec<typename integer_of<T>::type>;

template <class T>
constexpr isize LANES = EIGENRNN_VECTOR_BYTES / static_cast<isize>(sizeof(T));

constexpr EIGENRNN_INLINE isize smaller(isize a, isize b) { return a < b ? a : b; }
constexpr EIGENRNN_INLINE isize larger(isize a, isize b) { return a > b ? a : b; }

// The number of vectors that hold n elements.
template <class T>
EIGENRNN_INLINE isize vectors(isize n) {
  return (n + LANES<T> - 1) / LANES<T>;
}

template <class T>
EIGENRNN_INLINE vec<T> splat(T value) {
  return value - vec<T>{};  // equals the value, even -0, so it compiles to a load
}

// Memory that need not be aligned.
template <class T>
EIGENRNN_INLINE vec<T> load(const T* p) {
  vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
EIGENRNN_INLINE void store(T* p, vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

// Load or store the first n lanes, n <= LANES; the others read as zero and are not written. No memory
// outside the n elements is accessed.
template <class T>
EIGENRNN_INLINE vec<T> load_some(const T* p, isize n) {
  if (n == LANES<T>) return load<T>(p);
#if defined(EIGENRNN_MASKS)
  if constexpr (sizeof(T) == 4)
    return (vec<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p);
  else
    return (vec<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1u), p);
#else
  vec<T> v{};
  for (isize lane = 0; lane < n; ++lane) v[lane] = p[lane];
  return v;
#endif
}
template <class T>
EIGENRNN_INLINE void store_some(T* p, vec<T> v, isize n) {
  if (n == LANES<T>) return store<T>(p, v);
#if defined(EIGENRNN_MASKS)
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), (__m512)v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1u), (__m512d)v);
#else
  for (isize lane = 0; lane < n; ++lane) p[lane] = v[lane];
#endif
}

// Lane i of the result is lane order(i) of a, followed by b; `order` is a lambda that captures nothing.
#if defined(__clang__)
template <class T, class Order, isize... lanes>
EIGENRNN_INLINE vec<T> shuffle(vec<T> a, vec<T> b, Order order, std::integer_sequence<isize, lanes...>) {
  return __builtin_shufflevector(a, b, order(lanes)...);
}
template <class T, class Order>
EIGENRNN_INLINE vec<T> shuffle(vec<T> a, vec<T> b, Order order) {
  return shuffle<T>(a, b, order, std::make_integer_sequence<isize, LANES<T>>{});
}
#else
template <class T, class Order>
EIGENRNN_INLINE vec<T> shuffle(vec<T> a, vec<T> b, Order order) {
  integers<T> lanes;
  for (isize lane = 0; lane < LANES<T>; ++lane) lanes[lane] = static_cast<typename integer_of<T>::type>(order(lane));
  return __builtin_shuffle(a, b, lanes);
}
#endif
// Vectors of complex numbers hold real and imaginary parts in turn.
template <class T>
EIGENRNN_INLINE vec<T> swap_parts(vec<T> v) {
  return shuffle<T>(v, v, [](isize lane) { return lane ^ 1; });
}

// The bits of a float as an integer, and back.
template <class T>
EIGENRNN_INLINE integers<T> as_bits(vec<T> v) {
  return reinterpret_cast<integers<T>>(v);
}
template <class T>
EIGENRNN_INLINE vec<T> from_bits(integers<T> v) {
  return reinterpret_cast<vec<T>>(v);
}

template <class T>
EIGENRNN_INLINE vec<T> magnitude(vec<T> v) {
  constexpr typename integer_of<T>::type sign = static_cast<typename integer_of<T>::type>(
      typename integer_of<T>::type{1} << (8 * sizeof(T) - 2));
  return from_bits<T>(as_bits<T>(v) & (sign - 1 + sign));
}
template <class T>
EIGENRNN_INLINE vec<T> with_sign_of(vec<T> magnitude_, vec<T> v) {
  return from_bits<T>(as_bits<T>(magnitude_) | (as_bits<T>(v) ^ as_bits<T>(magnitude<T>(v))));
}
template <class T>
EIGENRNN_INLINE vec<T> least(vec<T> a, vec<T> b) {
  return a < b ? a : b;  // b if either is NaN
}
template <class T>
EIGENRNN_INLINE vec<T> greatest(vec<T> a, vec<T> b) {
  return a > b ? a : b;
}

}  // namespace eigenrnn::EIGENRNN_ISA
