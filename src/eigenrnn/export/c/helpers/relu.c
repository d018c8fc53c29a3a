static float relu(float z)
{
    return z > 0.0F ? z : 0.0F;
}
