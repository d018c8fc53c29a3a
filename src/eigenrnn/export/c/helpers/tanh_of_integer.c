/* tanh(z) in 2^-15, of z in 2^-places, by slope and curvature at the nearest sixteenth; the error is
   at most 1.3 units of 2^-15 */
static int32_t tanh_of_integer(int32_t z, int places)
{
    const uint32_t size = z < 0 ? 0U - (uint32_t)z : (uint32_t)z;
    const uint32_t k = (size + (UINT32_C(1) << (places - 5))) >> (places - 4);
    int32_t value = 32768;
    if (k < sizeof(tanh_of_sixteenths) / sizeof(tanh_of_sixteenths[0])) {
        const int32_t t = tanh_of_sixteenths[k];
        const int32_t d = (int32_t)(size << (36 - places)) >> 16; /* 20 places */
        const int32_t bent = d - ((t * (d * d >> 20)) >> 15);
        const int32_t slope = ((1 << 30) - t * t) >> 15;
        value = t + ((slope * bent + (1 << 19)) >> 20);
    }
    return z < 0 ? -value : value;
}
