/* z + sum * scale / 2^32, rounded; a scale is 16 binary digits, shifted to the left */
static inline int32_t scaled_sum(int32_t z, int32_t sum, int32_t digits, int shift)
{
    const int64_t product = (int64_t)sum * (digits << shift);
    return (int32_t)((z * INT64_C(4294967296) + INT64_C(2147483648) + product) >> 32);
}
