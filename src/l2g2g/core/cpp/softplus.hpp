// softplus(x) = log(1 + e^x), the loss of a logistic score, and its slope sigma(x); within 2e-7 relative.
#pragma once

namespace {

INLINE void softplus(Floats<kLanes> x, Floats<kLanes>& loss, Floats<kLanes>& slope) {
    using F = Floats<kLanes>;
    using I = Ints<kLanes>;
    // e = exp(-|x|) = 2^n 2^r with |r| <= 1/2; the polynomials are Chebyshev fits.
    const F magnitude = x < 0.0f ? -x : x;
    const F clipped = magnitude < 87.0f ? magnitude : (magnitude >= 87.0f ? all<kLanes>(87.0f) : magnitude);  // NaN stays NaN
    const F power = clipped * -1.44269504f;
    const F shift = all<kLanes>(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
    const F rounded = power + shift;
    const F rest = power - (rounded - shift);
    F e = all<kLanes>(1.546144472e-04f);
    e = e * rest + 1.340042818e-03f;
    e = e * rest + 9.618056678e-03f;
    e = e * rest + 5.550327227e-02f;
    e = e * rest + 2.402265092e-01f;
    e = e * rest + 6.931472067e-01f;
    e = e * rest + 1.0f;
    e = (F)((I)e + (((I)rounded - (I)shift) << 23));
    F log = all<kLanes>(5.126102123e-03f);  // log(1 + e) / e on [0, 1]
    log = log * e - 2.907406461e-02f;
    log = log * e + 7.751608662e-02f;
    log = log * e - 1.360224761e-01f;
    log = log * e + 1.907688073e-01f;
    log = log * e - 2.483539899e-01f;
    log = log * e + 3.331812171e-01f;
    log = log * e - 4.999944498e-01f;
    log = log * e + 9.999999659e-01f;
    const F share = 1.0f / (1.0f + e);
    slope = x < 0.0f ? e * share : share;
    loss = (x < 0.0f ? F{} : x) + log * e;
}

}  // namespace
