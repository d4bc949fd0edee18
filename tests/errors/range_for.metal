// A range-based loop over something that is no array.
//
// error: E0559 is no array

struct pair_of_numbers {
    float a;
    float b;
};

kernel void f(device float *y [[buffer(0)]])
{
    pair_of_numbers pair = {1, 2};
    for (float x : pair) {
        y[0] += x;
    }
}
