static float sigmoid(float z)
{
    return 1.0F / (1.0F + expf(-z));
}
