// The Python module: chooses the instruction set and calls the kernels without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cayley.hpp"
#include "disc.hpp"
#include "isa.hpp"
#include "pages.hpp"
#include "plan.hpp"
#include "stepper.hpp"
#include "subnormal.hpp"
#include "team.hpp"

namespace nb = nanobind;

namespace {

using namespace eigenrnn;

// A nonlinearity by the name that Python uses.
constexpr std::pair<const char*, Activation> ACTIVATIONS[] = {
    {"identity", Activation::identity},     {"tanh", Activation::tanh},
    {"relu", Activation::relu},             {"elu", Activation::elu},
    {"leaky_relu", Activation::leaky_relu}, {"softplus", Activation::softplus},
    {"retanh", Activation::retanh},         {"modrelu", Activation::modrelu},
    {"modrelu_paired", Activation::modrelu_paired}};

constexpr std::pair<const char*, Products> PRODUCTS[] = {
    {"float32", Products::float32}, {"split", Products::split}, {"bfloat16", Products::bfloat16}};

// Whether numbers have 64 bits; the kernels support only these two types.
bool is_double(const std::string& number) {
  if (number == "float64") return true;
  if (number == "float32") return false;
  throw nb::type_error(("expected float32 or float64, got " + number).c_str());
}

// Arguments of a kernel, read from a dictionary with the names of their members. A member that the
// dictionary lacks keeps its default.
template <class Arguments>
class Read {
 public:
  explicit Read(const nb::dict& given) {
    const std::vector<PyObject*>& keys = names_of<Arguments>();
    std::size_t found = 0, next = 0;
    arguments_.each([&](const char*, auto& member) {
      PyObject* value = PyDict_GetItemWithError(given.ptr(), keys[next++]);
      if (value == nullptr) return;
      set(nb::handle(value), member);
      ++found;
    });
    if (found != nb::len(given)) refuse_unknown(given);
  }
  const Arguments& operator*() const { return arguments_; }

 private:
  template <class Number>
  static void set(nb::handle value, Number& member) {
    member = nb::cast<Number>(value);
  }
  static void set(nb::handle value, View& member) {
    const auto [data, first, second, is_16_bit] =
        nb::cast<std::tuple<std::uintptr_t, std::ptrdiff_t, std::ptrdiff_t, bool>>(value);
    member = {reinterpret_cast<void*>(data), first, second, is_16_bit};
  }
  static void set(nb::handle value, Activation& member) { member = named(value, ACTIVATIONS, "a nonlinearity"); }
  static void set(nb::handle value, Products& member) { member = named(value, PRODUCTS, "products"); }
  template <class Value, std::size_t count>
  static Value named(nb::handle value, const std::pair<const char*, Value> (&all)[count], const char* what) {
    const auto wanted = nb::cast<std::string>(value);
    for (const auto& [name, each] : all)
      if (wanted == name) return each;
    throw std::invalid_argument(std::string("expected ") + what + " of the kernels, got " + wanted);
  }
  // The numbers of running sequences; they live as long as the arguments.
  void set(nb::handle value, const std::int64_t*& member) {
    batch_sizes_ = nb::cast<std::vector<std::int64_t>>(value);
    member = batch_sizes_.data();
  }
  static void refuse_unknown(const nb::dict& given) {
    const nb::list known = names();
    for (const auto& [key, value] : given)
      if (PySequence_Contains(known.ptr(), key.ptr()) == 0)
        throw std::invalid_argument("expected arguments that the kernel has, got " + nb::cast<std::string>(key));
  }

 public:
  static nb::list names() {
    nb::list found;
    for (PyObject* name : names_of<Arguments>()) found.append(nb::handle(name));
    return found;
  }

