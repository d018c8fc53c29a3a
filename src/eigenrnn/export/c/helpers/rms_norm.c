/* RMSNorm over n numbers */
static void rms_norm(float *z, const float *gain, int n, float epsilon)
{
    float square = 0.0F;
    for (int i = 0; i < n; i++)
        square += z[i] * z[i];
    const float factor = 1.0F / sqrtf(square / (float)n + epsilon);
    for (int i = 0; i < n; i++)
        z[i] *= factor * gain[i];
}
