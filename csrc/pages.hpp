// Large memory pages for large buffers.
#pragma once
#include <cstddef>

namespace eigenrnn {

// Ask for large pages before a fresh buffer is written for the first time. Memory that a process
// gets back anew for every call costs a fault a page: with pages of 4 kB these take as long as the
// recurrence itself.
void prefer_large_pages(void* data, std::size_t bytes);

}  // namespace eigenrnn
