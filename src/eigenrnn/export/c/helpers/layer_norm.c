/* LayerNorm over n numbers */
static void layer_norm(float *z, const float *gain, const float *shift, int n, float epsilon)
{
    float mean = 0.0F;
    for (int i = 0; i < n; i++)
        mean += z[i];
    mean /= (float)n;
    float variance = 0.0F;
    for (int i = 0; i < n; i++)
        variance += (z[i] - mean) * (z[i] - mean);
    variance /= (float)n;
    const float factor = 1.0F / sqrtf(variance + epsilon);
    for (int i = 0; i < n; i++)
        z[i] = (z[i] - mean) * factor * gain[i] + shift[i];
}
