static float leaky_relu(float z)
{
    return z > 0.0F ? z : 0.01F * z;
}
