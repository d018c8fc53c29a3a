static float positive(float z)
{
    return z >= 0.0F ? z + 0.5F : sigmoid(z);
}
