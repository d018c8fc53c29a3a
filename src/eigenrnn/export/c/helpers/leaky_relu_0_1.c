static float leaky_relu_0_1(float z)
{
    return z > 0.0F ? z : 0.1F * z;
}
