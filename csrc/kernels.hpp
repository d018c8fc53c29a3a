// The functions of one instruction set.
#pragma once
#include "arguments.hpp"
#include "stepper.hpp"

namespace eigenrnn {

// The kernels of a recurrence.
template <class Call>
struct Passes {
  void (*forward)(const Call&, int threads);
  void (*backward)(const Call&, const Call&, int threads);
};

// The functions for numbers T.
template <class T>
struct KernelsOf {
  Passes<Elman> elman;
  Passes<Gru> gru;
  Passes<Lstm> lstm;
  Passes<Linear> linear;
  Passes<Lru> lru;
  Passes<Delta> delta;
  Stepper* (*elman_stepper)(const Elman&);
  Stepper* (*current_stepper)(const Elman&);
  Stepper* (*gru_stepper)(const Gru&);
  Stepper* (*lstm_stepper)(const Lstm&);
  Stepper* (*lru_stepper)(const Lru&);
  Stepper* (*min_gru_stepper)(const MinGruLayer&);
  Stepper* (*delta_stepper)(const DeltaNet&);
  Stepper* (*feature_stepper)(const FeatureMap&);
  Stepper* (*head_stepper)(const Elman&);
  Stepper* (*block_stepper)(const ResidualBlock&, const Stepper&);
  void (*evaluate)(Function, const T* from, T* to, std::ptrdiff_t count);
};

struct Kernels {
  int vector_bytes;
  KernelsOf<float> of_floats;
  KernelsOf<double> of_doubles;
};

struct Isa {
  const char* name;
  Kernels (*kernels)();
  void (*use_tiles)();  // null: it has none; call it before any of the kernels
};

}  // namespace eigenrnn
