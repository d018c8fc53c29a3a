// The Python module: chooses the instruction set and calls the kernels without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "isa.hpp"
#include "pages.hpp"
#include "stepper.hpp"
#include "team.hpp"

namespace nb = nanobind;

namespace {

using eigenrnn::Activation;
using eigenrnn::Elman;
using eigenrnn::ElmanBack;
using eigenrnn::Function;
using eigenrnn::Gru;
using eigenrnn::GruBack;
using eigenrnn::Kernels;
using eigenrnn::Linear;
using eigenrnn::LinearBack;
using eigenrnn::Lstm;
using eigenrnn::LstmBack;
using eigenrnn::NormZoneout;
using eigenrnn::Step;
using eigenrnn::Stepper;
using eigenrnn::View;

using Pointer = std::tuple<std::uintptr_t, std::ptrdiff_t, std::ptrdiff_t>;
using Sizes = std::optional<std::vector<std::int64_t>>;

View view(const Pointer& p) {
  return {reinterpret_cast<void*>(std::get<0>(p)), std::get<1>(p), std::get<2>(p)};
}

using Shape = std::tuple<std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;
using Three = std::tuple<std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;  // T, B, N
using Outputs = std::tuple<std::ptrdiff_t, std::ptrdiff_t>;  // K, stride of the output gradients

// Whether numbers have 64 bits; the kernels support only these two types.
bool is_double(const std::string& number) {
  if (number == "float64") return true;
  if (number == "float32") return false;
  throw nb::type_error(("expected float32 or float64, got " + number).c_str());
}

// All sequences have T steps. A named object: GCC 12 with sanitizers takes the vector inside a
// temporary `std::nullopt` for uninitialised.
const Sizes all_steps;

// The options of all recurrences; the shape is T, B, N, M.
template <class Call>
Call recurrence(const Shape& shape, const Sizes& sizes, bool reverse) {
  Call call;
  std::tie(call.steps.T, call.steps.B, call.N, call.M) = shape;
  call.steps.sizes = sizes.has_value() ? sizes->data() : nullptr;
  call.steps.reverse = reverse;
  return call;
}

// The options of those with a choice of nonlinearity.
template <class Call>
Call recurrence(const Shape& shape, const Sizes& sizes, bool reverse, int activation,
                double slope) {
  Call call = recurrence<Call>(shape, sizes, reverse);
  call.activation = static_cast<Activation>(activation);
  call.slope = slope;
  return call;
}

template <std::size_t count>
void fill(View* (&to)[count], const std::vector<Pointer>& views) {
  for (std::size_t i = 0; i < count; ++i) *to[i] = view(views.at(i));
}

Elman elman(const Shape& shape, const Outputs& outputs, const Sizes& sizes, bool reverse, int activation,
            double slope, double rate, const std::vector<Pointer>& views) {
  Elman call = recurrence<Elman>(shape, sizes, reverse, activation, slope);
  std::tie(call.K, call.apart) = outputs;
  NormZoneout& norm_zoneout = call.norm_zoneout;
  norm_zoneout.rate = rate;
  View* to[] = {&call.x,        &call.U,       &call.c,       &call.W,
                &call.h0,       &call.bias,    &norm_zoneout.gain, &norm_zoneout.shift,
                &norm_zoneout.mask,  &call.h,       &call.moduli,  &call.saved,
                &call.last,     &call.V,       &call.d,       &call.y};
  fill(to, views);
  return call;
}

ElmanBack elman_back(const std::vector<Pointer>& views) {
  ElmanBack back;
  View* to[] = {&back.g,   &back.glast, &back.dx,    &back.dUt,    &back.dc, &back.dWt,
                &back.dh0, &back.dbias, &back.dgain, &back.dshift, &back.dy, &back.dV};
  fill(to, views);
  return back;
}

Gru gru(const Shape& shape, const Sizes& sizes, bool reverse, int activation, double slope,
        bool reset_after, bool update_keeps, double rate, const std::vector<Pointer>& views) {
  Gru call = recurrence<Gru>(shape, sizes, reverse, activation, slope);
  call.reset_after = reset_after;
  call.update_keeps = update_keeps;
  NormZoneout& norm_zoneout = call.norm_zoneout;
  norm_zoneout.rate = rate;
  View* to[] = {&call.x,    &call.U,              &call.c,       &call.W,        &call.h0,
                &call.bias, &call.recurrent_bias, &norm_zoneout.gain, &norm_zoneout.shift, &norm_zoneout.mask,
                &call.h,    &call.last,           &call.saved};
  fill(to, views);
  return call;
}

GruBack gru_back(const std::vector<Pointer>& views) {
  GruBack back;
  View* to[] = {&back.g,   &back.glast, &back.dx,    &back.dUt,            &back.dc,    &back.dWt,
                &back.dh0, &back.dbias, &back.drecurrent_bias, &back.dgain, &back.dshift};
  fill(to, views);
  return back;
}

Lstm lstm(const Shape& shape, const Sizes& sizes, bool reverse, const std::vector<Pointer>& views) {
  Lstm call = recurrence<Lstm>(shape, sizes, reverse);
  View* to[] = {&call.x, &call.U,    &call.c,         &call.W,    &call.h0, &call.cell0,
                &call.h, &call.last, &call.last_cell, &call.saved};
  fill(to, views);
  return call;
}

LstmBack lstm_back(const std::vector<Pointer>& views) {
  LstmBack back;
  View* to[] = {&back.g,  &back.glast, &back.glast_cell, &back.dx,    &back.dUt,
                &back.dc, &back.dWt,   &back.dh0,        &back.dcell0};
  fill(to, views);
  return back;
}

// Stacked recurrences with packed weights and, optionally, a linear map of the last states. It also
// remembers the tensors that were packed, to notice a change of any of them.
class StepperStack {
 public:
  // A weight is noted as the dictionary that holds it, its key, the tensor and its version before
  // it was packed: a write to it by another thread while it is packed changes the version.
  using Note = std::tuple<nb::dict, nb::str, nb::object, std::int64_t>;

