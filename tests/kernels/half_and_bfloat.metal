// half and bfloat: conversion rounds to nearest even, arithmetic rounds after each operation, literals with suffix h.
//
// kernel: sixteen_bit
// arg 0: buffer float[256] = random(2, -100, 100)
// arg 1: buffer half[256] = zeros
// arg 2: buffer bfloat[256] = zeros
// arg 3: buffer float[256] = zeros
// grid: threads 256 1 1
// threads: 64 1 1
// expect 1: formula "a0[i]"
// expect 2: formula "a0[i]"
// expect 3: formula "2 * a0[i]"
// tolerance: abs 1e-2 rel 4e-3

#include <metal_stdlib>
using namespace metal;

kernel void sixteen_bit(device const float* x [[buffer(0)]],
                        device half* h [[buffer(1)]],
                        device bfloat* b [[buffer(2)]],
                        device float* y [[buffer(3)]],
                        uint id [[thread_position_in_grid]])
{
    h[id] = half(x[id]);
    b[id] = bfloat(x[id]);
    const half doubled = h[id] * 2.0h;
    y[id] = 0.5f * (float(doubled) + 2.0f * float(b[id]));
}
