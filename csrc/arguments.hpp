// The arguments of a recurrence: pointers and strides in elements. Python checks them. The names of
// operands, options and results are those of eigenrnn/ops. A backward pass gets two records of the same type: the
// call, and the gradients by the names of their tensors. The gradient of a result that is null is zero; that of an
// operand that is null is not computed. Kernels read nothing else of the second record, but y_stride.
//
// call.each(use) calls use(name, member) for every member that Python may set.
#pragma once
#include <cstddef>
#include <cstdint>

namespace eigenrnn {

// The strides are those of the first two axes. Element (i, j, k) of three axes lies at
// data[i * first + j * second + k], and the elements of a row (i) of two axes next to each other, if the
// strides of the tensor are not arbitrary. What Python does not pass has no data. Of a call in float32, the
// tensors of all steps may be bfloat16: x, and with it what is computed of each step and its gradients.
struct View {
  void* data = nullptr;
  std::ptrdiff_t first = 0, second = 0;
  bool is_16_bit = false;
};

enum class Activation : int {
  identity,
  tanh,
  relu,
  elu,
  leaky_relu,
  softplus,
  retanh,
  modrelu,
  modrelu_paired
};

// What the numbers are where rows are multiplied by a matrix. A split number is the sum of two of bfloat16, the nearest
// one and what it leaves. Matrices are split, so that their powers stay right; the rows are split too, or nearest
// numbers. Of two split numbers the product of what both leave is not added. Sums are in float32. Calls in float64
// ignore this.
enum class Products : int { float32, split, bfloat16 };

// Smaller matrices have few tiles, and their products stay in float32.
constexpr std::ptrdiff_t LEAST_UNITS_OF_TILES = 64;
template <class T, class Call>
Products products_of(const Call& call) {
  return sizeof(T) > sizeof(float) || call.N < LEAST_UNITS_OF_TILES ? Products::float32 : call.products;
}

// The functions that tests evaluate separately.
enum class Function : int { tanh, logistic, elu, softplus };

// The time steps of a batch. Sequences are sorted by descending length.
struct Steps {
  std::ptrdiff_t T = 0, B = 0;
  const std::int64_t* sizes = nullptr;  // (T,) running sequences per step; null: all B
  bool reverse = false;
  View resets;  // (T, B), bytes; null: none. Sequences begin anew, from zero, with a step that has one

  // Step s of the recurrence is step time(s) of the data.
  std::ptrdiff_t time(std::ptrdiff_t s) const { return reverse ? T - 1 - s : s; }
  // The distance in memory from step s to the step before it.
  std::ptrdiff_t back(const View& view) const { return reverse ? view.first : -view.first; }
  // The number of sequences that run in step s; zero before the first and after the last step.
  std::ptrdiff_t running(std::ptrdiff_t s) const {
    if (s < 0 || s >= T) return 0;
    return sizes == nullptr ? B : static_cast<std::ptrdiff_t>(sizes[time(s)]);
  }
  // Whether sequence b begins anew with step s, and whether any of [from, to) does.
  bool begins_anew(std::ptrdiff_t s, std::ptrdiff_t b) const {
    if (resets.data == nullptr) return false;
    return static_cast<const char*>(resets.data)[time(s) * resets.first + b * resets.second] != 0;
  }
  bool any_begins_anew(std::ptrdiff_t s, std::ptrdiff_t from, std::ptrdiff_t to) const {
    if (resets.data == nullptr) return false;
    for (std::ptrdiff_t b = from; b < to; ++b)
      if (begins_anew(s, b)) return true;
    return false;
  }

  template <class Use>
  void each(Use&& use) {
    use("T", T), use("B", B), use("batch_sizes", sizes), use("reverse", reverse);
  }
};

// LayerNorm of the arguments of f, for each gate over its N units, and zoneout: the states h of a step
// become m h_{t-1} + (1 - m) h, with a mask of zeros and ones, with a rate, or with 1 - leak as m.
struct NormZoneout {
  View gain, shift;  // (G N,) for G gates; null: no LayerNorm
  View mask;         // (T, B, N), bytes; null: the rate
  double rate = 0;   // zero: no zoneout
  View leak;         // (N,) or, if it changes, (T, B, N); null: no leak
  bool leak_changes = false;

