// The numbers exp(-e^nu + i e^theta) of a disc and their derivatives. Seven operations of torch, and as many of
// their backward passes, take longer to call than to compute.
#pragma once
#include <cmath>
#include <cstddef>

namespace eigenrnn {

// Numbers above `most` count as `most`. `pairs` gets real and imaginary parts side by side.
template <class T>
void disc(std::ptrdiff_t n, T most, const T* nu, const T* theta, T* pairs) {
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const T modulus = std::exp(-std::exp(nu[i] > most ? most : nu[i]));
    const T angle = std::exp(theta[i] > most ? most : theta[i]);
    pairs[2 * i] = modulus * std::cos(angle);
    pairs[2 * i + 1] = modulus * std::sin(angle);
  }
}

// With g the gradient of a number z: of nu it is -e^nu Re(g conj(z)), and of theta e^theta Im(g conj(z)).
template <class T>
void disc_backward(std::ptrdiff_t n, T most, const T* nu, const T* theta, const T* pairs, const T* g, T* dnu,
                   T* dtheta) {
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const T real = g[2 * i] * pairs[2 * i] + g[2 * i + 1] * pairs[2 * i + 1];
    const T imaginary = g[2 * i + 1] * pairs[2 * i] - g[2 * i] * pairs[2 * i + 1];
    dnu[i] = nu[i] > most ? T(0) : -std::exp(nu[i]) * real;
    dtheta[i] = theta[i] > most ? T(0) : std::exp(theta[i]) * imaginary;
  }
}

}  // namespace eigenrnn
