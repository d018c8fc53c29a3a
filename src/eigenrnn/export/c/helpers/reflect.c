/* S += beta k (v - S'k)', for n rows and columns */
static void reflect(float *S, const float *k, const float *v, float beta, int n)
{
    for (int j = 0; j < n; j++) {
        float error = v[j];
        for (int i = 0; i < n; i++)
            error -= k[i] * S[i * n + j];
        for (int i = 0; i < n; i++)
            S[i * n + j] += beta * k[i] * error;
    }
}
