// A sample of the maths library in its default (fast) form against f64.
//
// kernel: maths
// arg 0: buffer float[64] = random(3, 0.1, 4)
// arg 1: buffer float[64] = random(4, -3, 3)
// arg 2: buffer float[960] = zeros
// grid: threads 64 1 1
// threads: 64 1 1
// expect 2[0..64]: formula "exp(a1[i])"
// expect 2[64..128]: formula "log(a0[i - 64])"
// expect 2[128..192]: formula "sin(a1[i - 128])"
// expect 2[192..256]: formula "cos(a1[i - 192])"
// expect 2[256..320]: formula "tanh(a1[i - 256])"
// expect 2[320..384]: formula "pow(a0[i - 320], a1[i - 320])"
// expect 2[384..448]: formula "rsqrt(a0[i - 384])"
// expect 2[448..512]: formula "floor(a1[i - 448]) + ceil(a1[i - 448]) + trunc(a1[i - 448])"
// expect 2[512..576]: formula "clamp(a1[i - 512], -1, 0.5)"
// expect 2[576..640]: formula "a0[i - 576] * a1[i - 576] + 2"
// expect 2[640..704]: formula "exp2(a1[i - 640])"
// expect 2[704..768]: formula "log2(a0[i - 704])"
// expect 2[768..832]: formula "a1[i - 768] < 0 ? -a0[i - 768] : a0[i - 768]"
// expect 2[832..896]: formula "a1[i - 832] - floor(a1[i - 832])"
// expect 2[896..960]: formula "0.25 * a0[i - 896] + 0.75 * a1[i - 896]"
// tolerance: abs 1e-5 rel 1e-4

#include <metal_stdlib>
using namespace metal;

kernel void maths(device const float* p [[buffer(0)]],
                  device const float* s [[buffer(1)]],
                  device float* y [[buffer(2)]],
                  uint id [[thread_position_in_grid]])
{
    const float a = p[id];
    const float b = s[id];
    y[id] = exp(b);
    y[64 + id] = log(a);
    y[128 + id] = sin(b);
    y[192 + id] = cos(b);
    y[256 + id] = tanh(b);
    y[320 + id] = pow(a, b);
    y[384 + id] = rsqrt(a);
    y[448 + id] = floor(b) + ceil(b) + trunc(b);
    y[512 + id] = clamp(b, -1.0f, 0.5f);
    y[576 + id] = fma(a, b, 2.0f);
    y[640 + id] = exp2(b);
    y[704 + id] = log2(a);
    y[768 + id] = copysign(a, b);
    y[832 + id] = fract(b);
    y[896 + id] = mix(a, b, 0.75f);
}
