static float gelu(float z)
{
    return 0.5F * z * (1.0F + erff(z * 0.707106781F));
}
