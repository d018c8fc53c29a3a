/* within 2^30, so that half of a unit can be added */
static inline int32_t saturated_wide(int64_t value)
{
    return (int32_t)(value > 1073741824 ? 1073741824 : value < -1073741824 ? -1073741824 : value);
}
