// The single steps of the layers with a linear recurrence: the LRU and the minGRU.
#include "math.hpp"
#include "recurrences.hpp"
#include "rows.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// Calls run(first, last) for the sequences of each thread.
template <class Run>
void for_rows(const Step& step, std::ptrdiff_t products, int threads, const Run& run) {
  Steps steps;
  steps.T = 1;
  steps.B = step.B;
  for_shares(steps, products, threads, [&](const Share& share) {
    if (share.last > share.first) run(share.first, share.last);
  });
}

// next = decay * h + in x, and y = out next + skip x + bias. Complex states are real parts, then imaginary ones.
template <class T>
class LruStepper final : public Stepper {
 public:
  explicit LruStepper(const LruLayer& layer)
      : Stepper((layer.S + layer.N) * layer.M + (layer.S + layer.N) * layer.S, layer.N, layer.S),
        layer_(layer),
        in_(layer.weight_ih, layer.S, layer.M),
        out_(layer.weight_out, layer.N, layer.S),
        skip_(layer.weight_skip, layer.N, layer.M),
        decay_(layer_.decay, layer.S),
        bias_(layer.output_bias, layer.N) {}

  void run(const Step& step, int threads) const override {
    for_rows(step, products, threads, [&](isize first, isize last) { run_rows(step, first, last - first); });
  }

 private:
  void run_rows(const Step& step, isize first, isize count) const {
    const isize S = layer_.S, N = layer_.N;
    const Scratch<T> inputs(count * S);
    const Operand<T> x = in_.operand(at<T>(step.x, 0, first), step.x.second);
    write_product<T>(&x, 1, S, count, nullptr, 0, inputs.get(), S);
    T* next = static_cast<T*>(step.next) + first * S;
    const T* h = static_cast<const T*>(step.h) + first * S;
    for (isize b = 0; b < count; ++b) {
      if (S > N) multiply_complex(h + b * S, inputs.get() + b * S, next + b * S);
      else multiply(h + b * S, inputs.get() + b * S, next + b * S);
    }
    const Operand<T> operands[] = {out_.operand(next, S), skip_.operand(at<T>(step.x, 0, first), step.x.second)};
    write_product<T>(operands, 2, N, count, bias_.get(), 0, static_cast<T*>(step.y) + first * N, N);
  }

  void multiply(const T* h, const T* u, T* next) const {
    const T* decay = static_cast<const T*>(layer_.decay.data);
    each_vector<T>(h, layer_.N, next, [&](vec<T> state, isize i, isize n) {
      return load_some<T>(decay + i, n) * state + load_some<T>(u + i, n);
    });
  }

  void multiply_complex(const T* h, const T* u, T* next) const {
    const isize N = layer_.N;
    const T* decay = static_cast<const T*>(layer_.decay.data);
    for (isize i = 0; i < N; i += LANES<T>) {
      const isize n = smaller(LANES<T>, N - i);
      const vec<T> real = load_some<T>(h + i, n), imaginary = load_some<T>(h + N + i, n);
      const vec<T> a = load_some<T>(decay + i, n), b = load_some<T>(decay + N + i, n);
      store_some<T>(next + i, a * real - b * imaginary + load_some<T>(u + i, n), n);
      store_some<T>(next + N + i, a * imaginary + b * real + load_some<T>(u + N + i, n), n);
    }
  }

  LruLayer layer_;
  PackedMap<T> in_, out_, skip_;
  Copied<T> decay_;
  PaddedVector<T> bias_;
};

// next = sigmoid(z) g(v) + decay(z) h, with z and v the two halves of in x + bias.
template <class T>
class MinGruStepper final : public Stepper {
 public:
  explicit MinGruStepper(const MinGruLayer& layer)
      : Stepper(2 * layer.N * layer.M, layer.N),
        layer_(layer),
        in_(layer.weight_ih, 2 * layer.N, layer.M),
        bias_(layer.input_bias, 2 * layer.N) {}

  void run(const Step& step, int threads) const override {
    for_rows(step, products, threads, [&](isize first, isize last) { run_rows(step, first, last - first); });
  }

 private:
  void run_rows(const Step& step, isize first, isize count) const {
    const isize N = layer_.N;
    const Scratch<T> mapped(count * 2 * N);
    const Operand<T> x = in_.operand(at<T>(step.x, 0, first), step.x.second);
    write_product<T>(&x, 1, 2 * N, count, bias_.get(), 0, mapped.get(), 2 * N);
    const vec<T> low = splat<T>(static_cast<T>(layer_.low)), high = splat<T>(static_cast<T>(layer_.high));
    for (isize b = 0; b < count; ++b) {
      const T* gate = mapped.get() + b * 2 * N;
      const isize row = (first + b) * N;
      each_vector<T>(static_cast<const T*>(step.h) + row, N, static_cast<T*>(step.next) + row,
                     [&](vec<T> h, isize i, isize n) {
                       const vec<T> z = load_some<T>(gate + i, n), v = load_some<T>(gate + N + i, n);
                       // logistic(-z) is 1 - logistic(z) without its cancellation
                       const vec<T> decay = low + (high - low) * logistic<T>(-z);
                       const vec<T> candidate = v < T(0) ? logistic<T>(v) : v + T(0.5);
                       return logistic<T>(z) * candidate + decay * h;
                     });
    }
  }

  MinGruLayer layer_;
  PackedMap<T> in_;
  PaddedVector<T> bias_;
};

template <class T>
Stepper* lru_stepper(const LruLayer& layer) {
  return new LruStepper<T>(layer);
}
template <class T>
Stepper* min_gru_stepper(const MinGruLayer& layer) {
  return new MinGruStepper<T>(layer);
}

template Stepper* lru_stepper<float>(const LruLayer&);
template Stepper* lru_stepper<double>(const LruLayer&);
template Stepper* min_gru_stepper<float>(const MinGruLayer&);
template Stepper* min_gru_stepper<double>(const MinGruLayer&);

}  // namespace eigenrnn::EIGENRNN_ISA
