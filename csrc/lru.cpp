// A layer of an LRU: whole sequences in both directions, and single steps.
#include "lru.hpp"

#include "recurrences.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class LruStepper final : public Stepper {
 public:
  explicit LruStepper(const Lru& layer)
      : Stepper((layer.N + layer.K) * (layer.M + layer.N), layer.K, layer.N),
        layer_(layer),
        maps_(layer, /*back=*/false, /*has_gaps=*/layer.is_complex()) {}

  void run(const Step& step, int threads) const override {
    Lru call = layer_;
    call.steps.T = 1;
    call.steps.B = step.B;
    call.x = step.x;
    call.h0 = {step.h, call.N, 1};
    call.last = {step.next, call.N, 1};
    call.y = {step.y, step.B * call.K, call.K};
    call.dt = {const_cast<void*>(step.dt), step.B, 1};  // which no kernel writes
    lru_forward(call, maps_, threads);
  }
  bool knows_gaps() const override { return layer_.is_complex(); }

 private:
  Lru layer_;
  LruMaps<T> maps_;
};

template <class T>
Stepper* lru_stepper(const Lru& layer) {
  return new LruStepper<T>(layer);
}

template void lru_forward<float>(const Lru&, int);
template void lru_forward<double>(const Lru&, int);
template void lru_backward<float>(const Lru&, const LruBack&, int);
template void lru_backward<double>(const Lru&, const LruBack&, int);
template Stepper* lru_stepper<float>(const Lru&);
template Stepper* lru_stepper<double>(const Lru&);

}  // namespace eigenrnn::EIGENRNN_ISA
