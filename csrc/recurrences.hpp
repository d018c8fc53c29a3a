// The functions of one instruction set. The .cpp file of each instantiates it for both number types.
#pragma once
#include "arguments.hpp"
#include "stepper.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
void elman_forward(const Elman& call, int threads);
template <class T>
void elman_backward(const Elman& call, const ElmanBack& back, int threads);
template <class T>
void gru_forward(const Gru& call, int threads);
template <class T>
void gru_backward(const Gru& call, const GruBack& back, int threads);
template <class T>
void lstm_forward(const Lstm& call, int threads);
template <class T>
void lstm_backward(const Lstm& call, const LstmBack& back, int threads);
template <class T>
void linear_forward(const Linear& call, int threads);
template <class T>
void linear_backward(const Linear& call, const LinearBack& back, int threads);
template <class T>
void lru_forward(const Lru& call, int threads);
template <class T>
void lru_backward(const Lru& call, const LruBack& back, int threads);
template <class T>
void delta_forward(const Delta& call, int threads);
template <class T>
void delta_backward(const Delta& call, const DeltaBack& back, int threads);
template <class T>
void delta_step(const DeltaStep& step, int threads);
template <class T>
Stepper* elman_stepper(const Elman& call);
template <class T>
Stepper* current_stepper(const Elman& call);
template <class T>
Stepper* gru_stepper(const Gru& call);
template <class T>
Stepper* lstm_stepper(const Lstm& call);
template <class T>
Stepper* delta_stepper(const DeltaNet& layer);
template <class T>
Stepper* lru_stepper(const Lru& layer);
template <class T>
Stepper* min_gru_stepper(const MinGruLayer& layer);
template <class T>
Stepper* feature_stepper(const FeatureMap& layer);
template <class T>
Stepper* block_stepper(const ResidualBlock& block, const Stepper& inner);
template <class T>
Stepper* head_stepper(const Elman& call);
template <class T>
void evaluate(Function function, const T* from, T* to, std::ptrdiff_t count);

}  // namespace eigenrnn::EIGENRNN_ISA
