// A header of Metal that is outside compute on buffers and tensors.
//
// error: E0101 file 'metal_raytracing' not found

#include <metal_raytracing>
