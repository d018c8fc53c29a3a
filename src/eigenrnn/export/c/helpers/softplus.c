static float softplus(float z)
{
    return z > 40.0F ? z : log1pf(expf(z));
}
