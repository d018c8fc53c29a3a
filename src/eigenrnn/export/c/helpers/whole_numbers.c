#if INT_MAX < 2147483647
#error "an int of fewer than 32 bits is too small for these sums"
#endif
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(__ARM_BIG_ENDIAN)
#include <arm_acle.h>
#define HAS_DUAL_PRODUCTS
#endif
