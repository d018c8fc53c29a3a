/* y = a row of A, which lies as in accumulate_int8, times its scale over 2^shift */
static void symbol_row_int8(int16_t *y, const int8_t *A, int row, int columns, int shift)
{
    static const uint8_t order[4] = {0, 2, 1, 3};
    const int full = columns / 4 * 4;
    const int8_t *group = A + row / 4 * (4 * columns + 20);
    const int8_t *end = group + 4 * columns + row % 4 * 4;
    const int32_t digits = (uint8_t)end[2] | (uint8_t)end[3] << 8;
    const int32_t scale = digits << group[4 * columns + 16 + row % 4];
    for (int j = 0; j < columns; j++) {
        int32_t a = group[j < full ? j / 4 * 16 + row % 4 * 4 + order[j % 4] : 4 * j + row % 4];
        if (j == (uint8_t)end[1])
            a += 256 * end[0] + 128;
        const int64_t value = ((int64_t)a * scale + (INT64_C(1) << (shift - 1))) >> shift;
        y[j] = saturated((int32_t)value);
    }
}
