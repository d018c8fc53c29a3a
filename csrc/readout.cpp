// The single steps of a linear head.
#include "readout.hpp"
#include "kernels.hpp"
#include "steppers.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// y = x V^T [+ d], with the weights of an Elman recurrence's outputs.
template <class T>
class HeadStepper final : public Stepper {
 public:
  explicit HeadStepper(const Elman& call)
      : Stepper(call.K * call.N, call.K),
        call_(call),
        packed_(Packed<T>::size(call.N, call.K)),
        d_(call_.d, call.K) {
    pack(packed_.get(), call.N, call.K, static_cast<const T*>(call.V.data), call.V.second,
         call.V.first);
  }
  void run(const Step& step, int) const override {
    Elman call = call_;
    call.steps.T = 1;
    call.steps.B = step.B;
    call.y = {step.next, 0, call.K};
    const Readout<T> readout{call, packed_.get(), {0, step.B}};
    readout.write(0, step.B, static_cast<const T*>(step.x.data), step.x.second);
  }

 private:
  Elman call_;
  Scratch<T> packed_;
  Copied<T> d_;
};

template <class T>
static void add(KernelsOf<T>& all) {
  all.head_stepper = make<HeadStepper<T>, Elman>;
}
void add_head(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
