// Threads: as many as torch uses, and torch's own if possible.
#pragma once

namespace eigenrnn {

// Call body(context, i) for i = 0 .. members - 1 in parallel, and wait for all.
//
// torch loads an OpenMP pool, whose threads spin for a while after each task. A second pool would
// compete with them for the cores, so the loaded pool is looked up by name at run time. Without a
// pool, or after a fork, which leaves the pool without threads, plain threads are started.
void as_team(int members, void (*body)(void* context, int member), void* context);

// Must be called once, before any fork.
void watch_forks();

}  // namespace eigenrnn
