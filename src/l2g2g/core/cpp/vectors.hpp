// Rows of float tables as machine vectors. GCC's and Clang's vector extensions, so that one source compiles to SSE, AVX2,
// AVX-512 and NEON. Included by kernels.cpp only, once per instruction set; everything here is local to that file.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#define INLINE static inline __attribute__((always_inline))

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kWidest = 512;  // columns of a row whose width is not known at compile time

template <int L> struct VectorOf {
    typedef float type __attribute__((vector_size(4 * L)));
    typedef int32_t ints __attribute__((vector_size(4 * L)));
};
template <int L> using Floats = typename VectorOf<L>::type;
template <int L> using Ints = typename VectorOf<L>::ints;

template <int L> INLINE Floats<L> load(const float* from) {
    Floats<L> vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}
template <int L> INLINE void store(float* to, Floats<L> vector) { std::memcpy(to, &vector, sizeof vector); }
template <int L> INLINE Floats<L> all(float value) { return Floats<L>{} + value; }

// W floats of a row; W = 0: as many as `width` says, at most kWidest.
template <int W> struct Row {
    static constexpr int L = W < kLanes ? W : kLanes, N = W / L;
    Floats<L> parts[N];

    MEMBER void clear(int64_t) {
        for (int n = 0; n < N; ++n) parts[n] = Floats<L>{};
    }
    MEMBER void read(const float* from, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] = load<L>(from + n * L);
    }
    MEMBER void write(float* to, int64_t) const {
        for (int n = 0; n < N; ++n) store<L>(to + n * L, parts[n]);
    }
    MEMBER void add(const float* from, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] += load<L>(from + n * L);
    }
    MEMBER void add_scaled(float factor, const float* from, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] += factor * load<L>(from + n * L);
    }
    MEMBER void add(const Row& other, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] += other.parts[n];
    }
    MEMBER void scale(float factor, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] *= factor;
    }
    MEMBER void keep_positive(int64_t) {  // NaN stays NaN
        for (int n = 0; n < N; ++n) parts[n] = parts[n] <= 0.0f ? Floats<L>{} : parts[n];
    }
    MEMBER void keep_where_positive(const float* sign, int64_t) {
        for (int n = 0; n < N; ++n) parts[n] = load<L>(sign + n * L) <= 0.0f ? Floats<L>{} : parts[n];
    }
};

template <> struct Row<0> {
    float parts[kWidest];

    MEMBER void clear(int64_t width) { std::memset(parts, 0, sizeof(float) * static_cast<size_t>(width)); }
    MEMBER void read(const float* from, int64_t width) { std::memcpy(parts, from, sizeof(float) * static_cast<size_t>(width)); }
    MEMBER void write(float* to, int64_t width) const { std::memcpy(to, parts, sizeof(float) * static_cast<size_t>(width)); }
    MEMBER void add(const float* from, int64_t width) {
        for (int64_t n = 0; n < width; ++n) parts[n] += from[n];
    }
    MEMBER void add_scaled(float factor, const float* from, int64_t width) {
        for (int64_t n = 0; n < width; ++n) parts[n] += factor * from[n];
    }
    MEMBER void add(const Row& other, int64_t width) { add(other.parts, width); }
    MEMBER void scale(float factor, int64_t width) {
        for (int64_t n = 0; n < width; ++n) parts[n] *= factor;
    }
    MEMBER void keep_positive(int64_t width) {
        for (int64_t n = 0; n < width; ++n) parts[n] = parts[n] <= 0.0f ? 0.0f : parts[n];
    }
    MEMBER void keep_where_positive(const float* sign, int64_t width) {
        for (int64_t n = 0; n < width; ++n) parts[n] = sign[n] <= 0.0f ? 0.0f : parts[n];
    }
};

template <int W> struct Width {
    static constexpr int value = W;
};
// Calls function(Width<W>) with W = width where kernels are compiled for this width, and W = 0 elsewhere.
template <class Function> INLINE auto with_width(int64_t width, const Function& function) {
    switch (width) {
        case 8: return function(Width<8>{});
        case 16: return function(Width<16>{});
        case 32: return function(Width<32>{});
        case 48: return function(Width<48>{});
        case 64: return function(Width<64>{});
        case 128: return function(Width<128>{});
        default: return function(Width<0>{});
    }
}

template <int W> INLINE void prefetch_row(const float* row) {
    constexpr int bytes = W ? 4 * W : 64;
    for (int byte = 0; byte < (bytes < 256 ? bytes : 256); byte += 64) __builtin_prefetch(reinterpret_cast<const char*>(row) + byte);
}

// Sums of the lanes of L vectors: lane l of the result is the sum of vector l. Two vectors become one that holds halves of
// both, log2 L times over; a shuffle per half instead of log2 L shuffles per vector.
template <int L, int Stride, int... Lane> INLINE Floats<L> fold(Floats<L> one, Floats<L> two, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(one, two, (Lane + (Lane & Stride ? L : 0))...) +
           __builtin_shufflevector(one, two, ((Lane ^ Stride) + (Lane & Stride ? L : 0))...);
}
template <int L> INLINE Floats<L> sum_lanes(Floats<L>* vectors) {
    constexpr auto lanes = std::make_integer_sequence<int, L>{};
    for (int n = 0; n < L / 2; ++n) vectors[n] = fold<L, 1>(vectors[2 * n], vectors[2 * n + 1], lanes);
    if constexpr (L >= 4)
        for (int n = 0; n < L / 4; ++n) vectors[n] = fold<L, 2>(vectors[2 * n], vectors[2 * n + 1], lanes);
    if constexpr (L >= 8)
        for (int n = 0; n < L / 8; ++n) vectors[n] = fold<L, 4>(vectors[2 * n], vectors[2 * n + 1], lanes);
    if constexpr (L >= 16) vectors[0] = fold<L, 8>(vectors[0], vectors[1], lanes);
    return vectors[0];
}

}  // namespace
