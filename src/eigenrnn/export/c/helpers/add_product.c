/* y += A x; A has eight rows at a time side by side, column by column, then the other rows */
static void add_product(float *y, const float *A, const float *x, int rows, int columns)
{
    for (; rows >= 8; rows -= 8) {
        float y0 = 0.0F, y1 = 0.0F, y2 = 0.0F, y3 = 0.0F;
        float y4 = 0.0F, y5 = 0.0F, y6 = 0.0F, y7 = 0.0F;
        for (int j = 0; j < columns; j++) {
            y0 = multiply_add(A[0], x[j], y0);
            y1 = multiply_add(A[1], x[j], y1);
            y2 = multiply_add(A[2], x[j], y2);
            y3 = multiply_add(A[3], x[j], y3);
            y4 = multiply_add(A[4], x[j], y4);
            y5 = multiply_add(A[5], x[j], y5);
            y6 = multiply_add(A[6], x[j], y6);
            y7 = multiply_add(A[7], x[j], y7);
            A += 8;
        }
        y[0] += y0;
        y[1] += y1;
        y[2] += y2;
        y[3] += y3;
        y[4] += y4;
        y[5] += y5;
        y[6] += y6;
        y[7] += y7;
        y += 8;
    }
    for (; rows > 0; rows--) {
        float sum = 0.0F;
        for (int j = 0; j < columns; j++)
            sum = multiply_add(A[j], x[j], sum);
        A += columns;
        *y++ += sum;
    }
}
