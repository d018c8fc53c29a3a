/* the nearest whole number of 16 bits; NaN is 0 */
static int16_t quantised(float value)
{
    if (value > 32767.0F)
        return 32767;
    if (value < -32767.0F)
        return -32767;
    return (int16_t)(isnan(value) ? 0.0F : value + (value < 0.0F ? -0.5F : 0.5F));
}
