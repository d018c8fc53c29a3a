// Calls that differ in their tensors alone. Python makes a plan of a call that passed all checks; later calls
// with the same options then need one look at each tensor, whose address is taken in the same place.
#pragma once
#include <nanobind/nanobind.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace eigenrnn {

// The names of the members of a record as Python strings, in the order of `each`. They are made once, and never freed.
template <class Record>
const std::vector<PyObject*>& names_of() {
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> made;
    Record().each([&](const char* name, auto&) { made.push_back(PyUnicode_InternFromString(name)); });
    return made;
  }();
  return names;
}

// The view of a record by its interned name; null if there is none.
template <class Record>
View* find_view(Record& record, PyObject* name) {
  PyObject* const* known = names_of<Record>().data();
  View* found = nullptr;
  record.each([&](const char*, auto& member) {
    if constexpr (std::is_same_v<decltype(member), View&>)
      if (*known == name) found = &member;
    ++known;
  });
  return found;
}

// What is asked of a tensor. A failure leaves a Python error, and an invalid object.
class Tensor {
 public:
  explicit Tensor(PyObject* tensor) : tensor_(tensor) {}

  nanobind::object dtype() const { return get<DTYPE>(); }
  nanobind::object shape() const { return get<SHAPE>(); }
  bool requires_grad() const { return get<REQUIRES_GRAD>().is(nanobind::handle(Py_True)); }
  // Whether it is on the processor, of this dtype, and no view that only stands for negative numbers.
  bool is_usual(const nanobind::object& of_dtype) const {
    return dtype().is(of_dtype) && get<IS_CPU>().is(nanobind::handle(Py_True)) &&
           ask<IS_NEG>().is(nanobind::handle(Py_False));
  }
  // Read the address and the strides; false if there is no memory.
  bool read(View& view, std::ptrdiff_t& last_stride) const {
    const nanobind::object data = ask<DATA_PTR>();
    if (!data.is_valid()) return false;
    const nanobind::object strides = ask<STRIDE>();
    if (!strides.is_valid()) return false;
    const Py_ssize_t axes = PyTuple_GET_SIZE(strides.ptr());
    if (axes == 0) return false;
    const auto of = [&](Py_ssize_t axis) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(strides.ptr(), axis)); };
    view.data = PyLong_AsVoidPtr(data.ptr());
    view.first = axes > 1 ? of(0) : 0;
    view.second = axes > 1 ? of(1) : 0;
    last_stride = of(axes - 1);
    return view.data != nullptr;
  }

 private:
  static constexpr char DTYPE[] = "dtype", SHAPE[] = "shape", REQUIRES_GRAD[] = "requires_grad",
                        IS_CPU[] = "is_cpu", IS_NEG[] = "is_neg", DATA_PTR[] = "data_ptr", STRIDE[] = "stride";
  // The name as a Python string, made once and never freed.
  template <const char* name>
  static PyObject* interned() {
    static PyObject* const text = PyUnicode_InternFromString(name);
    return text;
  }
  template <const char* name>
  nanobind::object get() const {
    return nanobind::steal(PyObject_GetAttr(tensor_, interned<name>()));
  }
  template <const char* name>
  nanobind::object ask() const {
    return nanobind::steal(PyObject_CallMethodNoArgs(tensor_, interned<name>()));
  }

  PyObject* tensor_;
};

// A call of a plan, with its operands.
template <class Call>
struct PlannedCall {
  Call call;
  Passes<Call> passes;
  nanobind::object dtype;
  bool requires_grad;  // whether one of the operands does

  // Compute the results: tensors by name, new and ours. Those without elements are left out.
  void run(const nanobind::dict& results, int threads) const {
    Call complete = call;
    std::ptrdiff_t last_stride;
    for (const auto& [name, tensor] : results)
      if (!tensor.is_none()) Tensor(tensor.ptr()).read(*find_view(complete, name.ptr()), last_stride);
    if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
    const nanobind::gil_scoped_release free;
    passes.forward(complete, threads);
  }

  // Compute the gradients of operands, from what the forward pass kept and the gradients of its results.
  // False if one of these is not what the kernels take as it is.
  bool run_backward(const nanobind::dict& kept, const nanobind::dict& grads, const nanobind::dict& gradients,
                    int threads) const {
    Call complete = call;
    Call grad;
    std::ptrdiff_t last_stride = 1, y_stride = 1;
    for (const auto& [name, tensor] : kept) {
      const Tensor each(tensor.ptr());
      if (!each.is_usual(dtype) || !each.read(*find_view(complete, name.ptr()), last_stride) || last_stride != 1)
        return nothing();
    }
    for (const auto& [name, tensor] : grads) {
      if (tensor.is_none()) continue;
      const Tensor each(tensor.ptr());
      if (!each.is_usual(dtype) || !each.read(*find_view(grad, name.ptr()), last_stride)) return nothing();
      // all others have contiguous rows
      if (PyUnicode_CompareWithASCIIString(name.ptr(), "y") == 0) y_stride = last_stride;
    }
    grad.each([&](const char* name, auto& member) {
      if constexpr (std::is_same_v<decltype(member), std::ptrdiff_t&>)
        if (std::strcmp(name, "y_stride") == 0) member = y_stride;
    });
    for (const auto& [name, tensor] : gradients) {
      Tensor(tensor.ptr()).read(*find_view(grad, name.ptr()), last_stride);
    }
    if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
    const nanobind::gil_scoped_release free;
    passes.backward(complete, grad, threads);
    return true;
  }

