// Threads: torch's own. Each runs its part without subnormal numbers.
#pragma once
#include <atomic>

namespace eigenrnn {

// Look up the OpenMP pool that the loaded `library` of torch uses; false if there is none. Its threads spin
// for a while after each task, so a second pool would compete with them for the cores.
bool find_threads(const char* library);

// Call body(context, i) for i = 0 .. members - 1 in parallel, and wait for all. Without a pool one thread
// does it. After a fork, which leaves the pool without threads, plain threads are started.
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
