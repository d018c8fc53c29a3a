// The forward pass and the single steps of the gated recurrence.
#include "gru.hpp"
#include "kernels.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
class GruStepper final : public Stepper {
 public:
  explicit GruStepper(const Gru& call)
      : Stepper(3 * call.N * (call.N + call.M), call.N),
        call_(call),
        packed_(gru_pack<T>(call)),
        c_(call_.c, 3 * call.N),
        bias_(call_.bias, call.N),
        recurrent_bias_(call_.recurrent_bias, call.N),
        gain_(call_.norm_zoneout.gain, 3 * call.N),
        shift_(call_.norm_zoneout.shift, 3 * call.N) {}
  void run(const Step& step, int threads) const override {
    gru_forward(one_step(call_, step), packed_.panels, threads);
  }

 private:
  Gru call_;
  GatePack<T, 3> packed_;
  Copied<T> c_, bias_, recurrent_bias_, gain_, shift_;
};

template <class T>
static void add(KernelsOf<T>& all) {
  all.gru.forward = gru_forward<T>;
  all.gru_stepper = make<GruStepper<T>, Gru>;
}
void add_gru_forward(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
