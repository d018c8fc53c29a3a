/* o = S'q, for n rows and columns */
static void read_out(float *o, const float *S, const float *q, int n)
{
    for (int j = 0; j < n; j++) {
        o[j] = 0.0F;
        for (int i = 0; i < n; i++)
            o[j] += q[i] * S[i * n + j];
    }
}
