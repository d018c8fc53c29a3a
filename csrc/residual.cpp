// The single steps of a stack of residual blocks: norms, mixers and residual sums around recurrences.
#include <cmath>

#include "math.hpp"
#include "norm_zoneout.hpp"
#include "kernels.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// LayerNorm or RMSNorm of single rows, with its own copy of the weights; the identity without weights.
template <class T>
class RowNorm {
 public:
  RowNorm(const FeatureNorm& norm, isize features)
      : norm_(norm), features_(features), weight_(norm_.weight, features), shift_(norm_.shift, features) {}

  void apply(const T* x, T* to) const {
    const T* weight = static_cast<const T*>(norm_.weight.data);
    const T* shift = static_cast<const T*>(norm_.shift.data);
    if (weight == nullptr) {
      std::memmove(to, x, static_cast<std::size_t>(features_) * sizeof(T));
      return;
    }
    vec<T> sum{};
    if (shift != nullptr) each_vector<T>(x, features_, to, [&](vec<T> u, isize, isize) { return sum += u, u; });
    const T mean = shift == nullptr ? T(0) : total<T>(sum) / static_cast<T>(features_);
    vec<T> squares{};
    each_vector<T>(x, features_, to, [&](vec<T> u, isize, isize n) {
      const vec<T> centred = first_lanes<T>(u - mean, n);
      squares += centred * centred;
      return centred;
    });
    const double power = static_cast<double>(total<T>(squares) / static_cast<T>(features_));
    const T factor = static_cast<T>(1 / std::sqrt(power + norm_.epsilon));
    each_vector<T>(to, features_, to, [&](vec<T> u, isize i, isize n) {
      const vec<T> normed = u * factor * load_some<T>(weight + i, n);
      return shift == nullptr ? normed : normed + load_some<T>(shift + i, n);
    });
  }

 private:
  FeatureNorm norm_;
  isize features_;
  Copied<T> weight_, shift_;
};

// A linear map of rows, or nothing without a weight.
template <class T>
class RowMap {
 public:
  RowMap(const View& weight, const View& bias, isize outputs, isize inputs)
      : exists(weight.data != nullptr),
        outputs_(outputs),
        packed_(weight, exists ? outputs : 0, exists ? inputs : 0),
        bias_(bias, exists ? outputs : 0) {}
  const bool exists;

  // The rows of `to` are contiguous.
  void apply(const T* x, isize stride, isize count, T* to) const {
    const Operand<T> rows = packed_.operand(x, stride);
    write_product<T>(&rows, 1, outputs_, count, bias_.get(), 0, to, outputs_);
  }

 private:
  isize outputs_;
  PackedMap<T> packed_;
  PaddedVector<T> bias_;
};

template <class T>
void gelu(T* x, isize count) {
  for (isize i = 0; i < count; ++i) x[i] = T(0.5) * x[i] * (T(1) + std::erf(x[i] * T(M_SQRT1_2)));
}

// y = norm(x [W^T + b]): the map before the first block, or the norm after the last one.
template <class T>
class FeatureStepper final : public Stepper {
 public:
  explicit FeatureStepper(const FeatureMap& layer)
      : Stepper(layer.weight.data == nullptr ? 0 : layer.N * layer.M, layer.N, 0),
        map_(layer.weight, layer.bias, layer.N, layer.M),
        norm_(layer.norm, layer.N) {}

  void run(const Step& step, int) const override {
    T* y = static_cast<T*>(step.y);
    if (map_.exists) map_.apply(at<T>(step.x, 0, 0), step.x.second, step.B, y);
    for (isize b = 0; b < step.B; ++b)
      norm_.apply(map_.exists ? y + b * columns : at<T>(step.x, 0, b), y + b * columns);
  }
  bool knows_gaps() const override { return true; }  // it has no states

 private:
  RowMap<T> map_;
  RowNorm<T> norm_;
};

template <class T>
class BlockStepper final : public Stepper {
 public:
  BlockStepper(const ResidualBlock& block, const Stepper& inner)
      : Stepper(inner.products + block.N * (block.P + 2 * block.N + 2 * block.H), block.N, inner.state_size),
        block_(block),
        inner_(inner),
        norm_(block.norm, block.N),
        projection_(block.projection, block.projection_bias, block.N, block.P),
        gate_(block.gate, block.gate_bias, 2 * block.N, block.N),
        mlp_norm_(block.mlp_norm, block.N),
        mlp_in_(block.mlp_in, block.mlp_in_bias, block.H, block.N),
        mlp_out_(block.mlp_out, block.mlp_out_bias, block.N, block.H) {}

  void run(const Step& step, int threads) const override {
    const isize N = block_.N, P = block_.P, B = step.B;
    const Scratch<T> memory(B * (2 * N + P + larger(2 * N, block_.H)));
    T* normed = memory.get();
    T* outputs = normed + B * N;
    T* mixed = outputs + B * P;
    T* wide = mixed + B * N;
    for (isize b = 0; b < B; ++b) norm_.apply(at<T>(step.x, 0, b), normed + b * N);
    Step of_inner = step;
    of_inner.x = {normed, 0, N};
    of_inner.y = inner_.outputs_states ? step.next : outputs;
    inner_.run(of_inner, threads);
    const T* y = static_cast<const T*>(of_inner.y);
    if (projection_.exists) projection_.apply(y, P, B, mixed);
    else std::memcpy(mixed, y, static_cast<std::size_t>(B * N) * sizeof(T));
    if (gate_.exists) {
      gelu(mixed, B * N);
      gate_.apply(mixed, N, B, wide);
      for (isize b = 0; b < B; ++b)
        each_vector<T>(wide + b * 2 * N, N, mixed + b * N, [&](vec<T> u, isize i, isize n) {
          return u * logistic<T>(load_some<T>(wide + b * 2 * N + N + i, n));
        });
    }
    T* sums = static_cast<T*>(step.y);
    for (isize b = 0; b < B; ++b) add(at<T>(step.x, 0, b), mixed + b * N, sums + b * N);
    if (!mlp_in_.exists) return;
    for (isize b = 0; b < B; ++b) mlp_norm_.apply(sums + b * N, normed + b * N);
    mlp_in_.apply(normed, N, B, wide);
    gelu(wide, B * block_.H);
    mlp_out_.apply(wide, block_.H, B, mixed);
    for (isize b = 0; b < B; ++b) add(sums + b * N, mixed + b * N, sums + b * N);
  }
  bool knows_gaps() const override { return inner_.knows_gaps(); }

 private:
  void add(const T* one, const T* other, T* to) const {
    each_vector<T>(one, block_.N, to, [&](vec<T> u, isize i, isize n) { return u + load_some<T>(other + i, n); });
  }

  ResidualBlock block_;
  const Stepper& inner_;
  RowNorm<T> norm_;
  RowMap<T> projection_, gate_;
  RowNorm<T> mlp_norm_;
  RowMap<T> mlp_in_, mlp_out_;
};

template <class T>
static void add(KernelsOf<T>& all) {
  all.feature_stepper = make<FeatureStepper<T>, FeatureMap>;
  all.block_stepper = make<BlockStepper<T>, ResidualBlock, Stepper>;
}
void add_residual(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
