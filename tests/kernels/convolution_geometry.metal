// Strides, dilations, offsets and kernel sizes of convolution2d (reference 7.4): one threadgroup computes the whole destination.
//
// kernel: geometry
// threads: 32 1 1
// grid: threadgroups 1 1 1
//
// run: stride 2, symmetric borders
// flags: -D DESCRIPTOR=int4(6,6,5,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(2,2) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 6, 5, 1) = fill(9)
// expect 2: conv2d(0, 1) strides (2, 2)
//
// run: stride 2, zeros on one side only
// flags: -D DESCRIPTOR=int4(6,5,4,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(2,2) -D DILATIONS=int2(1,1) -D OFFSETS=int2(1,1)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 5, 4, 1) = fill(9)
// expect 2: conv2d(0, 1) strides (2, 2) offsets (1, 1)
//
// run: different in x and y
// flags: -D DESCRIPTOR=int4(6,4,5,1),int4(3,11,9,1),int2(5,2) -D STRIDES=int2(3,1) -D DILATIONS=int2(1,3) -D OFFSETS=int2(-1,2)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 5, 2) = random(2)
// arg 2: tensor float (6, 4, 5, 1) = fill(9)
// expect 2: conv2d(0, 1) strides (3, 1) dilations (1, 3) offsets (-1, 2)
//
// run: dilation 2
// flags: -D DESCRIPTOR=int4(6,11,9,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(2,2) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 11, 9, 1) = fill(9)
// expect 2: conv2d(0, 1) dilations (2, 2)
//
// run: a kernel of 1 × 1
// flags: -D DESCRIPTOR=int4(6,11,9,1),int4(3,11,9,1),int2(1,1) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 1, 1) = random(2)
// arg 2: tensor float (6, 11, 9, 1) = fill(9)
// expect 2: conv2d(0, 1)
//
// run: even kernels are centred at the lower place
// flags: -D DESCRIPTOR=int4(6,11,9,1),int4(3,11,9,1),int2(4,2) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 4, 2) = random(2)
// arg 2: tensor float (6, 11, 9, 1) = fill(9)
// expect 2: conv2d(0, 1)
//
// run: no borders
// flags: -D DESCRIPTOR=int4(6,9,7,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(1,1)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 9, 7, 1) = fill(9)
// expect 2: conv2d(0, 1) offsets (1, 1)
//
// run: everything outside
// flags: -D DESCRIPTOR=int4(6,11,9,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(-100,2147483647)
// arg 0: tensor float (3, 11, 9, 1) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 11, 9, 1) = fill(9)
// expect 2: zeros
//
// run: several batches
// flags: -D DESCRIPTOR=int4(6,4,5,3),int4(3,4,5,3),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 4, 5, 3) = random(1)
// arg 1: tensor float (6, 3, 3, 3) = random(2)
// arg 2: tensor float (6, 4, 5, 3) = fill(9)
// expect 2: conv2d(0, 1)
//
// run: source_dimensions end before the tensor
// flags: -D DESCRIPTOR=int4(6,4,4,1),int4(2,4,3,1),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (2, 6, 5, 1) = random(1)
// arg 1: tensor float (6, 2, 3, 3) = random(2)
// arg 2: tensor float (6, 4, 4, 1) = fill(9)
// expect 2: formula "sum(k, 0, 18, (floor(i / 6) % 4 + floor(k / 2) % 3 - 1 >= 0 && floor(i / 6) % 4 + floor(k / 2) % 3 - 1 < 4 && floor(i / 24)
//     + floor(k / 6) - 1 >= 0 && floor(i / 24) + floor(k / 6) - 1 < 3) ? a0[k % 2 + 2 * (floor(i / 6) % 4 + floor(k / 2) % 3 - 1)
//     + 12 * (floor(i / 24) + floor(k / 6) - 1)] * a1[i % 6 + 6 * k] : 0)"
//
// run: weights that are not packed
// flags: -D DESCRIPTOR=int4(6,11,9,1),int4(3,11,9,1),int2(3,3) -D STRIDES=int2(1,1) -D DILATIONS=int2(1,1) -D OFFSETS=int2(0,0)
// arg 0: tensor float (3, 11, 9, 1) strides (1, 4, 50, 460) = random(1)
// arg 1: tensor float (6, 3, 3, 3) strides (1, 7, 22, 70) = random(2)
// arg 2: tensor float (6, 11, 9, 1) strides (1, 8, 90, 900) = fill(9)
// expect 2: conv2d(0, 1)

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void geometry(tensor<device float, dextents<int, 4>> activation [[buffer(0)]],
                     tensor<device float, dextents<int, 4>> weights [[buffer(1)]],
                     tensor<device float, dextents<int, 4>> destination [[buffer(2)]])
{
    constexpr auto descriptor = convolution2d_descriptor(
        DESCRIPTOR, convolution2d_activation_layout::nhwc, convolution2d_weights_layout::hwio, STRIDES, DILATIONS, 1,
        false, convolution2d_descriptor::mode::multiply);
    convolution2d<descriptor, execution_simdgroup> op;
    op.set_offsets(OFFSETS);
    op.run(activation, weights, destination);
}
