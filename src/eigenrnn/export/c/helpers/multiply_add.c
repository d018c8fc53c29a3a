/* a b + c, in one instruction where there is one: C99 lets no compiler do so by itself */
static inline float multiply_add(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
