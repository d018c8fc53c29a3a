/* LayerNorm over n numbers */
static void layer_norm(float *z, const float *gain, const float *shift, int n, float epsilon)
{
    float centre = 0.0F;
    for (int i = 0; i < n; i++)
        centre += z[i];
    centre /= (float)n;
    float variance = 0.0F;
    for (int i = 0; i < n; i++)
        variance += (z[i] - centre) * (z[i] - centre);
    variance /= (float)n;
    const float factor = 1.0F / sqrtf(variance + epsilon);
    for (int i = 0; i < n; i++)
        z[i] = (z[i] - centre) * factor * gain[i] + shift[i];
}
