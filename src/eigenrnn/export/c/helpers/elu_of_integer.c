/* ELU of z in 2^-places, in 2^-to; exp(z) - 1 = -2 t / (1 + t), where t = tanh(-z / 2) */
static int32_t elu_of_integer(int32_t z, int places, int to)
{
    if (z >= 0)
        return rounded_shift(z, places - to);
    const uint32_t t = (uint32_t)tanh_of_integer(-z, places + 1);
    return -(int32_t)(((t << 16) / (32768 + t)) >> (15 - to));
}
