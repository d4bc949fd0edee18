// Activation functions over float.
//
// The Metal library has no erf, so GELU brings its own: a rational approximation of degree (11, 10), fitted to erf on
// [-3.925, 3.925] by weighted least squares; its absolute error is below 5e-7 in float.

#ifndef ANYMETAL_ACTIVATIONS_H
#define ANYMETAL_ACTIVATIONS_H

#include <metal_stdlib>

namespace anymetal {

/// x·Φ(x), Φ the normal distribution function: 1/2 + erf(x/√2)/2. The coefficients are those of erf with the powers of √2 and the half in
/// them; behind the end of the fit the quotient goes on as a line, so that Φ reaches 0 and 1.
inline float gelu(float x)
{
    const float t = metal::min(x * x, 30.819f);
    float p = 2.2438006e-8f;
    p = metal::fma(p, t, 6.3527485e-6f);
    p = metal::fma(p, t, 1.7131269e-4f);
    p = metal::fma(p, t, 4.6920479e-3f);
    p = metal::fma(p, t, 3.4113210e-2f);
    p = metal::fma(p, t, 3.9894220e-1f);
    float q = 1.1884793e-6f;
    q = metal::fma(q, t, 7.4359887e-5f);
    q = metal::fma(q, t, 1.8985538e-3f);
    q = metal::fma(q, t, 2.8791957e-2f);
    q = metal::fma(q, t, 2.5217494e-1f);
    q = metal::fma(q, t, 1.0f);
    return x * metal::saturate(metal::fma(x * p, 1.0f / q, 0.5f));
}

/// The tanh approximation of GELU: x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), by exp2, since tanh(u) = 1 − 2/(e²ᵘ + 1).
inline float gelu_tanh(float x)
{
    const float u = x * metal::fma(x * x, 0.044715f * 0.79788456f, 0.79788456f);
    return x - x / (metal::exp2(u * 2.88539008f) + 1.0f);
}

/// x·sigmoid(x).
inline float silu(float x)
{
    return x / (1.0f + metal::exp2(x * -1.44269504f));
}

/// What follows a linear layer.
enum activation : int {
    activation_none = 0,
    activation_gelu = 1,
    activation_gelu_tanh = 2,
    activation_silu = 3,
    activation_relu = 4,
};

/// Applies one of the activations, chosen at compile time.
template <int ACTIVATION>
inline float activate(float x)
{
    if constexpr (ACTIVATION == activation_gelu) {
        return gelu(x);
    } else if constexpr (ACTIVATION == activation_gelu_tanh) {
        return gelu_tanh(x);
    } else if constexpr (ACTIVATION == activation_silu) {
        return silu(x);
    } else if constexpr (ACTIVATION == activation_relu) {
        return metal::max(x, 0.0f);
    } else {
        return x;
    }
}

}  // namespace anymetal

#endif  // ANYMETAL_ACTIVATIONS_H
