/* the tanh of the positive part */
static float retanh(float z)
{
    return z < 0.0F ? 0.0F : tanhf(z); /* NaN stays NaN */
}
