/* max(z, 0) + log(1 + exp(-|z|)) of z in 2^-places, in 2^-to; the logarithm is 2 artanh(w), where
   w = (1 - t) / (3 + t) and t = tanh(|z| / 2), by four terms of its series */
static int32_t softplus_of_integer(int32_t z, int places, int to)
{
    const int32_t t = tanh_of_integer(z < 0 ? -z : z, places + 1);
    const int32_t w = ((32768 - t) << 15) / (98304 + t);
    const int32_t square = (w * w) >> 15;
    int32_t series = 6554 + ((square * 4681) >> 15);
    series = 10923 + ((square * series) >> 15);
    series = 32768 + ((square * series) >> 15);
    return (((2 * w * series) >> 15) >> (15 - to)) + (z > 0 ? rounded_shift(z, places - to) : 0);
}
