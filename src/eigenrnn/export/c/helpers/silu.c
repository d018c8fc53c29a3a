static float silu(float z)
{
    return z / (1.0F + expf(-z));
}
