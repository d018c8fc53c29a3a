// Threads: as many as torch uses, and torch's own if possible.
#pragma once
#include <atomic>

namespace eigenrnn {

// Call body(context, i) for i = 0 .. members - 1 in parallel, and wait for all.
//
// torch loads an OpenMP pool, whose threads spin for a while after each task. A second pool would
// compete with them for the cores, so the loaded pool is looked up by name at run time. Without a
// pool, or after a fork, which leaves the pool without threads, plain threads are started.
void as_team(int members, void (*body)(void* context, int member), void* context);

// Call body(context, i, n) for i = 0 .. n - 1 on n threads that run at the same time, so that they
// may wait for each other. n is at most `most`; it is smaller if there are fewer threads.
void as_partners(int most, void (*body)(void* context, int member, int members), void* context);

// Where partners wait for each other after every step of a recurrence.
class Meeting {
 public:
  // Wait for all `members`. Returns whether they go on together. If one of them had to wait for
  // long, because other processes keep the cores busy, the first member goes on alone.
  bool wait(int members);

 private:
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> rounds_{0};
  std::atomic<bool> late_{false};
  bool together_ = true;  // written by the last to arrive, read by the others after its round
};

// Must be called once, before any fork.
void watch_forks();

}  // namespace eigenrnn
