// Single functions over an array.
#include "evaluate.hpp"
#include "kernels.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
static void add(KernelsOf<T>& all) {
  all.evaluate = evaluate<T>;
}
void add_evaluate(Kernels& all) { add(all.of_floats), add(all.of_doubles); }

}  // namespace eigenrnn::EIGENRNN_ISA
