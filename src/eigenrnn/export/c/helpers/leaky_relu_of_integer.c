/* the slope of negative z is in 2^-32 */
static inline int32_t leaky_relu_of_integer(int32_t z, int32_t slope)
{
    return z < 0 ? (int32_t)(((int64_t)z * slope) >> 32) : z;
}
