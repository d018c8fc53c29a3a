/* the logistic function of z in 2^-places, in 2^-15 */
static int32_t sigmoid_of_integer(int32_t z, int places)
{
    return (tanh_of_integer(z, places + 1) + 32768) >> 1;
}
