// Large memory pages for large buffers.
#pragma once
#include <cstddef>

namespace eigenrnn {

// Request large pages before a new buffer is first written. Memory that is allocated anew for every
// call costs one page fault per page. With pages of 4 kB they take as long as the recurrence itself.
void prefer_large_pages(void* data, std::size_t bytes);

}  // namespace eigenrnn
