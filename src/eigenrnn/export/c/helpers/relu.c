static float relu(float z)
{
    return z < 0.0F ? 0.0F : z; /* NaN stays NaN */
}
