// The single steps of the minGRU.
#include "math.hpp"
#include "kernels.hpp"
#include "rows.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

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
    Steps steps;
    steps.T = 1;
    steps.B = step.B;
    for_shares(steps, products, threads,
               [&](const Share& share) { run_rows(step, share.first, share.last - share.first); });
  }

 private:
  void run_rows(const Step& step, isize first, isize count) const {
    if (count <= 0) return;
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
static void add(KernelsOf<T>& all) {
  all.min_gru_stepper = make<MinGruStepper<T>, MinGruLayer>;
}
void add_min_gru(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
