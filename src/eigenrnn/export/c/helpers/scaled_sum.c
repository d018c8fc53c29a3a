/* z + sum * scale / 2^32, rounded; the last three bits of the code of a scale are an exponent */
static inline int32_t scaled_sum(int32_t z, int32_t sum, int32_t code, int exponent)
{
    const int32_t scale = (code - code % 8) << (exponent + code % 8);
    return (int32_t)((z * INT64_C(4294967296) + INT64_C(2147483648) + (int64_t)sum * scale) >> 32);
}