 private:
  static bool nothing() {
    PyErr_Clear();
    return false;
  }
};

template <class Call>
class Plan {
 public:
  using Kernels = Passes<Call>;
  // An operand's place among all, its name, its axes, such as "T", "B" and "3N", and whether its rows may
  // have any strides.
  using Field = std::tuple<std::size_t, std::string, std::vector<std::string>, bool>;

  // `dtypes` are those of the two kernels.
  Plan(const Call& options, const std::vector<Field>& fields, nanobind::tuple dtypes,
       Kernels of_floats, Kernels of_doubles)
      : options_(options), dtypes_(std::move(dtypes)), kernels_{of_floats, of_doubles} {
    for (const auto& [place, name, axes, any_strides] : fields) {
      Operand operand{static_cast<Py_ssize_t>(place), PyUnicode_InternFromString(name.c_str()), {}, any_strides};
      for (const std::string& axis : axes) {
        const char* size = std::strchr(SIZES, axis.back());
        if (size == nullptr) throw std::invalid_argument("expected a size of TBMNK, got " + axis);
        operand.axes.push_back({static_cast<std::size_t>(size - SIZES), axis.size() == 1 ? 1 : std::stol(axis)});
      }
      operands_.push_back(std::move(operand));
    }
  }

  // Read the operands, whose classes are torch's own; the first is x. Nothing if one is not what the
  // kernels take as it is: the call then needs all checks, and may be an error.
  std::optional<PlannedCall<Call>> read(const nanobind::tuple& given) const {
    Sizes sizes{};
    PlannedCall<Call> planned{
        options_, {}, Tensor(PyTuple_GET_ITEM(given.ptr(), operands_.front().place)).dtype(), false};
    if (planned.dtype.is(dtypes_[0])) planned.passes = kernels_[0];
    if (planned.dtype.is(dtypes_[1])) planned.passes = kernels_[1];
    for (const Operand& operand : operands_) {
      const Tensor tensor(PyTuple_GET_ITEM(given.ptr(), operand.place));
      std::ptrdiff_t last_stride = 0;
      if (planned.passes.forward == nullptr || !tensor.is_usual(planned.dtype) ||
          !has_shape(tensor, operand, sizes) ||
          !tensor.read(*find_view(planned.call, operand.name), last_stride) ||
          (last_stride != 1 && !operand.any_strides)) {
        PyErr_Clear();  // of a tensor without an address, for instance
        return std::nullopt;
      }
      if (tensor.requires_grad()) planned.requires_grad = true;
    }
    planned.call.each([&](const char* name, auto& member) {
      if constexpr (std::is_same_v<decltype(member), std::ptrdiff_t&>)
        if (const char* size = std::strchr(SIZES, name[0]); name[1] == '\0' && size != nullptr)
          member = sizes[static_cast<std::size_t>(size - SIZES)];
    });
    return planned;
  }

 private:
  static constexpr const char* SIZES = "TBMNK";
  using Sizes = std::array<Py_ssize_t, 5>;  // zero: not known yet
  struct Axis {
    std::size_t size;
    Py_ssize_t times;
  };
  struct Operand {
    Py_ssize_t place;
    PyObject* name;  // interned, and never freed
    std::vector<Axis> axes;
    bool any_strides;
  };

  // Whether a shape agrees with the sizes so far; it gives those that are not known yet.
  bool has_shape(const Tensor& tensor, const Operand& operand, Sizes& sizes) const {
    const nanobind::object shape = tensor.shape();
    if (!shape.is_valid() || PyTuple_GET_SIZE(shape.ptr()) != static_cast<Py_ssize_t>(operand.axes.size()))
      return false;
    for (std::size_t i = 0; i < operand.axes.size(); ++i) {
      const Axis& axis = operand.axes[i];
      const Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape.ptr(), static_cast<Py_ssize_t>(i)));
      Py_ssize_t& size = sizes[axis.size];
      if (size == 0) size = length / axis.times;
      if (length != size * axis.times) return false;
    }
    return true;
  }

  Call options_;
  nanobind::tuple dtypes_;
  std::array<Kernels, 2> kernels_;
  std::vector<Operand> operands_;
};

}  // namespace eigenrnn
