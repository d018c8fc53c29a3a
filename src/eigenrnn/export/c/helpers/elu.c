static float elu(float z)
{
    return z > 0.0F ? z : expm1f(z);
}
