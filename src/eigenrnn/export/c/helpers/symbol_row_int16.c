/* y = a row of A, which lies as in accumulate_int16, times its scale over 2^shift */
static void symbol_row_int16(int16_t *y, const int16_t *A, int row, int columns, int shift)
{
    const int full = columns / 2 * 2;
    const int16_t *group = A + row / 2 * (2 * columns + 4);
    const int32_t digits = (uint16_t)group[2 * columns + row % 2];
    const int32_t scale = digits << group[2 * columns + 2 + row % 2];
    for (int j = 0; j < columns; j++) {
        const int32_t a = group[j < full ? j / 2 * 4 + row % 2 * 2 + j % 2 : 2 * j + row % 2];
        const int64_t value = ((int64_t)a * scale + (INT64_C(1) << (shift - 1))) >> shift;
        y[j] = saturated((int32_t)value);
    }
}
