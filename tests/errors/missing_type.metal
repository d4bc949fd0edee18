// A kernel without a returned type.
//
// error: E0308 the type of 'f' is missing

kernel f(device float *y [[buffer(0)]])
{
}
