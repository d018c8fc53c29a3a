/* the modulus is rectified, the sign stays */
static float modrelu(float z, float bias)
{
    const float modulus = fabsf(z) + bias;
    if (modulus <= 0.0F || fabsf(z) <= 0.0F)
        return 0.0F;
    return z < 0.0F ? -modulus : modulus;
}
