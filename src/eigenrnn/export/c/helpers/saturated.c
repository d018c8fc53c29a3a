static inline int16_t saturated(int32_t value)
{
    return (int16_t)(value > 32767 ? 32767 : value < -32767 ? -32767 : value);
}
