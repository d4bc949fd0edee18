// Range-based loops.
//
// error: E0310 range-based 'for' is not supported

constant float table[3] = {1.0f, 2.0f, 3.0f};

kernel void f(device float *y [[buffer(0)]])
{
    for (auto x : table) {
        y[0] += x;
    }
}
