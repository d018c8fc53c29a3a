// The scaled Cayley transform of a small matrix and its derivative, in double precision. Operations of torch
// take longer to call than to compute there.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>

namespace eigenrnn {

constexpr std::ptrdiff_t MOST_CAYLEY_ROWS = 32;

using SmallMatrix = std::array<std::array<double, MOST_CAYLEY_ROWS>, MOST_CAYLEY_ROWS>;

// X becomes its inverse. Its symmetric part is positive definite, so no row needs another one's pivot.
inline void invert(SmallMatrix& X, std::ptrdiff_t n) {
  const auto size = static_cast<std::size_t>(n);
  for (std::size_t k = 0; k < size; ++k) {
    const double pivot = 1 / X[k][k];
    X[k][k] = 1;
    for (std::size_t j = 0; j < size; ++j) X[k][j] *= pivot;
    for (std::size_t i = 0; i < size; ++i) {
      if (i == k) continue;
      const double factor = X[i][k];
      X[i][k] = 0;
      for (std::size_t j = 0; j < size; ++j) X[i][j] -= factor * X[k][j];
    }
  }
}

// W = (I + A)^-1 (I - A) D = (2 (I + A)^-1 - I) D, where `raw` has the strict lower triangle of A row by row.
// Whether A was no larger than `most` in the Frobenius norm; else W is not written.
template <class T>
bool scaled_cayley(std::ptrdiff_t n, double most, const T* raw, const T* signs, T* W) {
  SmallMatrix X;
  const auto size = static_cast<std::size_t>(n);
  double square = 0;
  for (std::size_t i = 0, k = 0; i < size; ++i) {
    X[i][i] = 1;
    for (std::size_t j = 0; j < i; ++j, ++k) {
      X[i][j] = static_cast<double>(raw[k]);
      X[j][i] = -X[i][j];
      square += X[i][j] * X[i][j];
    }
  }
  if (!(2 * square <= most * most)) return false;  // also NaN
  invert(X, n);
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j)
      W[i * size + j] = static_cast<T>((2 * X[i][j] - (i == j ? 1 : 0)) * static_cast<double>(signs[j]));
  return true;
}

// The gradient of `raw` from G, that of W with any strides: with Z = W D and B = (I + Z)^T G D (I + Z)^T / -2
// it is the strict lower triangle of B - B^T.
template <class T>
void scaled_cayley_backward(std::ptrdiff_t n, const T* W, const T* signs, const T* G, std::ptrdiff_t row,
                            std::ptrdiff_t column, T* draw) {
  const auto size = static_cast<std::size_t>(n);
  SmallMatrix Z, product{}, B{};  // I + Z, G D (I + Z)^T, and (I + Z)^T times that
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j)
      Z[i][j] = static_cast<double>(W[i * size + j]) * static_cast<double>(signs[j]) + (i == j ? 1 : 0);
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < size; ++k)
        sum += static_cast<double>(G[static_cast<std::ptrdiff_t>(i) * row + static_cast<std::ptrdiff_t>(k) * column]) *
               static_cast<double>(signs[k]) * Z[j][k];
      product[i][j] = sum;
    }
  for (std::size_t k = 0; k < size; ++k)
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j) B[i][j] += Z[k][i] * product[k][j];
  for (std::size_t i = 0, k = 0; i < size; ++i)
    for (std::size_t j = 0; j < i; ++j, ++k) draw[k] = static_cast<T>((B[j][i] - B[i][j]) / 2);
}

}  // namespace eigenrnn
