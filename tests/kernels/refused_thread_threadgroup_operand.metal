// A thread takes no operand from threadgroup memory.
//
// error: E0866 Unsupported address space: the left operand is in threadgroup memory

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device float* c [[buffer(0)]])
{
    threadgroup float memory[16];
    constexpr matmul2d_descriptor descriptor(4, 4, 4);
    matmul2d<descriptor, execution_thread> op;
    tensor left(memory, dextents<int, 2>(4, 4));
    tensor out(c, dextents<int, 2>(4, 4));
    op.run(left, out, out);
}