  bool has_norm() const { return gain.data != nullptr; }
  bool has_leak() const { return leak.data != nullptr; }
  bool has_zoneout() const { return mask.data != nullptr || mixes(); }
  // Whether every unit mixes its old and its new state.
  bool mixes() const { return rate != 0 || has_leak(); }

  template <class Use>
  void each(Use&& use) {
    use("gain", gain), use("shift", shift), use("mask", mask), use("rate", rate);
  }
};

// The forward pass of an Elman recurrence: h_t = f(x_t [U^T] [+ c] + h_{t-1} W^T) and, optionally,
// the outputs y_t = h_t V^T [+ d]. With a leak, h_t mixes with h_{t-1}. If v0 is given, the arguments of f
// mix instead: v_t = (1 - leak) v_{t-1} + leak (x_t [U^T] [+ c] + h_{t-1} W^T) and h_t = f(v_t).
struct Elman {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0, K = 0;  // M = 0: no input map
  Products products = Products::float32;  // read it with `products_of`
  Activation activation = Activation::identity;
  double slope = 0;                    // of leaky_relu
  NormZoneout norm_zoneout;
  View x;                              // (T, B, M or N)
  View U;                              // (N, M), any strides
  View c;                              // (N,), may be null
  View W;                              // (N, N), any strides
  View h0;                             // (B, N); f(v0) if v0 is given
  View v0;                             // (B, N), may be null
  View bias;                           // (N,), of modReLU
  View V;                              // (K, N), any strides
  View d;                              // (K,), may be null
  View h;                              // (T, B, N); null: only the last states
  View moduli;                         // (T, B, N / 2), |z| of modrelu_paired; may be null
  View saved;                          // saved for the backward pass; null: not saved
  View last;                           // (B, N), of v if v0 is given, else of h
  View y;                              // (T, B, K); null: no outputs
  std::ptrdiff_t y_stride = 1;         // of the gradient of y, from one output to the next

  // The parts saved per unit: with LayerNorm the normalised argument of f; if units mix their states,
  // the value of f or, if v0 is given, the argument less v_{t-1}.
  static constexpr std::ptrdiff_t NORMED = 0;
  std::ptrdiff_t value() const { return norm_zoneout.has_norm() ? NORMED + 1 : 0; }
  std::ptrdiff_t parts() const { return norm_zoneout.mixes() ? value() + 1 : value(); }
  bool mixes_arguments() const { return v0.data != nullptr; }
  // The numbers saved per sequence and step: 1 / s of each LayerNorm.
  std::ptrdiff_t norms() const { return norm_zoneout.has_norm(); }

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    norm_zoneout.each(use);
    use("resets", steps.resets), use("N", N), use("M", M), use("products", products), use("K", K),
    use("nonlinearity", activation), use("slope", slope), use("x", x), use("W", W), use("h0", h0), use("v0", v0),
    use("leak", norm_zoneout.leak), use("leak_changes", norm_zoneout.leak_changes), use("bias", bias), use("U", U),
    use("c", c), use("V", V), use("d", d), use("h", h), use("last", last), use("y", y), use("y_stride", y_stride),
    use("moduli", moduli), use("saved", saved);
  }
  // Calls use(name, part) for every part that a forward pass saves of a unit.
  template <class Use>
  void each_saved_part(Use&& use) const {
    if (norm_zoneout.has_norm()) use("normed", NORMED);
    if (norm_zoneout.mixes()) use(mixes_arguments() ? "change" : "value", value());
  }
};

enum Gate : int { RESET, UPDATE, CANDIDATE, GATES };

