// The Python module: chooses the instruction set and calls the kernels without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "isa.hpp"
#include "pages.hpp"
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
using eigenrnn::Lstm;
using eigenrnn::LstmBack;
using eigenrnn::View;

using Pointer = std::tuple<std::uintptr_t, std::ptrdiff_t, std::ptrdiff_t>;
using Sizes = std::optional<std::vector<std::int64_t>>;

View view(const Pointer& p) {
  return {reinterpret_cast<void*>(std::get<0>(p)), std::get<1>(p), std::get<2>(p)};
}

using Shape = std::tuple<std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;
using Outputs = std::tuple<std::ptrdiff_t, std::ptrdiff_t>;  // K, stride of the output gradients

// Whether numbers have 64 bits; the kernels support only these two types.
bool is_double(const std::string& number) {
  if (number == "float64") return true;
  if (number == "float32") return false;
  throw nb::type_error(("expected float32 or float64, got " + number).c_str());
}

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
            double slope, const std::vector<Pointer>& views) {
  Elman call = recurrence<Elman>(shape, sizes, reverse, activation, slope);
  std::tie(call.K, call.apart) = outputs;
  View* to[] = {&call.x, &call.U,    &call.c, &call.W, &call.h0, &call.bias,
                &call.h, &call.moduli, &call.last, &call.V, &call.d, &call.y};
  fill(to, views);
  return call;
}

ElmanBack elman_back(const std::vector<Pointer>& views) {
  ElmanBack back;
  View* to[] = {&back.g,   &back.glast, &back.dx, &back.dUt, &back.dc, &back.dWt,
                &back.dh0, &back.dbias, &back.dy, &back.dV};
  fill(to, views);
  return back;
}

Gru gru(const Shape& shape, const Sizes& sizes, bool reverse, int activation, double slope,
        bool reset_after, bool update_keeps, const std::vector<Pointer>& views) {
  Gru call = recurrence<Gru>(shape, sizes, reverse, activation, slope);
  call.reset_after = reset_after;
  call.update_keeps = update_keeps;
  View* to[] = {&call.x,    &call.U,              &call.c, &call.W,    &call.h0,
                &call.bias, &call.recurrent_bias, &call.h, &call.last, &call.gates};
  fill(to, views);
  return call;
}

GruBack gru_back(const std::vector<Pointer>& views) {
  GruBack back;
  View* to[] = {&back.g,   &back.glast, &back.dx,    &back.dUt,            &back.dc,
                &back.dWt, &back.dh0,   &back.dbias, &back.drecurrent_bias};
  fill(to, views);
  return back;
}

Lstm lstm(const Shape& shape, const Sizes& sizes, bool reverse, const std::vector<Pointer>& views) {
  Lstm call = recurrence<Lstm>(shape, sizes, reverse);
  View* to[] = {&call.x, &call.U,    &call.c,         &call.W,    &call.h0, &call.cell0,
                &call.h, &call.last, &call.last_cell, &call.gates};
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
           bool reverse, int activation, double slope, const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Elman call = elman(shape, outputs, sizes, reverse, activation, slope, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.elman_forward_double : kernels.elman_forward_float)(call, threads);
        });
  m.def("elman_backward",
        [](const std::string& number, int threads, const Shape& shape, const Outputs& outputs, const Sizes& sizes,
           bool reverse, int activation, double slope, const std::vector<Pointer>& views,
           const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Elman call = elman(shape, outputs, sizes, reverse, activation, slope, views);
          const ElmanBack back = elman_back(gradients);
          const nb::gil_scoped_release free;
          (wide ? kernels.elman_backward_double : kernels.elman_backward_float)(call, back,
                                                                                 threads);
        });
  m.def("gru_forward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes, bool reverse,
           int activation, double slope, bool reset_after, bool update_keeps,
           const std::vector<Pointer>& views) {
          const bool wide = is_double(number);
          const Gru call =
              gru(shape, sizes, reverse, activation, slope, reset_after, update_keeps, views);
          const nb::gil_scoped_release free;
          (wide ? kernels.gru_forward_double : kernels.gru_forward_float)(call, threads);
        });
  m.def("gru_backward",
        [](const std::string& number, int threads, const Shape& shape, const Sizes& sizes, bool reverse,
           int activation, double slope, bool reset_after, bool update_keeps,
           const std::vector<Pointer>& views, const std::vector<Pointer>& gradients) {
          const bool wide = is_double(number);
          const Gru call =
              gru(shape, sizes, reverse, activation, slope, reset_after, update_keeps, views);
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
}
