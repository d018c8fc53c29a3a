// The single steps of a DeltaNet layer: its projections, convolution, norms and gates around the delta rule.
#include "delta.hpp"
#include "math.hpp"
#include "kernels.hpp"
#include "rows.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
void delta_step(const DeltaStep& step, int threads);  // in delta.cpp

template <class T>
EIGENRNN_INLINE vec<T> silu(vec<T> x) {
  return x * logistic<T>(x);
}

template <class T>
EIGENRNN_INLINE T sum_of_squares(const T* x, isize count) {
  vec<T> squares{};
  for (isize i = 0; i < count; i += LANES<T>) {
    const vec<T> some = load_some<T>(x + i, smaller(LANES<T>, count - i));
    squares += some * some;
  }
  return total<T>(squares);
}

template <class T>
class DeltaStepper final : public Stepper {
 public:
  explicit DeltaStepper(const DeltaNet& layer)
      : Stepper(layer.projections() * layer.M + layer.N * layer.N + 3 * layer.R * layer.matrices(), layer.N,
                layer.state_size()),
        layer_(layer),
        in_(layer.weight_ih, layer.projections(), layer.M),
        out_(layer.weight_out, layer.N, layer.N),
        bias_(layer.output_bias, layer.N),
        filters_(layer.convolution * layer.mixed()),
        A_log_(layer_.A_log, layer.H),
        dt_bias_(layer_.dt_bias, layer.H),
        norm_weight_(layer_.norm_weight, layer.head_size()) {
    // a filter's weight of one input next to those of the other filters
    const View& filters = layer.convolution_weight;
    for (isize i = 0; i < layer.convolution; ++i)
      for (isize row = 0; row < layer.mixed(); ++row)
        filters_.get()[i * layer.mixed() + row] =
            static_cast<const T*>(filters.data)[row * filters.first + i * filters.second];
  }

  void run(const Step& step, int threads) const override {
    Steps steps;
    steps.T = 1;
    steps.B = step.B;
    for_shares(steps, products, threads, [&](const Share& share) { run_rows(step, share.first, share.last); });
  }

 private:
  void run_rows(const Step& step, isize first, isize last) const {
    const isize N = layer_.N, D = layer_.projections(), count = last - first;
    if (count <= 0) return;
    const Scratch<T> memory(count * (D + N));
    T* projected = memory.get();
    T* outputs = projected + count * D;
    const Operand<T> x = in_.operand(at<T>(step.x, 0, first), step.x.second);
    write_product<T>(&x, 1, D, count, nullptr, 0, projected, D);
    for (isize b = 0; b < count; ++b) {
      const isize state = (first + b) * state_size;
      run_row(projected + b * D, static_cast<const T*>(step.h) + state, static_cast<T*>(step.next) + state,
              outputs + b * N);
    }
    const Operand<T> o = out_.operand(outputs, N);
    write_product<T>(&o, 1, N, count, bias_.get(), 0, static_cast<T*>(step.y) + first * N, N);
  }

  // One sequence: the projections of its input are replaced, and `o` gets what the last map reads.
  void run_row(T* projected, const T* h, T* next, T* o) const {
    const isize N = layer_.N, H = layer_.H, R = layer_.R, K = layer_.head_size(), mixed = layer_.mixed();
    T* beta = projected + mixed;
    T* log_decay = beta + layer_.strengths();
    const T* gate = log_decay + layer_.decays();
    if (layer_.convolution > 0) convolve(projected, h + layer_.matrices(), next + layer_.matrices());
    if (layer_.silu)
      each_vector<T>(projected, mixed, projected, [](vec<T> u, isize, isize) { return silu<T>(u); });
    const T scale = T(1) / std::sqrt(static_cast<T>(K));
    for (isize i = 0; i < H * (1 + R); ++i) {  // the queries, then the keys
      T* vector = projected + i * K;
      const T norm = std::sqrt(sum_of_squares<T>(vector, K));
      const bool has_direction = norm > static_cast<T>(layer_.shortest);
      const T factor = has_direction ? (i < H ? scale : T(1)) / norm : T(0);
      each_vector<T>(vector, K, vector, [&](vec<T> u, isize, isize) { return splat<T>(factor) * u; });
    }
    const T low = static_cast<T>(layer_.low), high = static_cast<T>(layer_.high);
    each_vector<T>(beta, layer_.strengths(), beta, [&](vec<T> z, isize, isize) {
      return (T(1) - high) + (high - low) * logistic<T>(z);
    });
    if (layer_.decays() > 0)
      for (isize i = 0; i < H; ++i) {
        const T rate = std::exp(static_cast<const T*>(layer_.A_log.data)[i]);
        const T z = log_decay[i] + static_cast<const T*>(layer_.dt_bias.data)[i];
        log_decay[i] = -rate * softplus<T>(splat<T>(z))[0];
      }
    const DeltaStep step{1, H, R, K, K, projected, projected + N, projected + (1 + R) * N, beta,
                         layer_.decays() > 0 ? log_decay : nullptr, h, next, o};
    for (isize head = 0; head < H; ++head) step_head<T>(step, head);
    if (layer_.gates() > 0) normalise(o, gate);
  }

  // The filters over the last inputs, which move by one.
  void convolve(T* projected, const T* past, T* next) const {
    const isize mixed = layer_.mixed(), width = layer_.convolution;
    std::memcpy(next, past + mixed, static_cast<std::size_t>((width - 1) * mixed) * sizeof(T));
    std::memcpy(next + (width - 1) * mixed, projected, static_cast<std::size_t>(mixed) * sizeof(T));
    each_vector<T>(projected, mixed, projected, [&](vec<T>, isize j, isize n) {
      vec<T> sum{};
      for (isize i = 0; i < width; ++i)
        sum += load_some<T>(next + i * mixed + j, n) * load_some<T>(filters_.get() + i * mixed + j, n);
      return sum;
    });
  }

  // RMSNorm of each head, and its gate.
  void normalise(T* o, const T* gate) const {
    const isize K = layer_.head_size();
    const T* weight = static_cast<const T*>(layer_.norm_weight.data);
    for (isize head = 0; head < layer_.H; ++head, o += K, gate += K) {
      const T mean = sum_of_squares<T>(o, K) / static_cast<T>(K);
      const T factor = T(1) / std::sqrt(mean + static_cast<T>(layer_.epsilon));
      each_vector<T>(o, K, o, [&](vec<T> u, isize i, isize n) {
        return splat<T>(factor) * u * load_some<T>(weight + i, n) * silu<T>(load_some<T>(gate + i, n));
      });
    }
  }

  DeltaNet layer_;
  PackedMap<T> in_, out_;
  PaddedVector<T> bias_;
  Scratch<T> filters_;
  Copied<T> A_log_, dt_bias_, norm_weight_;
};

template <class T>
static void add(KernelsOf<T>& all) {
  all.delta_stepper = make<DeltaStepper<T>, DeltaNet>;
}
void add_delta_net(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