  StepperStack(std::vector<std::shared_ptr<Stepper>> layers, std::shared_ptr<Stepper> head, bool wide,
               std::vector<Note> weights, std::vector<nb::dict> empty)
      : layers_(std::move(layers)), head_(std::move(head)), size_(wide ? 8 : 4), empty_(std::move(empty)) {
    if (layers_.empty()) throw std::invalid_argument("expected at least one layer, got none");
    for (const auto& layer : layers_) products_ += layer->products;
    if (head_ != nullptr) products_ += head_->products;
    for (auto& [holder, name, tensor, version] : weights) {
      const auto data = nb::cast<std::uintptr_t>(tensor.attr(data_ptr_)());
      weights_.push_back({std::move(holder), std::move(name), std::move(tensor), version, data});
    }
  }

  // The multiply-adds of a step of one sequence.
  std::ptrdiff_t products() const { return products_; }

  // Whether each weight is still the same tensor, at the same address, and was not written to.
  bool unchanged() const {
    for (const nb::dict& dict : empty_)
      if (PyDict_Size(dict.ptr()) != 0) return false;
    for (const Weight& weight : weights_) {
      PyObject* now = PyDict_GetItemWithError(weight.holder.ptr(), weight.name.ptr());
      if (now != weight.tensor.ptr()) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        return false;
      }
      const nb::object version = nb::steal(PyObject_GetAttr(now, version_.ptr()));
      const nb::object data = nb::steal(PyObject_CallMethodNoArgs(now, data_ptr_.ptr()));
      if (!version.is_valid() || !data.is_valid()) throw nb::python_error();
      if (PyLong_AsLongLong(version.ptr()) != weight.version ||
          PyLong_AsUnsignedLongLong(data.ptr()) != weight.data)
        return false;
    }
    return true;
  }

  // One step of B sequences, whose inputs are `stride` numbers apart, or false if a weight changed.
  // The states of all layers are contiguous, (L, B, N); y gets the outputs.
  bool step(std::ptrdiff_t B, std::uintptr_t x, std::ptrdiff_t stride, std::uintptr_t h,
            std::uintptr_t cell, std::uintptr_t next, std::uintptr_t next_cell, std::uintptr_t y,
            int threads) const {
    if (!unchanged()) return false;
    // less work than this ends before another thread could use the interpreter
    constexpr std::ptrdiff_t LONG = 1 << 20;
    std::optional<nb::gil_scoped_release> free;
    if (B * products_ > LONG) free.emplace();
    Step step{B, {reinterpret_cast<void*>(x), 0, stride}};
    for (const auto& layer : layers_) {
      step.h = reinterpret_cast<void*>(h);
      step.cell = reinterpret_cast<void*>(cell);
      step.next = reinterpret_cast<void*>(next);
      step.next_cell = reinterpret_cast<void*>(next_cell);
      layer->run(step, threads);
      step.x = {step.next, 0, layer->columns};
      const auto bytes = static_cast<std::uintptr_t>(B * layer->columns) * size_;
      h += bytes, next += bytes;
      if (cell != 0) cell += bytes, next_cell += bytes;
    }
    if (head_ == nullptr) {
      std::memcpy(reinterpret_cast<void*>(y), step.x.data,
                  static_cast<std::size_t>(B * step.x.second) * size_);
    } else {
      step.next = reinterpret_cast<void*>(y);
      head_->run(step, threads);
    }
    return true;
  }