// The forward pass of a gated recurrence, with x [U^T] [+ c] = (x^r, x^u, x^c):
//   r = logistic(x^r + h W_r^T), u = logistic(x^u + h W_u^T),
//   c = f(x^c + r (h W_c^T + b)) or, with the reset before, f(x^c + (r h) W_c^T),
//   h = u h + (1 - u) c or, if the update replaces the state, (1 - u) h + u c.
struct Gru {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0;  // M = 0: no input map
  Products products = Products::float32;  // read it with `products_of`
  Activation activation = Activation::identity;
  double slope = 0;  // of leaky_relu
  bool reset_after = true, update_keeps = true;
  NormZoneout norm_zoneout;
  View x;               // (T, B, M or 3 N)
  View U;               // (3 N, M), any strides
  View c;               // (3 N,), may be null
  View W;               // (3 N, N), any strides
  View h0;              // (B, N)
  View bias;            // (N,), of modReLU
  View recurrent_bias;  // (N,), may be null
  View h;               // (T, B, N); null: only the last states
  View last;            // (B, N)
  View saved;           // saved for the backward pass; null: not saved

  // The parts saved per unit: r, u and c in the order of the gates; with the reset after the matrix the
  // product h W_c^T + b; with LayerNorm the normalised arguments of the gates.
  static constexpr std::ptrdiff_t PRODUCT = GATES;
  std::ptrdiff_t normed(int gate) const { return (reset_after ? PRODUCT + 1 : PRODUCT) + gate; }
  std::ptrdiff_t parts() const { return normed(0) + norms(); }
  std::ptrdiff_t norms() const { return norm_zoneout.has_norm() ? GATES : 0; }

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    norm_zoneout.each(use);
    use("resets", steps.resets), use("N", N), use("M", M), use("products", products),
    use("nonlinearity", activation), use("slope", slope), use("reset_after", reset_after),
    use("update_keeps", update_keeps), use("x", x), use("W", W), use("h0", h0), use("bias", bias),
    use("recurrent_bias", recurrent_bias), use("U", U), use("c", c), use("h", h), use("last", last),
    use("saved", saved);
  }
  // Calls use(name, part) for every part that a forward pass saves of a unit.
  template <class Use>
  void each_saved_part(Use&& use) const {
    use("reset", RESET);
    use("update", UPDATE);
    use("candidate", CANDIDATE);
    if (reset_after) use("product", PRODUCT);
    if (!norm_zoneout.has_norm()) return;
    use("normed_reset", normed(RESET));
    use("normed_update", normed(UPDATE));
    use("normed_candidate", normed(CANDIDATE));
  }
};

enum LstmGate : int { INPUT, FORGET, CELL, OUTPUT, LSTM_GATES };

// The forward pass of an LSTM, with x [U^T] [+ c] + h W^T = (z^i, z^f, z^g, z^o):
//   i, f, o = logistic(z^i, z^f, z^o), g = tanh(z^g), cell = f cell + i g, h = o tanh(cell).
struct Lstm {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0;  // M = 0: no input map
  Products products = Products::float32;  // read it with `products_of`
  View x;          // (T, B, M or 4 N)
  View U;          // (4 N, M), any strides
  View c;          // (4 N,), may be null
  View W;          // (4 N, N), any strides
  View h0;         // (B, N)
  View c0;         // (B, N), the initial cell
  View h;          // (T, B, N); null: only the last states
  View last;       // (B, N)
  View last_cell;  // (B, N)
  View saved;      // saved for the backward pass; null: not saved

  // The parts saved per unit: i, f, g and o in the order of the gates, and the cell before the step.
  static constexpr std::ptrdiff_t OLD_CELL = LSTM_GATES;
  std::ptrdiff_t parts() const { return OLD_CELL + 1; }
  std::ptrdiff_t norms() const { return 0; }

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    use("resets", steps.resets), use("N", N), use("M", M), use("products", products), use("x", x), use("W", W),
    use("h0", h0), use("c0", c0), use("U", U), use("c", c), use("h", h), use("last", last),
    use("last_cell", last_cell), use("saved", saved);
  }
  // Calls use(name, part) for every part that a forward pass saves of a unit.
  template <class Use>
  void each_saved_part(Use&& use) const {
    use("input", INPUT);
    use("forget", FORGET);
    use("cell", CELL);
    use("output", OUTPUT);
    use("old_cell", OLD_CELL);
  }
};

