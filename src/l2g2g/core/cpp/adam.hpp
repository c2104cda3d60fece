// Adam: one step in one pass over parameters, gradient and moments.
#pragma once

namespace {
using namespace l2g2g;

void step_adam(const AdamArguments& a) {
    const float step = a.rate / a.mean_correction, root = 1.0f / __builtin_sqrtf(a.square_correction);
    for (int64_t place = 0; place < a.count; ++place) {
        const float gradient = a.gradient[place];
        const float mean = 0.9f * a.means[place] + 0.1f * gradient;
        const float square = 0.999f * a.squares[place] + 0.001f * gradient * gradient;
        a.means[place] = mean;
        a.squares[place] = square;
        a.values[place] -= step * mean / (__builtin_sqrtf(square) * root + 1e-8f);
    }
}

}  // namespace
