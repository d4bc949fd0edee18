#pragma once
#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_INTERNAL inline __attribute__((__always_inline__))
