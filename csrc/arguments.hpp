// What a call of a recurrence consists of: pointers and strides, in elements, checked by Python.
#pragma once
#include <cstddef>
#include <cstdint>

namespace eigenrnn {

// Element (i, j, k) lies at data[i * first + j * second + k]; data may be null.
struct View {
  void* data = nullptr;
  std::ptrdiff_t first = 0, second = 0;
};

enum class Activation : int { identity, tanh, relu, elu, leaky_relu, modrelu, modrelu_paired };

// What tests evaluate by itself.
enum class Function : int { tanh, logistic, elu };

// Which sequences run when. Sequences are sorted by falling length.
struct Steps {
  std::ptrdiff_t T = 0, B = 0;
  const std::int64_t* sizes = nullptr;  // T running sequences, or null: all B
  bool reverse = false;

  // Step s of the recurrence is step time(s) of the data.
  std::ptrdiff_t time(std::ptrdiff_t s) const { return reverse ? T - 1 - s : s; }
  // How far from step s that before it is, in memory.
  std::ptrdiff_t back(const View& view) const { return reverse ? view.first : -view.first; }
  // How many sequences run in step s; none do before the first and after the last.
  std::ptrdiff_t running(std::ptrdiff_t s) const {
    if (s < 0 || s >= T) return 0;
    return sizes == nullptr ? B : static_cast<std::ptrdiff_t>(sizes[time(s)]);
  }
};

// One Elman recurrence, forward: h_t = f(x_t [U^T] [+ c] + h_{t-1} W^T), and, where outputs are
// asked for, y_t = h_t V^T [+ d].
struct Elman {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0, K = 0;  // M = 0: x is added as it is
  std::ptrdiff_t apart = 1;            // from the gradient of an output to that of the next
  Activation activation = Activation::identity;
  double slope = 0;                    // of leaky_relu
  View x;                              // (T, B, M or N)
  View U;                              // (N, M), any strides
  View c;                              // (N,), may be null
  View W;                              // (N, N), any strides
  View h0;                             // (1, B, N)
  View bias;                           // (N,), of modReLU
  View V;                              // (K, N), any strides
  View d;                              // (K,), may be null
  View h;                              // (T, B, N); null: only the last states are wanted
  View moduli;                         // (T, B, N / 2), |z| of modrelu_paired; may be null
  View last;                           // (1, B, N)
  View y;                              // (T, B, K); null: no outputs are wanted
};

// Its way back. The gradients of W and U come transposed; whatever is null is not wanted.
struct ElmanBack {
  View g;      // (T, B, N), the gradient of h; null: zero
  View glast;  // (1, B, N), the gradient of the last states; null: zero
  View dy;     // (T, B, K), the gradient of y; null: zero
  View dx;     // (T, B, M or N)
  View dUt;    // (M, N)
  View dc;     // (N,)
  View dWt;    // (N, N)
  View dh0;    // (1, B, N)
  View dbias;  // (N,)
  View dV;     // (K, N)
};

// One gated recurrence, forward, with x [U^T] [+ c] = (x^r, x^u, x^c):
//   r = logistic(x^r + h W_r^T), u = logistic(x^u + h W_u^T),
//   c = f(x^c + r (h W_c^T + b)) or, with the reset before, f(x^c + (r h) W_c^T),
//   h = u h + (1 - u) c or, where the update replaces, (1 - u) h + u c.
struct Gru {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0;  // M = 0: x is added as it is
  Activation activation = Activation::identity;
  double slope = 0;  // of leaky_relu
  bool reset_after = true, update_keeps = true;
  View x;               // (T, B, M or 3 N)
  View U;               // (3 N, M), any strides
  View c;               // (3 N,), may be null
  View W;               // (3 N, N), any strides
  View h0;              // (1, B, N)
  View bias;            // (N,), of modReLU
  View recurrent_bias;  // (N,), may be null
  View h;               // (T, B, N); null: only the last states are wanted
  View last;            // (1, B, N)
  View gates;           // what the way back needs, see gru_forward.hpp; null: there will be none
};

// Its way back, likewise.
struct GruBack {
  View g;                // (T, B, N); null: zero
  View glast;            // (1, B, N); null: zero
  View dx;               // (T, B, M or 3 N)
  View dUt;              // (M, 3 N)
  View dc;               // (3 N,)
  View dWt;              // (N, 3 N)
  View dh0;              // (1, B, N)
  View dbias;            // (N,)
  View drecurrent_bias;  // (N,)
};

}  // namespace eigenrnn
