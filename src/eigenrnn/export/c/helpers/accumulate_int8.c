#ifdef HAS_DUAL_PRODUCTS
/* sum + a row's next four products, two at a time */
static inline int32_t four_products(int32_t sum, const int8_t *A, int16x2_t v01, int16x2_t v23)
{
    int32_t bytes;
    int16x2_t odd;
    memcpy(&bytes, A, 4);
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(bytes));
    return __smlad(odd, v23, __smlad(__sxtb16(bytes), v01, sum));
}
#endif

/* the end of a row: the upper byte of its one entry of 16 bits, which is 256 upper + 128 + lower,
   the column of that entry, and the digits of the scale */
static inline int32_t end_of_row(int32_t z, int32_t sum, const int8_t *end, int shift,
                                 const int16_t *x)
{
    sum += (256 * end[0] + 128) * x[(uint8_t)end[1]];
    return scaled_sum(z, sum, (uint8_t)end[2] | (uint8_t)end[3] << 8, shift);
}

/* z += A x. Four rows of A lie side by side, four columns at a time, each four in the order 0, 2,
   1, 3; then the other columns, one at a time; then the ends of the rows and the shifts */
static void accumulate_int8(int32_t *z, const int8_t *A, const int16_t *x, int rows, int columns)
{
    for (; rows > 0; rows -= 4) {
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        const int16_t *v = x;
        for (int n = columns / 4; n > 0; n--) {
#ifdef HAS_DUAL_PRODUCTS
            int16x2_t v01, v23;
            memcpy(&v01, v, 4);
            memcpy(&v23, v + 2, 4);
            s0 = four_products(s0, A, v01, v23);
            s1 = four_products(s1, A + 4, v01, v23);
            s2 = four_products(s2, A + 8, v01, v23);
            s3 = four_products(s3, A + 12, v01, v23);
#else
            s0 += A[0] * v[0] + A[1] * v[2] + A[2] * v[1] + A[3] * v[3];
            s1 += A[4] * v[0] + A[5] * v[2] + A[6] * v[1] + A[7] * v[3];
            s2 += A[8] * v[0] + A[9] * v[2] + A[10] * v[1] + A[11] * v[3];
            s3 += A[12] * v[0] + A[13] * v[2] + A[14] * v[1] + A[15] * v[3];
#endif
            A += 16;
            v += 4;
        }
        for (int n = columns % 4; n > 0; n--) {
            s0 += A[0] * *v;
            s1 += A[1] * *v;
            s2 += A[2] * *v;
            s3 += A[3] * *v++;
            A += 4;
        }
        z[0] = end_of_row(z[0], s0, A, A[16], x);
        z[1] = end_of_row(z[1], s1, A + 4, A[17], x);
        z[2] = end_of_row(z[2], s2, A + 8, A[18], x);
        z[3] = end_of_row(z[3], s3, A + 12, A[19], x);
        z += 4;
        A += 20;
    }
}
