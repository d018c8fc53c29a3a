// The members of the arguments by name. Python passes them by these names, and `module.cpp` reads them.
#pragma once
#include "arguments.hpp"

namespace eigenrnn {

// each_member(arguments, use) calls use(name, member) for every member that Python may set.

template <class Use>
void each_member(Steps& steps, Use&& use) {
  use("T", steps.T);
  use("B", steps.B);
  use("batch_sizes", steps.sizes);
  use("reverse", steps.reverse);
}

template <class Use>
void each_member(NormZoneout& norm_zoneout, Use&& use) {
  use("gain", norm_zoneout.gain);
  use("shift", norm_zoneout.shift);
  use("mask", norm_zoneout.mask);
  use("rate", norm_zoneout.rate);
}

template <class Use>
void each_member(Elman& call, Use&& use) {
  each_member(call.steps, use);
  use("resets", call.steps.resets);
  each_member(call.norm_zoneout, use);
  use("N", call.N);
  use("M", call.M);
  use("products", call.products);
  use("K", call.K);
  use("nonlinearity", call.activation);
  use("slope", call.slope);
  use("x", call.x);
  use("W", call.W);
  use("h0", call.h0);
  use("v0", call.v0);
  use("leak", call.norm_zoneout.leak);
  use("leak_changes", call.norm_zoneout.leak_changes);
  use("bias", call.bias);
  use("U", call.U);
  use("c", call.c);
  use("V", call.V);
  use("d", call.d);
  use("h", call.h);
  use("last", call.last);
  use("y", call.y);
  use("moduli", call.moduli);
  use("saved", call.saved);
}

template <class Use>
void each_member(ElmanBack& back, Use&& use) {
  use("dh", back.dh);
  use("dlast", back.dlast);
  use("dy", back.dy);
  use("dy_stride", back.dy_stride);
  use("dx", back.dx);
  use("dW", back.dW);
  use("dh0", back.dh0);
  use("dbias", back.dbias);
  use("dU", back.dU);
  use("dc", back.dc);
  use("dV", back.dV);
  use("dgain", back.dgain);
  use("dshift", back.dshift);
  use("dleak", back.dleak);
  use("dv0", back.dv0);
}

template <class Use>
void each_member(Gru& call, Use&& use) {
  each_member(call.steps, use);
  use("resets", call.steps.resets);
  each_member(call.norm_zoneout, use);
  use("N", call.N);
  use("M", call.M);
  use("products", call.products);
  use("nonlinearity", call.activation);
  use("slope", call.slope);
  use("reset_after", call.reset_after);
  use("update_keeps", call.update_keeps);
  use("x", call.x);
  use("W", call.W);
  use("h0", call.h0);
  use("bias", call.bias);
  use("recurrent_bias", call.recurrent_bias);
  use("U", call.U);
  use("c", call.c);
  use("h", call.h);
  use("last", call.last);
  use("saved", call.saved);
}

template <class Use>
void each_member(GruBack& back, Use&& use) {
  use("dh", back.dh);
  use("dlast", back.dlast);
  use("dx", back.dx);
  use("dW", back.dW);
  use("dh0", back.dh0);
  use("dbias", back.dbias);
  use("drecurrent_bias", back.drecurrent_bias);
  use("dU", back.dU);
  use("dc", back.dc);
  use("dgain", back.dgain);
  use("dshift", back.dshift);
}

template <class Use>
void each_member(Lstm& call, Use&& use) {
  each_member(call.steps, use);
  use("resets", call.steps.resets);
  use("N", call.N);
  use("M", call.M);
  use("products", call.products);
  use("x", call.x);
  use("W", call.W);
  use("h0", call.h0);
  use("c0", call.c0);
  use("U", call.U);
  use("c", call.c);
  use("h", call.h);
  use("last", call.last);
  use("last_cell", call.last_cell);
  use("saved", call.saved);
}

template <class Use>
void each_member(LstmBack& back, Use&& use) {
  use("dh", back.dh);
  use("dlast", back.dlast);
  use("dlast_cell", back.dlast_cell);
  use("dx", back.dx);
  use("dW", back.dW);
  use("dh0", back.dh0);
  use("dc0", back.dc0);
  use("dU", back.dU);
  use("dc", back.dc);
}

template <class Use>
void each_member(Linear& call, Use&& use) {
  each_member(call.steps, use);
  use("resets", call.steps.resets);
  use("N", call.N);
  use("paired", call.paired);
  use("gated", call.gated);
  use("x", call.x);
  use("decay", call.decay);
  use("h0", call.h0);
  use("h", call.h);
  use("last", call.last);
}

template <class Use>
void each_member(LinearBack& back, Use&& use) {
  use("dh", back.dh);
  use("dlast", back.dlast);
  use("dx", back.dx);
  use("ddecay", back.ddecay);
  use("dh0", back.dh0);
}

template <class Use>
void each_member(Delta& call, Use&& use) {
  each_member(call.steps, use);
  use("H", call.H);
  use("R", call.R);
  use("K", call.K);
  use("V", call.V);
  use("chunk", call.chunk);
  use("q", call.q);
  use("k", call.k);
  use("v", call.v);
  use("beta", call.beta);
  use("log_decay", call.log_decay);
  use("S0", call.S0);
  use("o", call.o);
  use("S_n", call.S_n);
  use("saved", call.saved);
}

template <class Use>
void each_member(DeltaBack& back, Use&& use) {
  use("do", back.d_o);
  use("dS_n", back.dS_n);
  use("dq", back.dq);
  use("dk", back.dk);
  use("dv", back.dv);
  use("dbeta", back.dbeta);
  use("dlog_decay", back.dlog_decay);
  use("dS0", back.dS0);
}

template <class Use>
void each_member(DeltaNet& layer, Use&& use) {
  use("N", layer.N);
  use("M", layer.M);
  use("H", layer.H);
  use("R", layer.R);
  use("convolution", layer.convolution);
  use("silu", layer.silu);
  use("low", layer.low);
  use("high", layer.high);
  use("shortest", layer.shortest);
  use("epsilon", layer.epsilon);
  use("weight_ih", layer.weight_ih);
  use("convolution_weight", layer.convolution_weight);
  use("A_log", layer.A_log);
  use("dt_bias", layer.dt_bias);
  use("norm_weight", layer.norm_weight);
  use("weight_out", layer.weight_out);
  use("output_bias", layer.output_bias);
}

template <class Use>
void each_member(Lru& call, Use&& use) {
  each_member(call.steps, use);
  use("resets", call.steps.resets);
  use("N", call.N);
  use("M", call.M);
  use("K", call.K);
  use("x", call.x);
  use("decay", call.decay);
  use("h0", call.h0);
  use("U", call.U);
  use("gamma_log", call.gamma_log);
  use("V", call.V);
  use("D", call.D);
  use("d", call.d);
  use("dt", call.dt);
  use("h", call.h);
  use("last", call.last);
  use("y", call.y);
}

template <class Use>
void each_member(LruBack& back, Use&& use) {
  use("dh", back.dh);
  use("dlast", back.dlast);
  use("dy", back.dy);
  use("dy_stride", back.dy_stride);
  use("dx", back.dx);
  use("ddecay", back.ddecay);
  use("dh0", back.dh0);
  use("dU", back.dU);
  use("dgamma_log", back.dgamma_log);
  use("dV", back.dV);
  use("dD", back.dD);
  use("ddt", back.ddt);
}

template <class Use>
void each_member(MinGruLayer& layer, Use&& use) {
  use("N", layer.N);
  use("M", layer.M);
  use("low", layer.low);
  use("high", layer.high);
  use("weight_ih", layer.weight_ih);
  use("input_bias", layer.input_bias);
}

template <class Use>
void each_member(FeatureMap& layer, Use&& use) {
  use("N", layer.N);
  use("M", layer.M);
  use("weight", layer.weight);
  use("bias", layer.bias);
  use("norm_weight", layer.norm.weight);
  use("norm_shift", layer.norm.shift);
  use("norm_epsilon", layer.norm.epsilon);
}

template <class Use>
void each_member(ResidualBlock& block, Use&& use) {
  use("N", block.N);
  use("P", block.P);
  use("H", block.H);
  use("norm_weight", block.norm.weight);
  use("norm_shift", block.norm.shift);
  use("norm_epsilon", block.norm.epsilon);
  use("projection", block.projection);
  use("projection_bias", block.projection_bias);
  use("gate", block.gate);
  use("gate_bias", block.gate_bias);
  use("mlp_norm_weight", block.mlp_norm.weight);
  use("mlp_norm_shift", block.mlp_norm.shift);
  use("mlp_norm_epsilon", block.mlp_norm.epsilon);
  use("mlp_in", block.mlp_in);
  use("mlp_in_bias", block.mlp_in_bias);
  use("mlp_out", block.mlp_out);
  use("mlp_out_bias", block.mlp_out_bias);
}

// each_saved_part(call, use) calls use(name, part) for every part that a forward pass saves of a unit.

template <class Use>
void each_saved_part(const Elman& call, Use&& use) {
  if (call.norm_zoneout.has_norm()) use("normed", Elman::NORMED);
  if (call.norm_zoneout.mixes()) use(call.mixes_arguments() ? "change" : "value", call.value());
}

template <class Use>
void each_saved_part(const Gru& call, Use&& use) {
  use("reset", RESET);
  use("update", UPDATE);
  use("candidate", CANDIDATE);
  if (call.reset_after) use("product", Gru::PRODUCT);
  if (!call.norm_zoneout.has_norm()) return;
  use("normed_reset", call.normed(RESET));
  use("normed_update", call.normed(UPDATE));
  use("normed_candidate", call.normed(CANDIDATE));
}

template <class Use>
void each_saved_part(const Lstm&, Use&& use) {
  use("input", INPUT);
  use("forget", FORGET);
  use("cell", CELL);
  use("output", OUTPUT);
  use("old_cell", Lstm::OLD_CELL);
}

}  // namespace eigenrnn
