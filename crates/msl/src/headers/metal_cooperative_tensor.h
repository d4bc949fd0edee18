#pragma once
#include <metal_tensor>