// The forward pass of a linear recurrence, h_t = decay_t h_{t-1} + x_t, element by element. Complex
// numbers are pairs of real ones: N, strides and all lengths count real numbers.
struct Linear {
  Steps steps;
  std::ptrdiff_t N = 0;
  bool paired = false;  // whether the numbers are complex
  bool gated = false;   // whether the decay depends on step and sequence
  View x;               // (T, B, N)
  View decay;           // (N,) or, gated, (T, B, N)
  View h0;              // (B, N)
  View h;               // (T, B, N); null: only the last states
  View last;            // (B, N)

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    use("resets", steps.resets), use("N", N), use("paired", paired), use("gated", gated), use("x", x),
    use("decay", decay), use("h0", h0), use("h", h), use("last", last);
  }
};

// The forward pass of the delta rule. With N = H R K numbers of k side by side in a step of a sequence, and so
// on, all views have two axes and rows: (T, B, .) or (B, .).
struct Delta {
  Steps steps;
  std::ptrdiff_t H = 0, R = 0, K = 0, V = 0;
  std::ptrdiff_t chunk = 0;  // steps in a chunk
  View q;                    // (T, B, H K)
  View k;                    // (T, B, H R K)
  View v;                    // (T, B, H R V)
  View beta;                 // (T, B, H R)
  View log_decay;            // (T, B, H); null: no decay
  View S0;                   // (B, H K V)
  View o;                    // (T, B, H V); null: only the last states
  View S_n;                  // (B, H K V)
  View saved;                // (chunks + 1, B, H K V), the state before each chunk; null: not saved

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    use("H", H), use("R", R), use("K", K), use("V", V), use("chunk", chunk), use("q", q), use("k", k), use("v", v),
    use("beta", beta), use("log_decay", log_decay), use("S0", S0), use("o", o), use("S_n", S_n),
    use("saved", saved);
  }
};

// One step of the delta rule, with R reflections. All arrays are contiguous.
struct DeltaStep {
  std::ptrdiff_t B = 0, H = 0, R = 0, K = 0, V = 0;
  const void* q = nullptr;          // (B, H, K)
  const void* k = nullptr;          // (B, H, R, K)
  const void* v = nullptr;          // (B, H, R, V)
  const void* beta = nullptr;       // (B, H, R)
  const void* log_decay = nullptr;  // (B, H); null: no decay
  const void* S0 = nullptr;         // (B, H, K, V), the states before the step
  void* S = nullptr;                // (B, H, K, V), those after it; may be S0
  void* o = nullptr;                // (B, H, V)
};

// The forward pass of a layer of an LRU: h_t = decay h_{t-1} + exp(gamma_log) U x_t, y_t = Re(V h_t) + D x_t [+ d].
// A state has N = K real numbers, or N = 2 K: the real parts of K complex numbers, then the imaginary ones.
// Complex states may have gaps in time, see `gaps.hpp`.
struct Lru {
  Steps steps;
  std::ptrdiff_t N = 0, M = 0, K = 0;
  View x;          // (T, B, M)
  View decay;      // (N,); of complex numbers both parts side by side
  View h0;         // (B, N)
  View U;          // (N, M), any strides
  View gamma_log;  // (K,)
  View V;          // (K, N), any strides
  View D;          // (K, M), any strides
  View d;          // (K,), may be null
  View dt;         // (T, B), of complex states; null: all gaps are one
  View h;          // (T, B, N); null: only the last states
  View last;       // (B, N)
  View y;          // (T, B, K); null: no outputs
  std::ptrdiff_t y_stride = 1;  // of the gradient of y, from one output to the next

  bool is_complex() const { return N > K; }

  template <class Use>
  void each(Use&& use) {
    steps.each(use);
    use("resets", steps.resets), use("N", N), use("M", M), use("K", K), use("x", x), use("decay", decay),
    use("h0", h0), use("U", U), use("gamma_log", gamma_log), use("V", V), use("D", D), use("d", d), use("dt", dt),
    use("h", h), use("last", last), use("y", y), use("y_stride", y_stride);
  }
};

// A norm of the features of a row: LayerNorm, RMSNorm without a shift, or none without a weight.
struct FeatureNorm {
  View weight, shift;
  double epsilon = 0;
};

// The linear map before the blocks of a residual stack, or the norm after them; either may be missing.
struct FeatureMap {
  std::ptrdiff_t N = 0, M = 0;
  View weight, bias;  // (N, M), (N,)
  FeatureNorm norm;

