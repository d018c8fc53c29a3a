/* scale v to the length given; a vector without a direction becomes zero */
static void unit(float *v, int n, float length)
{
    float square = 0.0F;
    for (int i = 0; i < n; i++)
        square += v[i] * v[i];
    const float factor = square > 1e-12F ? length / sqrtf(square) : 0.0F;
    for (int i = 0; i < n; i++)
        v[i] *= factor;
}
