// Threads: as many as torch uses, and the very same ones where that is possible.
#pragma once

namespace eigenrnn {

// Call body(context, i) for i = 0 .. members - 1, side by side, and wait for all.
//
// A process that has torch in it has its OpenMP pool too, whose threads spin for a while after each
// piece of work. A pool of our own would fight with them for the cores; so the pool that is already
// loaded is asked for by name at run time. Where there is none, or after a fork, which leaves the
// pool without its threads, plain threads do it.
void as_team(int members, void (*body)(void* context, int member), void* context);

// To be called once, before any fork.
void watch_forks();

}  // namespace eigenrnn
