// The ring buffer of deltas of one thread, and the threads of a backward pass.
#pragma once
#include <deque>

#include "rows.hpp"
#include "scratch.hpp"
#include "team.hpp"

namespace eigenrnn::EIGENRNN_ISA {

// The deltas of consecutive steps. When it is full, `flush` adds their outer products to sums.
template <class T>
struct Ring {
  isize capacity, row;  // rows, and their distance
  T* deltas;
  isize held = 0, after = 0, last = 0;  // rows; those of the later step, and their position

  // Enough rows to make a pass over the matrix of sums worthwhile.
  static isize rows_for(isize share) {
    constexpr isize ENOUGH = 256;
    return larger(1, share) * larger(2, (ENOUGH + share) / larger(1, share));
  }

  // The deltas of the step that was computed last.
  const T* later() const { return deltas + last * row; }

  // Memory for the deltas of `now` rows.
  template <class Flush>
  T* next(isize now, Flush&& flush) {
    if (held + now > capacity) {
      flush();
      // the deltas of the later step are still needed
      std::memmove(deltas, later(), static_cast<std::size_t>(after * row) * sizeof(T));
      last = 0, held = after;
    }
    return deltas + held * row;
  }
  void advance(isize now) { last = held, after = now, held += now; }
};

// What the states before a step see of its deltas: nothing of the sequences that begin anew with it.
template <class T>
class PassedOn {
 public:
  // Keep the deltas of the first `now` rows, `row` numbers apart, of the step s that was computed last.
  // Of `carry`, the gradients of those states that bypass the deltas, the same rows become zero.
  void keep(const Steps& steps, const Share& share, isize s, isize now, const T* delta, isize row,
            T* carry, isize width) {
    deltas_ = nullptr;
    if (!steps.any_begins_anew(s, share.first, share.first + now)) return;
    T* copies = memory_.at_least((share.last - share.first) * row);
    std::memcpy(copies, delta, static_cast<std::size_t>(now * row) * sizeof(T));
    for (isize r = 0; r < now; ++r) {
      if (!steps.begins_anew(s, share.first + r)) continue;
      std::memset(copies + r * row, 0, static_cast<std::size_t>(row) * sizeof(T));
      if (carry != nullptr)
        std::memset(carry + r * width, 0, static_cast<std::size_t>(width) * sizeof(T));
    }
    deltas_ = copies;
  }
  // Those of the step that was kept last; `all` are its deltas.
  const T* of(const T* all) const { return deltas_ == nullptr ? all : deltas_; }

 private:
  Buffer<T> memory_;
  const T* deltas_ = nullptr;
};

// Run one worker per thread, and sum their gradients in the order of the threads.
template <class Worker, class Call, class Panels>
void run_workers(const Call& call, const Call& grad, const Panels& panels, int threads) {
  const int team = members(call.steps, threads);
  std::deque<Worker> workers;
  for (int member = 0; member < team; ++member) workers.emplace_back(call, grad, member, team);
  struct Context {
    const Call& call;
    const Call& grad;
    const Panels& panels;
    std::deque<Worker>& workers;
  } context{call, grad, panels, workers};
  as_team(
      team,
      [](void* data, int member) {
        const Context& c = *static_cast<Context*>(data);
        c.workers[static_cast<std::size_t>(member)].run(c.call, c.grad, c.panels);
      },
      &context);
  for (const Worker& worker : workers)
    worker.gather_into(call, grad, &worker == &workers.front());
}

}  // namespace eigenrnn::EIGENRNN_ISA
