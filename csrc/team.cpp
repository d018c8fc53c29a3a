#include "team.hpp"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <pthread.h>
#endif

namespace eigenrnn {
namespace {

struct Work {
  void (*body)(void*, int);
  void* context;
  int members;
  std::atomic<int> next{0};
};

// Each member runs exactly once, for any number of threads.
void play(void* data) {
  Work& work = *static_cast<Work*>(data);
  for (int i = work.next++; i < work.members; i = work.next++) work.body(work.context, i);
}

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

#if defined(__unix__) || defined(__APPLE__)
std::atomic<bool> forked{false};

Parallel pool() {
  static const Parallel found =
      reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return forked ? nullptr : found;
}
#else
Parallel pool() { return nullptr; }
#endif

}  // namespace

void watch_forks() {
#if defined(__unix__) || defined(__APPLE__)
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif
}

void as_team(int members, void (*body)(void*, int), void* context) {
  if (members <= 1) {
    if (members == 1) body(context, 0);
    return;
  }
  Work work{body, context, members};
  if (const Parallel parallel = pool()) {
    parallel(play, &work, static_cast<unsigned>(members), 0);
    return;
  }
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(members - 1));  // before any runs: it may throw
  try {
    for (int i = 1; i < members; ++i) others.emplace_back(play, &work);
  } catch (const std::system_error&) {
    // no more threads available: the existing ones run all members
  }
  play(&work);
  for (std::thread& other : others) other.join();
}

}  // namespace eigenrnn
