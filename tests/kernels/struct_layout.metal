// Struct members stand at their Metal alignments: float3 takes 16 bytes, packed_float3 takes 12, arrays and nested structs keep theirs.
//
// kernel: struct_layout
// arg 0: bytes = float 1, float 0, float 0, float 0, float 2, float 3, float 4, float 0, float 5, float 6, float 7, half 8, half 9, int 10, int 11, int 12, int 13
// arg 1: buffer float[16] = zeros
// arg 2: buffer uint[6] = zeros
// threads: 1 1 1
// expect 1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 0, 0]
// expect 2: [64, 16, 16, 32, 44, 12]

#include <metal_stdlib>
using namespace metal;

struct halves {
    half first;
    half second;
};

struct record {
    float head;
    float3 vector;
    packed_float3 tight;
    halves pair;
    int list[4];
};

struct after_packed {
    packed_float3 v;
};

kernel void struct_layout(constant record& r [[buffer(0)]],
                          device float* y [[buffer(1)]],
                          device uint* sizes [[buffer(2)]])
{
    y[0] = r.head;
    y[1] = r.vector.x;
    y[2] = r.vector.y;
    y[3] = r.vector.z;
    y[4] = r.tight[0];
    y[5] = r.tight[1];
    y[6] = r.tight[2];
    y[7] = r.pair.first;
    y[8] = r.pair.second;
    for (int k = 0; k < 4; k++) {
        y[9 + k] = float(r.list[k]);
    }
    constant char* start = reinterpret_cast<constant char*>(&r);
    sizes[0] = sizeof(record);
    sizes[1] = alignof(record);
    sizes[2] = uint(reinterpret_cast<constant char*>(&r.vector) - start);
    sizes[3] = uint(reinterpret_cast<constant char*>(&r.tight) - start);
    sizes[4] = uint(reinterpret_cast<constant char*>(&r.pair) - start);
    sizes[5] = sizeof(after_packed);
}
