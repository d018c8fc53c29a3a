/* y = a row of A, which lies as in add_product_KIND */
static void copy_row_KIND(float *y, const NUMBER *A, const float *scale, int row, int rows,
                               int columns)
{
    const int full = rows / 8 * 8;
    for (int j = 0; j < columns; j++) {
        const NUMBER a = row < full ? A[row / 8 * 8 * columns + 8 * j + row % 8]
                                    : A[row * columns + j];
        y[j] = scale[row] * (float)a;
    }
}
