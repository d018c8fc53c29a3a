/* z += A x. Two rows of A lie side by side, two columns at a time; then the last column, if their
   number is odd; then the digits of the scales and the shifts */
static void accumulate_int16(int32_t *z, const int16_t *A, const int16_t *x, int rows,
                             int columns)
{
    for (; rows > 0; rows -= 2) {
        int64_t s0 = 0, s1 = 0;
        const int16_t *v = x;
        for (int n = columns / 2; n > 0; n--) {
#ifdef HAS_DUAL_PRODUCTS
            int16x2_t v01, a0, a1;
            memcpy(&v01, v, 4);
            memcpy(&a0, A, 4);
            memcpy(&a1, A + 2, 4);
            s0 = __smlald(a0, v01, s0);
            s1 = __smlald(a1, v01, s1);
#else
            s0 += A[0] * v[0] + A[1] * v[1];
            s1 += A[2] * v[0] + A[3] * v[1];
#endif
            A += 4;
            v += 2;
        }
        if (columns % 2) {
            s0 += A[0] * *v;
            s1 += A[1] * *v;
            A += 2;
        }
        z[0] = scaled_sum(z[0], (int32_t)(s0 >> 8), (uint16_t)A[0], A[2]);
        z[1] = scaled_sum(z[1], (int32_t)(s1 >> 8), (uint16_t)A[1], A[3]);
        z += 2;
        A += 4;
    }
}
