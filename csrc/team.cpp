#include "team.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "subnormal.hpp"

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
  const WithoutSubnormals guard;
  for (int i = work.next++; i < work.members; i = work.next++) work.body(work.context, i);
}

// The functions of torch's OpenMP: GNU's library and LLVM's both have them.
using Count = int (*)();
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
Parallel parallel = nullptr;
Count number = nullptr, all = nullptr;

std::atomic<bool> forked{false};

constexpr int SPINS = 4000;
constexpr std::chrono::microseconds LATE{300};  // less than a time slice of the operating system

}  // namespace

bool Meeting::wait(int members) {
  using Clock = std::chrono::steady_clock;
  const unsigned now = rounds_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    arrived_.store(0, std::memory_order_relaxed);
    together_ = !late_.load(std::memory_order_relaxed);
    const bool together = together_;
    rounds_.store(now + 1, std::memory_order_release);
    return together;
  }
  const auto begin = Clock::now();
  for (int spins = 1; rounds_.load(std::memory_order_acquire) == now; ++spins)
    if (spins % SPINS == 0) {
      if (Clock::now() - begin > LATE) late_.store(true, std::memory_order_relaxed);
      std::this_thread::yield();
    }
  return together_;
}

bool find_threads(const char* library) {
  void* const torch = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  // a null handle would search all libraries whose names are global
  const auto find = [torch](const char* name) { return torch == nullptr ? nullptr : dlsym(torch, name); };
  number = reinterpret_cast<Count>(find("omp_get_thread_num"));
  all = reinterpret_cast<Count>(find("omp_get_num_threads"));
  parallel = number && all ? reinterpret_cast<Parallel>(find("GOMP_parallel")) : nullptr;
  return parallel != nullptr;
}

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

void as_partners(int most, void (*body)(void*, int, int), void* context) {
  struct Partners {
    void (*body)(void*, int, int);
    void* context;
  } partners{body, context};
  if (most <= 1 || parallel == nullptr || forked) {
    const WithoutSubnormals guard;
    body(context, 0, 1);
    return;
  }
  parallel(
      [](void* data) {
        const Partners& work = *static_cast<Partners*>(data);
        const WithoutSubnormals guard;
        work.body(work.context, number(), all());
      },
      &partners, static_cast<unsigned>(most), 0);
}

void as_team(int members, void (*body)(void*, int), void* context) {
  if (members <= 0) return;
  if (members == 1) {
    const WithoutSubnormals guard;
    body(context, 0);
    return;
  }
  Work work{body, context, members};
  if (parallel == nullptr) return play(&work);
  if (!forked) return parallel(play, &work, static_cast<unsigned>(members), 0);
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
