// Only kernels run here.
//
// error: E0310 fragment functions are not supported

fragment float4 shade()
{
    return float4(1.0f);
}
