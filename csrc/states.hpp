// The states of one thread's rows: in the output, or in scratch memory of two steps.
#pragma once
#include "rows.hpp"

namespace eigenrnn::EIGENRNN_ISA {

template <class T>
struct States {
  const Steps& steps;
  const View& h;     // (T, B, N); null: only the last states
  const View& last;  // (1, B, N)
  isize N;
  Share share;
  T* spare;  // two steps of the thread's rows, used if h is null

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
    step(s, 0, old, before, stride);
    step(s, old, now, at<T>(h0, 0, share.first + old), h0.second);
  }

  // After step s: zero the finished rows, and copy the states of sequences that end with it.
  void finish(isize s, isize now) const {
    if (N == 0) return;  // then pointers are null
    const isize on = smaller(now, share.running(steps, s + 1));
    isize stride;
    const T* states = after(s, stride);
    for (isize r = on; r < now; ++r)
      std::memcpy(at<T>(last, 0, share.first + r), states + r * stride,
                  static_cast<std::size_t>(N) * sizeof(T));
    if (h.data != nullptr) clear<T>(h, N, steps.time(s), share.first + now, share.last);
  }
};

}  // namespace eigenrnn::EIGENRNN_ISA
