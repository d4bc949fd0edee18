#pragma once
#include <metal_stdlib>
#include <metal_tensor>
#include <metal_cooperative_tensor>
#ifdef __HAVE_TENSOR__
#define __TENSOR_OPS_SUPPORT_DEPLOYMENT_TARGET_26_2 1
#ifdef __HAVE_TENSOR_MULTIPLANE__
#define __TENSOR_OPS_SUPPORT_DEPLOYMENT_TARGET_27_0 1
#endif
#endif
