// A layer of an LRU: whole sequences in both directions, and single steps.
#include "lru.hpp"

#include "kernels.hpp"
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
static void add(KernelsOf<T>& all) {
  all.lru = {lru_forward<T>, lru_backward<T>};
  all.lru_stepper = make<LruStepper<T>, Lru>;
}
void add_lru(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
