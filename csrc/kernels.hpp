// The table of functions of one instruction set.
#pragma once
#include "arguments.hpp"
#include "stepper.hpp"

namespace eigenrnn {

struct Kernels {
  const char* isa;
  int vector_bytes;
  void (*use_tiles)();  // null: the processor has none; call it before any of the kernels
  void (*elman_forward_float)(const Elman&, int threads);
  void (*elman_forward_double)(const Elman&, int threads);
  void (*elman_backward_float)(const Elman&, const ElmanBack&, int threads);
  void (*elman_backward_double)(const Elman&, const ElmanBack&, int threads);
  void (*gru_forward_float)(const Gru&, int threads);
  void (*gru_forward_double)(const Gru&, int threads);
  void (*gru_backward_float)(const Gru&, const GruBack&, int threads);
  void (*gru_backward_double)(const Gru&, const GruBack&, int threads);
  void (*lstm_forward_float)(const Lstm&, int threads);
  void (*lstm_forward_double)(const Lstm&, int threads);
  void (*lstm_backward_float)(const Lstm&, const LstmBack&, int threads);
  void (*lstm_backward_double)(const Lstm&, const LstmBack&, int threads);
  Stepper* (*elman_stepper_float)(const Elman&);
  Stepper* (*elman_stepper_double)(const Elman&);
  Stepper* (*current_stepper_float)(const Elman&);
  Stepper* (*current_stepper_double)(const Elman&);
  Stepper* (*gru_stepper_float)(const Gru&);
  Stepper* (*gru_stepper_double)(const Gru&);
  Stepper* (*lstm_stepper_float)(const Lstm&);
  Stepper* (*lstm_stepper_double)(const Lstm&);
  Stepper* (*lru_stepper_float)(const Lru&);
  Stepper* (*lru_stepper_double)(const Lru&);
  Stepper* (*min_gru_stepper_float)(const MinGruLayer&);
  Stepper* (*min_gru_stepper_double)(const MinGruLayer&);
  Stepper* (*delta_stepper_float)(const DeltaNet&);
  Stepper* (*delta_stepper_double)(const DeltaNet&);
  Stepper* (*feature_stepper_float)(const FeatureMap&);
  Stepper* (*feature_stepper_double)(const FeatureMap&);
  Stepper* (*block_stepper_float)(const ResidualBlock&, const Stepper&);
  Stepper* (*block_stepper_double)(const ResidualBlock&, const Stepper&);
  Stepper* (*head_stepper_float)(const Elman&);
  Stepper* (*head_stepper_double)(const Elman&);
  void (*linear_forward_float)(const Linear&, int threads);
  void (*linear_forward_double)(const Linear&, int threads);
  void (*linear_backward_float)(const Linear&, const LinearBack&, int threads);
  void (*linear_backward_double)(const Linear&, const LinearBack&, int threads);
  void (*lru_forward_float)(const Lru&, int threads);
  void (*lru_forward_double)(const Lru&, int threads);
  void (*lru_backward_float)(const Lru&, const LruBack&, int threads);
  void (*lru_backward_double)(const Lru&, const LruBack&, int threads);
  void (*delta_forward_float)(const Delta&, int threads);
  void (*delta_forward_double)(const Delta&, int threads);
  void (*delta_backward_float)(const Delta&, const DeltaBack&, int threads);
  void (*delta_backward_double)(const Delta&, const DeltaBack&, int threads);
  void (*evaluate_float)(Function, const float* from, float* to, std::ptrdiff_t count);
  void (*evaluate_double)(Function, const double* from, double* to, std::ptrdiff_t count);
};

}  // namespace eigenrnn
