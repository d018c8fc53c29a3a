// y_t = h_t V^T + d over one thread's rows, and its backward pass, while the states are cached.
#pragma once
#include "outer.hpp"
#include "scratch.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct Readout {
  const Elman& call;
  Panels<T> panels;  // V transposed
  Share share;

  // The outputs of step s, whose states start at h. Finished sequences have states of zero.
  void write(isize s, isize now, const T* h, isize stride) const {
    if (call.y.data == nullptr) return;
    map(s, 0, now, {h, stride, panels, call.N});
    map(s, now, share.last - share.first, {nullptr, 0, {}, 0});
  }

 private:
  void map(isize s, isize from, isize to, Operand<T> states) const {
    T* y = at<T>(call.y, call.steps.time(s), share.first + from);
    const T* d = static_cast<const T*>(call.d.data);
    through<T>(&states, 1, to - from, vectors<T>(call.K),
               [&](const T* z, isize row, isize r0, isize R, isize first_v, isize C) EIGENRNN_INLINE_LAMBDA {
                 for (isize v = 0; v < C; ++v) {
                   const isize j = (first_v + v) * LANES<T>, n = smaller(LANES<T>, call.K - j);
                   const vec<T> shift = d == nullptr ? vec<T>{} : load_some<T>(d + j, n);
                   for (isize r = 0; r < R; ++r)
                     store_some<T>(y + (r0 + r) * call.y.second + j,
                                   load<T>(z + r * row + v * LANES<T>) + shift, n);
                 }
               });
  }
};

// The gradient of V. (The gradients of the outputs reach the states as one more operand of the sums
// of delta.) States and output gradients are read in place. Only the last lanes of the states, too
// few for a vector, are copied; the copies live as long as the deltas of their step.
template <class T>
class ReadoutBack {
 public:
  ReadoutBack(const Elman& call, const Elman& grad, Share share, isize rows)
      : call_(call),
        grad_(grad),
        share_(share),
        whole_(call.N / LANES<T>),
        rest_(call.N % LANES<T>),
        memory_(call.K * width() + rows * LANES<T>),
        factors_(2 * rows),
        rests_(factors_.get() + rows) {}

  bool wanted() const { return call_.K > 0; }
  void begin() {
    std::memset(memory_.get(), 0, static_cast<std::size_t>(call_.K * width()) * sizeof(T));
  }

  // The operand that takes the output gradients of step s, from row `from` on, to the states.
  Operand<T> operand(isize s, isize from, const Panels<T>& panels) const {
    return {gradient(s, from), grad_.y.second, panels, call_.K, grad_.y_stride};
  }

  // Record that `now` sequences run in step s; the last lanes of their states go to rows from `row`.
  void hold(isize s, isize now, isize row) {
    if (grad_.V.data == nullptr) return;
    const T* h = at<T>(call_.h, call_.steps.time(s), share_.first);
    const isize back = call_.steps.back(grad_.y);
    // single rows of several steps may form one factor
    const isize deep = now == 1 ? call_.steps.back(call_.h) : call_.h.second;
    Factor<T> next{gradient(s, 0), grad_.y_stride, grad_.y.second, h, deep, LANES<T>, now};
    count_ = append(factors_.get(), count_, next, back);
    if (rest_ == 0) return;
    T* held = memory_.get() + call_.K * width() + row * LANES<T>;
    for (isize r = 0; r < now; ++r)
      store<T>(held + r * LANES<T>,
               load_some<T>(h + r * call_.h.second + whole_ * LANES<T>, rest_));
    next.b = held, next.deep = LANES<T>;
    rest_count_ = append(rests_, rest_count_, next, back);
  }

  // Add the outer products of all recorded steps.
  void flush() {
    if (count_ == 0) return;
    add_products(factors_.get(), count_, call_.K, whole_, memory_.get(), width(), packed_, products_of<T>(call_));
    if (rest_ > 0)
      add_products(rests_, rest_count_, call_.K, 1, memory_.get() + whole_ * LANES<T>, width(), packed_,
                   products_of<T>(call_));
    count_ = rest_count_ = 0;
  }

  void gather_into(bool first) const {
    if (grad_.V.data != nullptr)
      gather<T>(grad_.V, call_.K, call_.N, memory_.get(), width(), first);
  }

 private:
  isize width() const { return vectors<T>(call_.N) * LANES<T>; }
  const T* gradient(isize s, isize from) const {
    return at<T>(grad_.y, call_.steps.time(s), share_.first + from);
  }

  const Elman& call_;
  const Elman& grad_;
  Share share_;
  isize whole_, rest_;  // per row of states: whole vectors, and lanes of the partial one
  Scratch<T> memory_;   // the gradient of V so far, (K, width), and the copied last lanes
  Scratch<Factor<T>> factors_;
  Factor<T>* rests_;
  Buffer<T> packed_;
  int count_ = 0, rest_count_ = 0;
};

}  // namespace eigenrnn::EIGENRNN_ISA
