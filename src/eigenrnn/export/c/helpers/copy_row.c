/* y = a row of A, which lies as in add_product */
static void copy_row(float *y, const float *A, int row, int rows, int columns)
{
    const int full = rows / 8 * 8;
    for (int j = 0; j < columns; j++)
        y[j] = row < full ? A[row / 8 * 8 * columns + 8 * j + row % 8] : A[row * columns + j];
}