 private:
  struct Weight {
    nb::dict holder;
    nb::str name;
    nb::object tensor;
    std::int64_t version;
    std::uintptr_t data;
  };

  std::vector<std::shared_ptr<Stepper>> layers_;
  std::shared_ptr<Stepper> head_;
  std::size_t size_;
  std::ptrdiff_t products_ = 0;
  std::vector<Weight> weights_;
  std::vector<nb::dict> empty_;
  nb::str version_{"_version"}, data_ptr_{"data_ptr"};
};

Linear linear(const Three& shape, const Sizes& sizes, bool reverse, bool paired, bool gated,
              const std::vector<Pointer>& views) {
  Linear call;
  std::tie(call.steps.T, call.steps.B, call.N) = shape;
  call.steps.sizes = sizes.has_value() ? sizes->data() : nullptr;
  call.steps.reverse = reverse;
  call.paired = paired;
  call.gated = gated;
  View* to[] = {&call.x, &call.decay, &call.h0, &call.h, &call.last};
  fill(to, views);
  return call;
}

LinearBack linear_back(const std::vector<Pointer>& views) {
  LinearBack back;
  View* to[] = {&back.g, &back.glast, &back.dx, &back.ddecay, &back.dh0};
  fill(to, views);
  return back;
}

Function named(const std::string& name) {
  if (name == "tanh") return Function::tanh;
  if (name == "logistic") return Function::logistic;
  if (name == "elu") return Function::elu;
  throw std::invalid_argument("expected tanh, logistic or elu, got " + name);
}

}  // namespace

