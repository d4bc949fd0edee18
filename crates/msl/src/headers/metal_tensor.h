#pragma once
#include <metal_config>
#include <metal_array>
#include <metal_packed_numeric>
#include <metal_execution_unit>
