/* z / 2^k, rounded */
static inline int32_t rounded_shift(int32_t z, int k)
{
    return k > 0 ? (z + (1 << (k - 1))) >> k : z;
}