NB_MODULE(_cpu, m) {
  m.doc() = "Compiled recurrences; eigenrnn.ops checks what they are given.";
  static const Kernels& kernels = eigenrnn::choose_kernels(std::getenv("EIGENRNN_ISA"));
  eigenrnn::watch_forks();
  m.attr("isa") = kernels.isa;
  m.attr("vector_bytes") = kernels.vector_bytes;
  m.attr("isas") = nb::cast(eigenrnn::possible_isas());
  m.def("prefer_large_pages", [](std::uintptr_t data, std::size_t bytes) {
    eigenrnn::prefer_large_pages(reinterpret_cast<void*>(data), bytes);
  });
  m.def("evaluate", [](const std::string& name, const std::string& number, std::uintptr_t from, std::uintptr_t to,
                       std::ptrdiff_t count) {
    const Function function = named(name);
    const bool wide = is_double(number);
    const nb::gil_scoped_release free;
    if (wide)
      kernels.evaluate_double(function, reinterpret_cast<const double*>(from),
                              reinterpret_cast<double*>(to), count);
    else
      kernels.evaluate_float(function, reinterpret_cast<const float*>(from),
                             reinterpret_cast<float*>(to), count);
  });
  m.def("elman_forward",
        [](const std::string& number, int threads, const Shape& shape, const Outputs& outputs, const Sizes& sizes,
           bool reverse, int activation, double slope, double rate,
           const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Elman call = elman(shape, outputs, sizes, reverse, activation, slope, rate, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.elman_forward_double : kernels.elman_forward_float)(call, threads);
        });
  m.def("elman_backward",
        [](const std::string& number, int threads, const Shape& shape, const Outputs& outputs, const Sizes& sizes,
           bool reverse, int activation, double slope, double rate,
           const std::vector<Pointer>& views, const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Elman call = elman(shape, outputs, sizes, reverse, activation, slope, rate, views);
          const ElmanBack back = elman_back(gradients);
          const nb::gil_scoped_release free;
          (wide ? kernels.elman_backward_double : kernels.elman_backward_float)(call, back,
                                                                                 threads);
        });
  m.def("gru_forward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes, bool reverse,
           int activation, double slope, bool reset_after, bool update_keeps,
           double rate, const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Gru call =
              gru(shape, sizes, reverse, activation, slope, reset_after, update_keeps, rate, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.gru_forward_double : kernels.gru_forward_float)(call, threads);
        });
  m.def("gru_backward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes, bool reverse,
           int activation, double slope, bool reset_after, bool update_keeps,
           double rate, const std::vector<Pointer>& views, const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Gru call =
              gru(shape, sizes, reverse, activation, slope, reset_after, update_keeps, rate, views);
          const GruBack back = gru_back(gradients);
          const nb::gil_scoped_release free;
          (wide ? kernels.gru_backward_double : kernels.gru_backward_float)(call, back, threads);
        });
  m.def("lstm_forward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes,
           bool reverse, const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Lstm call = lstm(shape, sizes, reverse, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.lstm_forward_double : kernels.lstm_forward_float)(call, threads);
        });
  m.def("lstm_backward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes,
           bool reverse, const std::vector<Pointer>& views, const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Lstm call = lstm(shape, sizes, reverse, views);
          const LstmBack back = lstm_back(gradients);
          const nb::gil_scoped_release free;
          (wide ? kernels.lstm_backward_double : kernels.lstm_backward_float)(call, back, threads);
        });
  nb::class_<Stepper>(m, "Stepper");
  m.def("elman_stepper", [](const std::string& number, const Shape& shape, int activation,
                            double slope, const std::vector<Pointer>& views) {
    Elman call = recurrence<Elman>(shape, all_steps, false, activation, slope);
    View* to[] = {&call.U, &call.c, &call.W, &call.bias};
    fill(to, views);
    return std::shared_ptr<Stepper>(
        (is_double(number) ? kernels.elman_stepper_double : kernels.elman_stepper_float)(call));
  });
  m.def("gru_stepper",
        [](const std::string& number, const Shape& shape, int activation, double slope,
           bool reset_after, bool update_keeps, const std::vector<Pointer>& views) {
          Gru call = recurrence<Gru>(shape, all_steps, false, activation, slope);
          call.reset_after = reset_after;
          call.update_keeps = update_keeps;
          View* to[] = {&call.U, &call.c, &call.W, &call.bias, &call.recurrent_bias};
          fill(to, views);
          return std::shared_ptr<Stepper>(
              (is_double(number) ? kernels.gru_stepper_double : kernels.gru_stepper_float)(call));
        });
  m.def("lstm_stepper",
        [](const std::string& number, const Shape& shape, const std::vector<Pointer>& views) {
          Lstm call = recurrence<Lstm>(shape, all_steps, false);
          View* to[] = {&call.U, &call.c, &call.W};
          fill(to, views);
          return std::shared_ptr<Stepper>(
              (is_double(number) ? kernels.lstm_stepper_double : kernels.lstm_stepper_float)(call));
        });
  m.def("linear_stepper", [](const std::string& number, std::ptrdiff_t inputs, std::ptrdiff_t outputs,
                             const std::vector<Pointer>& views) {
    Elman call;
    call.N = inputs, call.K = outputs;
    View* to[] = {&call.V, &call.d};
    fill(to, views);
    return std::shared_ptr<Stepper>(
        (is_double(number) ? kernels.linear_stepper_double : kernels.linear_stepper_float)(call));
  });
  nb::class_<StepperStack>(m, "StepperStack")
      .def(nb::init<std::vector<std::shared_ptr<Stepper>>, std::shared_ptr<Stepper>, bool,
                    std::vector<StepperStack::Note>, std::vector<nb::dict>>(),
           nb::arg("layers"), nb::arg("head").none(), nb::arg("wide"), nb::arg("weights"),
           nb::arg("empty"))
      .def_prop_ro("products", &StepperStack::products)
      .def("unchanged", &StepperStack::unchanged)
      .def("step", &StepperStack::step);
  m.def("linear_forward",
        [](const std::string& number, int threads, const Three& shape, const Sizes& sizes,
           bool reverse, bool paired, bool gated, const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Linear call = linear(shape, sizes, reverse, paired, gated, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.linear_forward_double : kernels.linear_forward_float)(call, threads);
        });
  m.def("linear_backward",
        [](const std::string& number, int threads, const Three& shape, const Sizes& sizes,
           bool reverse, bool paired, bool gated, const std::vector<Pointer>& views,
           const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Linear call = linear(shape, sizes, reverse, paired, gated, views);
          const LinearBack back = linear_back(gradients);
          const nb::gil_scoped_release free;
          (wide ? kernels.linear_backward_double : kernels.linear_backward_float)(call, back,
                                                                                   threads);
        });
}