 private:
  Arguments arguments_;
  std::vector<std::int64_t> batch_sizes_;
};

// What a call saves of each unit for the backward pass, in its order in memory.
template <class Call>
std::vector<std::string> saved_parts(const nb::dict& given) {
  const Read<Call> call(given);
  std::vector<std::string> names(static_cast<std::size_t>((*call).parts()));
  (*call).each_saved_part([&](const char* name, std::ptrdiff_t part) {
    names.at(static_cast<std::size_t>(part)) = name;
  });
  return names;
}

// The kernels of a recurrence as functions of the module, and the names of their arguments.
template <class Call>
void define_recurrence(nb::module_& m, const std::string& name, Passes<Call> of_floats, Passes<Call> of_doubles) {
  m.def((name + "_forward").c_str(), [=](const std::string& number, int threads, const nb::dict& given) {
    const auto kernels = is_double(number) ? of_doubles : of_floats;
    const Read<Call> call(given);
    const nb::gil_scoped_release free;
    kernels.forward(*call, threads);
  });
  m.def((name + "_backward").c_str(), [=](const std::string& number, int threads, const nb::dict& given,
                                          const nb::dict& gradients) {
    const auto kernels = is_double(number) ? of_doubles : of_floats;
    const Read<Call> call(given);
    const Read<Call> grad(gradients);
    const nb::gil_scoped_release free;
    kernels.backward(*call, *grad, threads);
  });
  m.attr("members")[name.c_str()] = Read<Call>::names();
}
template <class Call>
void define_plan(nb::module_& m, const std::string& name, Passes<Call> of_floats, Passes<Call> of_doubles) {
  using Planned = PlannedCall<Call>;
  nb::class_<Planned>(m, (name + "_call").c_str())
      .def_ro("requires_grad", &Planned::requires_grad)
      .def("run", &Planned::run)
      .def("run_backward", &Planned::run_backward);
  nb::class_<Plan<Call>>(m, (name + "_plan").c_str())
      .def("__init__",
           [=](Plan<Call>* plan, const nb::dict& options,
               const std::vector<typename Plan<Call>::Field>& fields, const nb::tuple& dtypes) {
             new (plan) Plan<Call>(*Read<Call>(options), fields, dtypes, of_floats, of_doubles);
           })
      .def("read", &Plan<Call>::read);
}
template <class Call>
void define_stepper(nb::module_& m, const std::string& name, Stepper* (*of_floats)(const Call&),
                    Stepper* (*of_doubles)(const Call&)) {
  m.def((name + "_stepper").c_str(), [=](const std::string& number, const nb::dict& given) {
    const Read<Call> call(given);
    return std::shared_ptr<Stepper>((is_double(number) ? of_doubles : of_floats)(*call));
  });
  m.attr("members")[(name + "_stepper").c_str()] = Read<Call>::names();
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

  bool knows_gaps() const {
    return std::all_of(layers_.begin(), layers_.end(), [](const auto& layer) { return layer->knows_gaps(); });
  }

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
  // The states of all layers are contiguous, (L, B, state size), and so are the cells; y gets the outputs.
  // dt is the address of the gaps in time, (B,), which each layer must know, or zero.
  bool step(std::ptrdiff_t B, std::uintptr_t x, std::ptrdiff_t stride, std::uintptr_t h,
            std::uintptr_t cell, std::uintptr_t next, std::uintptr_t next_cell, std::uintptr_t y,
            std::uintptr_t dt, int threads) const {
    if (!unchanged()) return false;
    const WithoutSubnormals guard;
    if (dt != 0) size_ == 8 ? check_gaps<double>(B, dt) : check_gaps<float>(B, dt);
    // less work than this ends before another thread could use the interpreter
    constexpr std::ptrdiff_t LONG = 1 << 20;
    std::optional<nb::gil_scoped_release> free;
    if (B * products_ > LONG) free.emplace();
    Step step{B, {reinterpret_cast<void*>(x), 0, stride}};
    step.dt = reinterpret_cast<const void*>(dt);
    std::vector<std::unique_ptr<std::byte[]>> between;  // outputs that the next layer reads
    for (const auto& layer : layers_) {
      step.h = reinterpret_cast<void*>(h);
      step.cell = reinterpret_cast<void*>(cell);
      step.next = reinterpret_cast<void*>(next);
      step.next_cell = reinterpret_cast<void*>(next_cell);
      if (layer->outputs_states) {
        step.y = step.next;
      } else if (layer == layers_.back() && head_ == nullptr) {
        step.y = reinterpret_cast<void*>(y);
      } else {
        const auto outputs = static_cast<std::size_t>(B * layer->columns) * size_;
        between.emplace_back(new std::byte[outputs]);
        step.y = between.back().get();
      }
      layer->run(step, threads);
      step.x = {step.y, 0, layer->columns};
      const auto bytes = static_cast<std::uintptr_t>(B * layer->state_size) * size_;
      h += bytes, next += bytes;
      if (cell != 0) cell += bytes, next_cell += bytes;
    }
    if (step.y == reinterpret_cast<void*>(y)) return true;
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
  template <class T>
  static void check_gaps(std::ptrdiff_t B, std::uintptr_t dt) {
    const T* gaps = reinterpret_cast<const T*>(dt);
    for (std::ptrdiff_t b = 0; b < B; ++b)
      if (!(gaps[b] >= 0) || std::isinf(gaps[b]))
        throw std::invalid_argument(std::string("expected finite gaps dt >= 0, got ") +
                                    nb::repr(nb::float_(gaps[b])).c_str());
  }

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

Function named(const std::string& name) {
  if (name == "tanh") return Function::tanh;
  if (name == "logistic") return Function::logistic;
  if (name == "elu") return Function::elu;
  if (name == "softplus") return Function::softplus;
  throw std::invalid_argument("expected tanh, logistic, elu or softplus, got " + name);
}

}  // namespace

NB_MODULE(_cpu, m) {
  m.doc() = "Compiled recurrences; eigenrnn.ops checks what they are given.";
  nb::set_leak_warnings(false);  // plans live as long as torch's operators, which are never freed
  const Isa isa = choose_isa(std::getenv("EIGENRNN_ISA"));
  if (isa.use_tiles != nullptr) isa.use_tiles();
  const Kernels kernels = isa.kernels();
  const auto& floats = kernels.of_floats;
  const auto& doubles = kernels.of_doubles;
  eigenrnn::watch_forks();
  m.def("find_threads", eigenrnn::find_threads);
  m.attr("isa") = isa.name;
  m.attr("has_tiles") = isa.use_tiles != nullptr;
  m.attr("least_units_of_tiles") = eigenrnn::LEAST_UNITS_OF_TILES;
  m.attr("vector_bytes") = kernels.vector_bytes;
  m.attr("isas") = nb::cast(eigenrnn::possible_isas());
  m.def("prefer_large_pages", [](std::uintptr_t data, std::size_t bytes) {
    eigenrnn::prefer_large_pages(reinterpret_cast<void*>(data), bytes);
  });
  m.def("evaluate", [floats, doubles](const std::string& name, const std::string& number, std::uintptr_t from,
                                      std::uintptr_t to, std::ptrdiff_t count) {
    const Function function = named(name);
    const bool wide = is_double(number);
    const nb::gil_scoped_release free;
    if (wide) doubles.evaluate(function, reinterpret_cast<const double*>(from), reinterpret_cast<double*>(to), count);
    else floats.evaluate(function, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), count);
  });
  m.attr("most_cayley_rows") = eigenrnn::MOST_CAYLEY_ROWS;
  m.def("scaled_cayley", [](bool wide, std::ptrdiff_t n, double most, std::uintptr_t raw, std::uintptr_t signs,
                            std::uintptr_t W) {
    const auto run = [&](auto number) {
      using T = decltype(number);
      return eigenrnn::scaled_cayley<T>(n, most, reinterpret_cast<const T*>(raw), reinterpret_cast<const T*>(signs),
                                        reinterpret_cast<T*>(W));
    };
    return wide ? run(double{}) : run(float{});
  });
  m.def("scaled_cayley_backward", [](bool wide, std::ptrdiff_t n, std::uintptr_t W, std::uintptr_t signs,
                                     std::uintptr_t G, std::ptrdiff_t row, std::ptrdiff_t column,
                                     std::uintptr_t draw) {
    const auto run = [&](auto number) {
      using T = decltype(number);
      eigenrnn::scaled_cayley_backward<T>(n, reinterpret_cast<const T*>(W), reinterpret_cast<const T*>(signs),
                                          reinterpret_cast<const T*>(G), row, column, reinterpret_cast<T*>(draw));
    };
    if (wide) run(double{});
    else run(float{});
  });
  m.def("disc", [](bool wide, std::ptrdiff_t n, double most, std::uintptr_t nu, std::uintptr_t theta,
                   std::uintptr_t pairs) {
    const auto run = [&](auto number) {
      using T = decltype(number);
      eigenrnn::disc<T>(n, static_cast<T>(most), reinterpret_cast<const T*>(nu), reinterpret_cast<const T*>(theta),
                        reinterpret_cast<T*>(pairs));
    };
    if (wide) run(double{});
    else run(float{});
  });
  m.def("disc_backward", [](bool wide, std::ptrdiff_t n, double most, std::uintptr_t nu, std::uintptr_t theta,
                            std::uintptr_t pairs, std::uintptr_t g, std::uintptr_t dnu, std::uintptr_t dtheta) {
    const auto run = [&](auto number) {
      using T = decltype(number);
      eigenrnn::disc_backward<T>(n, static_cast<T>(most), reinterpret_cast<const T*>(nu),
                                 reinterpret_cast<const T*>(theta), reinterpret_cast<const T*>(pairs),
                                 reinterpret_cast<const T*>(g), reinterpret_cast<T*>(dnu),
                                 reinterpret_cast<T*>(dtheta));
    };
    if (wide) run(double{});
    else run(float{});
  });
  m.attr("members") = nb::dict();
  define_recurrence(m, "elman", floats.elman, doubles.elman);
  define_recurrence(m, "gru", floats.gru, doubles.gru);
  define_recurrence(m, "lstm", floats.lstm, doubles.lstm);
  define_recurrence(m, "linear", floats.linear, doubles.linear);
  define_recurrence(m, "lru", floats.lru, doubles.lru);
  define_recurrence(m, "delta", floats.delta, doubles.delta);
  define_plan(m, "elman", floats.elman, doubles.elman);
  define_plan(m, "gru", floats.gru, doubles.gru);
  define_plan(m, "lstm", floats.lstm, doubles.lstm);
  define_plan(m, "lru", floats.lru, doubles.lru);
  nb::class_<Stepper>(m, "Stepper").def_ro("state_size", &Stepper::state_size);
  define_stepper(m, "elman", floats.elman_stepper, doubles.elman_stepper);
  define_stepper(m, "current", floats.current_stepper, doubles.current_stepper);
  define_stepper(m, "gru", floats.gru_stepper, doubles.gru_stepper);
  define_stepper(m, "lstm", floats.lstm_stepper, doubles.lstm_stepper);
  define_stepper(m, "lru", floats.lru_stepper, doubles.lru_stepper);
  define_stepper(m, "min_gru", floats.min_gru_stepper, doubles.min_gru_stepper);
  define_stepper(m, "feature", floats.feature_stepper, doubles.feature_stepper);
  define_stepper(m, "delta", floats.delta_stepper, doubles.delta_stepper);
  define_stepper(m, "head", floats.head_stepper, doubles.head_stepper);
  m.def("block_stepper", [floats, doubles](const std::string& number, const nb::dict& given,
                                           const std::shared_ptr<Stepper>& inner) {
    const Read<ResidualBlock> block(given);
    const auto make = is_double(number) ? doubles.block_stepper : floats.block_stepper;
    // the block reads the recurrence, which must live as long
    return std::shared_ptr<Stepper>(make(*block, *inner), [inner](Stepper* made) { delete made; });
  });
  m.attr("members")["block_stepper"] = Read<ResidualBlock>::names();
  nb::class_<StepperStack>(m, "StepperStack")
      .def(nb::init<std::vector<std::shared_ptr<Stepper>>, std::shared_ptr<Stepper>, bool,
                    std::vector<StepperStack::Note>, std::vector<nb::dict>>(),
           nb::arg("layers"), nb::arg("head").none(), nb::arg("wide"), nb::arg("weights"),
           nb::arg("empty"))
      .def_prop_ro("products", &StepperStack::products)
      .def_prop_ro("knows_gaps", &StepperStack::knows_gaps)
      .def("unchanged", &StepperStack::unchanged)
      .def("step", &StepperStack::step);
  m.def("elman_saved_parts", saved_parts<Elman>);
  m.def("gru_saved_parts", saved_parts<Gru>);
  m.def("lstm_saved_parts", saved_parts<Lstm>);
}
