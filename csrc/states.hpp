// The states of one thread's rows, in the output or in scratch memory of two steps, and what is saved of a
// step for the backward pass.
#pragma once
#include "rows.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct States {
  const Steps& steps;
  const View& h;     // (T, B, N); null: only the last states
  const View& last;  // (1, B, N); null: not written
  isize N;
  Share share;
  T* spare;  // two steps of the thread's rows, used if h is null
  T* anew;   // (rows, N), used in steps with which sequences begin anew

  // The states after step s; row 0 is the thread's first row.
  T* after(isize s, isize& stride) const {
    if (h.data != nullptr) {
      stride = h.second;
      return at<T>(h, steps.time(s), share.first);
    }
    stride = N;
    return spare + (s % 2) * (share.last - share.first) * N;
  }

  // Call step(s, from, to, before, stride) for the rows that run in step s: first those that ran
  // before, then those that begin with it, from h0.
  template <class Step>
  void advance(isize s, isize now, const View& h0, const Step& step) const {
    const isize old = smaller(now, share.running(steps, s - 1));
    isize stride = 0;
    const T* before = old > 0 ? after(s - 1, stride) : nullptr;
    some(s, 0, old, before, stride, step);
    some(s, old, now, at<T>(h0, share.first, 0), h0.first, step);
  }

  // After step s: zero the finished rows, and copy the states of sequences that end with it.
  void finish(isize s, isize now) const {
    if (N == 0) return;  // then pointers are null
    const isize on = smaller(now, share.running(steps, s + 1));
    isize stride;
    const T* states = after(s, stride);
    for (isize r = on; r < now && last.data != nullptr; ++r)
      std::memcpy(at<T>(last, share.first + r, 0), states + r * stride,
                  static_cast<std::size_t>(N) * sizeof(T));
    if (h.data != nullptr) clear<T>(h, N, steps.time(s), share.first + now, share.last);
  }

 private:
  // Call step for rows [from, to), with zero before it for sequences that begin anew.
  template <class Step>
  void some(isize s, isize from, isize to, const T* before, isize stride, const Step& step) const {
    if (steps.any_begins_anew(s, share.first + from, share.first + to)) {
      copy_states<T>(steps, share, s, from, to, before, stride, N, anew);
      step(s, from, to, anew + from * N, N);
      return;
    }
    step(s, from, to, before + from * stride, stride);
  }
};

// The values of step (t, b) saved for the backward pass: for each vector of units, `parts` vectors.
// They are padded to whole vectors. Then follow the numbers of the whole row.
template <class T>
struct Kept {
  View view;
  isize all, parts;

  template <class Call>
  explicit Kept(const Call& call)
      : view(call.saved), all(vectors<T>(call.N)), parts(call.parts()) {}
  // The numbers of a row.
  template <class Call>
  static isize size(const Call& call) {
    return (vectors<T>(call.N) * call.parts() + vectors<T>(call.norms())) * LANES<T>;
  }
  isize row() const { return view.second; }
  isize step() const { return view.first; }
  // from one vector of a part to the next
  isize apart() const { return parts * LANES<T>; }
  // where the numbers of a row begin
  isize scales() const { return all * apart(); }
  // where a part begins in the numbers of a vector
  static isize of(isize part) { return part * LANES<T>; }
  // vector v of row r starts at at(t, first) + r * row() + v * apart()
  T* at(isize t, isize b) const {
    return view.data == nullptr ? nullptr : EIGENRNN_ISA::at<T>(view, t, b);
  }
};

// With LayerNorm, let the call save its values even if no backward pass follows: those of one step, in
// memory that all steps share.
template <class T, class Call>
void save_one_step(Call& call, Buffer<T>& memory) {
  if (call.norms() == 0 || call.saved.data != nullptr) return;
  const isize row = Kept<T>::size(call);
  call.saved = {memory.at_least(call.steps.B * row), 0, row};
}

}  // namespace eigenrnn::EIGENRNN_ISA
