// Numbers below the normal ones count as zero.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace eigenrnn {

// While it lives, subnormal numbers are zero for its thread. States and gradients that die away end there, and
// processors take many times as long for such numbers: with a loss on the last of 784 steps, the backward pass of
// a GRU took eleven times as long.
class WithoutSubnormals {
 public:
  WithoutSubnormals() : before_(read()) { write(before_ | ZERO); }
  ~WithoutSubnormals() { write(before_); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using Control = unsigned;
  static constexpr Control ZERO = 0x8040;  // of results, and of operands
  static Control read() { return _mm_getcsr(); }
  static void write(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
  using Control = unsigned long;
  static constexpr Control ZERO = 1UL << 24;
  static Control read() {
    Control control;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void write(Control control) { __asm__ __volatile__("msr fpcr, %0" : : "r"(control)); }
#else
  using Control = int;
  static constexpr Control ZERO = 0;
  static Control read() { return 0; }
  static void write(Control) {}
#endif
  Control before_;
};

}  // namespace eigenrnn
