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

#include "members.hpp"

namespace eigenrnn {

// The views of a struct by their names as Python strings. They are made once, and never freed.
template <class Call>
class Views {
 public:
  static View& named(Call& call, PyObject* name) {
    for (const auto& [known, offset] : offsets())
      if (name == known || PyUnicode_Compare(name, known) == 0) return at(call, offset);
    throw std::invalid_argument("expected the name of a tensor that the kernel has");
  }

 private:
  using Offsets = std::vector<std::pair<PyObject*, std::ptrdiff_t>>;
  static View& at(Call& call, std::ptrdiff_t offset) {
    return *reinterpret_cast<View*>(reinterpret_cast<char*>(&call) + offset);
  }
  static const Offsets& offsets() {
    static const Offsets all = [] {
      Offsets found;
      Call call;
      each_member(call, [&](const char* name, auto& member) {
        if constexpr (std::is_same_v<decltype(member), View&>)
          found.emplace_back(PyUnicode_InternFromString(name),
                             reinterpret_cast<char*>(&member) - reinterpret_cast<char*>(&call));
      });
      return found;
    }();
    return all;
  }
};

// What is asked of a tensor. A failure leaves a Python error, and an invalid object.
class Tensor {
 public:
  explicit Tensor(PyObject* tensor) : tensor_(tensor) {}

  nanobind::object get(nanobind::handle name) const {
    return nanobind::steal(PyObject_GetAttr(tensor_, name.ptr()));
  }
  nanobind::object ask(nanobind::handle name) const {
    return nanobind::steal(PyObject_CallMethodNoArgs(tensor_, name.ptr()));
  }
  // Read the address and the strides; false if there is no memory.
  bool read(View& view, std::ptrdiff_t& last_stride) const {
    static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
    static PyObject* const stride = PyUnicode_InternFromString("stride");
    const nanobind::object data = ask(data_ptr);
    if (!data.is_valid()) return false;
    const nanobind::object strides = ask(stride);
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
  PyObject* tensor_;
};

// A call of a plan, with its operands.
template <class Call>
struct PlannedCall {
  Call call;
  void (*kernel)(const Call&, int);
  bool requires_grad;  // whether one of the operands does

  // Compute the results: tensors by name, whose elements nobody has checked but who made them. Those
  // without elements are left out.
  void run(const nanobind::dict& results, int threads) const {
    Call complete = call;
    for (const auto& [name, tensor] : results) {
      std::ptrdiff_t last_stride;
      if (!tensor.is_none()) Tensor(tensor.ptr()).read(Views<Call>::named(complete, name.ptr()), last_stride);
    }
    if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
    const nanobind::gil_scoped_release free;
    kernel(complete, threads);
  }
};

template <class Call>
class Plan {
 public:
  using Kernel = void (*)(const Call&, int);
  // An operand's place among all, its name, its axes, such as "T", "B" and "3N", and whether its rows may
  // have any strides.
  using Field = std::tuple<std::size_t, std::string, std::vector<std::string>, bool>;

  // `dtypes` are those of the two kernels.
  Plan(const Call& options, const std::vector<Field>& fields, nanobind::tuple dtypes, Kernel of_floats,
       Kernel of_doubles)
      : options_(options), dtypes_(std::move(dtypes)), kernels_{of_floats, of_doubles} {
    for (const auto& [place, name, axes, any_strides] : fields) {
      Operand operand{static_cast<Py_ssize_t>(place), nanobind::str(name.c_str()), {}, any_strides};
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
    PlannedCall<Call> planned{options_, nullptr, false};
    Sizes sizes{};
    const nanobind::object dtype = Tensor(PyTuple_GET_ITEM(given.ptr(), operands_.front().place)).get(dtype_);
    if (dtype.is(dtypes_[0])) planned.kernel = kernels_[0];
    if (dtype.is(dtypes_[1])) planned.kernel = kernels_[1];
    if (planned.kernel == nullptr) return std::nullopt;
    for (const Operand& operand : operands_) {
      const Tensor tensor(PyTuple_GET_ITEM(given.ptr(), operand.place));
      const bool usual = tensor.get(dtype_).is(dtype) && tensor.get(is_cpu_).is(yes()) &&
                         tensor.ask(is_neg_).is(no()) && has_shape(tensor, operand, sizes);
      std::ptrdiff_t last_stride = 0;
      if (!usual || !tensor.read(Views<Call>::named(planned.call, operand.name.ptr()), last_stride) ||
          (last_stride != 1 && !operand.any_strides)) {
        PyErr_Clear();  // of a tensor without an address, for instance
        return std::nullopt;
      }
      if (tensor.get(requires_grad_).is(yes())) planned.requires_grad = true;
    }
    each_member(planned.call, [&](const char* name, auto& member) {
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
    nanobind::str name;
    std::vector<Axis> axes;
    bool any_strides;
  };
  static nanobind::handle yes() { return Py_True; }
  static nanobind::handle no() { return Py_False; }

  // Whether a shape agrees with the sizes so far; it gives those that are not known yet.
  bool has_shape(const Tensor& tensor, const Operand& operand, Sizes& sizes) const {
    const nanobind::object shape = tensor.get(shape_);
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
  std::array<Kernel, 2> kernels_;
  std::vector<Operand> operands_;
  nanobind::str dtype_{"dtype"}, is_cpu_{"is_cpu"}, is_neg_{"is_neg"}, shape_{"shape"},
      requires_grad_{"requires_grad"};
};

}  // namespace eigenrnn