  template <class Use>
  void each(Use&& use) {
    use("N", N), use("M", M), use("weight", weight), use("bias", bias), use("norm_weight", norm.weight),
    use("norm_shift", norm.shift), use("norm_epsilon", norm.epsilon);
  }
};

// The parts of a residual block of N features around a recurrence of P outputs. A part without a weight
// is missing.
struct ResidualBlock {
  std::ptrdiff_t N = 0, P = 0;
  std::ptrdiff_t H = 0;  // the inner features of the second branch
  FeatureNorm norm;
  View projection, projection_bias;  // (N, P)
  View gate, gate_bias;              // (2 N, N)
  FeatureNorm mlp_norm;
  View mlp_in, mlp_in_bias;    // (H, N)
  View mlp_out, mlp_out_bias;  // (N, H)

  template <class Use>
  void each(Use&& use) {
    use("N", N), use("P", P), use("H", H), use("norm_weight", norm.weight), use("norm_shift", norm.shift),
    use("norm_epsilon", norm.epsilon), use("projection", projection), use("projection_bias", projection_bias),
    use("gate", gate), use("gate_bias", gate_bias), use("mlp_norm_weight", mlp_norm.weight),
    use("mlp_norm_shift", mlp_norm.shift), use("mlp_norm_epsilon", mlp_norm.epsilon), use("mlp_in", mlp_in),
    use("mlp_in_bias", mlp_in_bias), use("mlp_out", mlp_out), use("mlp_out_bias", mlp_out_bias);
  }
};

// The weights of a minGRU layer, for single steps.
struct MinGruLayer {
  std::ptrdiff_t N = 0, M = 0;
  double low = 0, high = 1;  // the ends of the decays
  View weight_ih;            // (2 N, M), the gate, then the candidate
  View input_bias;           // (2 N,); may be null

  template <class Use>
  void each(Use&& use) {
    use("N", N), use("M", M), use("low", low), use("high", high), use("weight_ih", weight_ih),
    use("input_bias", input_bias);
  }
};

// The weights and the options of a DeltaNet layer of N = H K units, for single steps. A state has the
// matrices of all heads, then the projections of the last `convolution` inputs, the oldest first.
struct DeltaNet {
  std::ptrdiff_t N = 0, M = 0, H = 0, R = 0;
  std::ptrdiff_t convolution = 0;  // the width of the filters, 0: none
  bool silu = false;
  double low = 0, high = 0;  // the ends of the free eigenvalues
  double shortest = 0;       // q and k of this norm or a smaller one become zero
  double epsilon = 0;        // of RMSNorm
  View weight_ih;            // (D, M): q, k, v, strengths, decays if there is A_log, gate if there is norm_weight
  View convolution_weight;   // ((1 + 2 R) N, convolution)
  View A_log;                // (H,); null: no decays
  View dt_bias;              // (H,)
  View norm_weight;          // (K,); null: no output gate
  View weight_out;           // (N, N)
  View output_bias;          // (N,); may be null

  std::ptrdiff_t head_size() const { return N / H; }
  std::ptrdiff_t mixed() const { return (1 + 2 * R) * N; }
  std::ptrdiff_t strengths() const { return H * R; }
  std::ptrdiff_t decays() const { return A_log.data == nullptr ? 0 : H; }
  std::ptrdiff_t gates() const { return norm_weight.data == nullptr ? 0 : N; }
  std::ptrdiff_t projections() const { return mixed() + strengths() + decays() + gates(); }
  std::ptrdiff_t matrices() const { return N * head_size(); }
  std::ptrdiff_t state_size() const { return matrices() + convolution * mixed(); }

  template <class Use>
  void each(Use&& use) {
    use("N", N), use("M", M), use("H", H), use("R", R), use("convolution", convolution), use("silu", silu),
    use("low", low), use("high", high), use("shortest", shortest), use("epsilon", epsilon),
    use("weight_ih", weight_ih), use("convolution_weight", convolution_weight), use("A_log", A_log),
    use("dt_bias", dt_bias), use("norm_weight", norm_weight), use("weight_out", weight_out),
    use("output_bias", output_bias);
  }
};

}  // namespace eigenrnn
