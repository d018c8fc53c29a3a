/* the modulus is rectified, the sign stays */
static inline int32_t modrelu_of_integer(int32_t z, int32_t bias)
{
    const int32_t modulus = (z < 0 ? -z : z) + bias;
    if (modulus <= 0 || z == 0)
        return 0;
    return z < 0 ? -modulus : modulus;
}
