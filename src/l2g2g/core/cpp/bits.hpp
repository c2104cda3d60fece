// Products with a matrix of zeros and ones whose rows are bits, eight columns a byte. All 256 sums of eight rows of the table
// are made once, so that a byte is one addition; the transpose adds rows up by byte and gives the sums to the columns.
#pragma once
#include <vector>

namespace {
using namespace l2g2g;

constexpr int64_t kSums = 1 << 16;  // floats of the sums that are at hand together: a quarter of the second-level cache
constexpr int64_t kChoices = 256;
constexpr int64_t kSpare = 4;  // where rows with none of eight columns go by turns, so that none waits for the one before

// How many bytes of a row are worked on together: a power of two, which divides the length of a row.
INLINE int64_t bytes_at_once(int64_t width) {
    int64_t bytes = kBitPadding;
    while (bytes > 1 && bytes * kChoices * width > kSums) bytes /= 2;
    return bytes;
}

// Memory of a thread, aligned to a cache line.
INLINE float* thread_memory(int64_t count) {
    thread_local std::vector<float> memory;
    if (static_cast<int64_t>(memory.size()) < count + 16) memory.resize(static_cast<size_t>(count + 16));
    return memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16) % 16;
}

// sums[byte] = the sum of the rows of the table whose bits are set, for columns from `column` on.
template <int W> void sum_choices(const BitArguments& a, int64_t column, float* sums) {
    Row<W> own;
    own.clear(a.width);
    own.write(sums, a.width);
    for (int64_t bit = 0; bit < 8; ++bit)
        for (int64_t choice = 0; choice < int64_t{1} << bit; ++choice) {
            own.read(sums + choice * a.width, a.width);
            if (column + bit < a.num_columns) own.add(a.table + (column + bit) * a.width, a.width);
            own.write(sums + ((int64_t{1} << bit) + choice) * a.width, a.width);
        }
}

template <int W> void multiply_bits_range(const BitArguments& a, int64_t low, int64_t high) {
    const int64_t width = W ? W : a.width, step = bytes_at_once(width);
    float* sums = thread_memory(step * kChoices * width);
    for (int64_t byte = 0; byte < a.num_bytes; byte += step) {
        const bool is_first = byte == 0, is_last = byte + step >= a.num_bytes;
        for (int64_t place = 0; place < step; ++place) sum_choices<W>(a, 8 * (byte + place), sums + place * kChoices * width);
        for (int64_t row = low; row < high; ++row) {
            const uint8_t* bits = a.bits + row * a.num_bytes + byte;
            Row<W> sum;
            if (is_first)
                sum.clear(width);
            else
                sum.read(a.out + row * width, width);
            if (step == 1) {
                sum.add(sums + bits[0] * width, width);
            } else {
                Row<W> other;  // two sums side by side
                other.clear(width);
                for (int64_t place = 0; place < step; place += 2) {
                    sum.add(sums + (place * kChoices + bits[place]) * width, width);
                    other.add(sums + ((place + 1) * kChoices + bits[place + 1]) * width, width);
                }
                sum.add(other, width);
            }
            if (is_last) {
                sum.scale(a.values ? a.factor * a.values[row] : a.factor, width);
                if (a.scale && !a.scale_added) sum.scale(a.scale[row], width);
                if (a.added) sum.add(a.added + row * a.added_stride, width);
                if (a.scale && a.scale_added) sum.scale(a.scale[row], width);
            }
            sum.write(a.out + row * width, width);
        }
    }
}

void multiply_bits(const BitArguments& a) {
    const int64_t items = l2g2g::num_threads() == 1 || a.num_rows * a.num_bytes < 100000 ? 1 : 2 * l2g2g::num_threads();
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        const int64_t low = a.num_rows * item / items, high = a.num_rows * (item + 1) / items;
        with_width(a.width, [&](auto w) { multiply_bits_range<decltype(w)::value>(a, low, high); });
    });
}

// The columns of `step` bytes of the transpose's product.
template <int W> void multiply_bits_transposed_range(const BitArguments& a, int64_t byte, int64_t step) {
    const int64_t width = W ? W : a.width, choices = (kChoices + kSpare) * width;
    float* sums = thread_memory(step * choices);
    std::memset(sums, 0, sizeof(float) * static_cast<size_t>(step * choices));
    for (int64_t row = 0; row < a.num_rows; ++row) {
        const uint8_t* bits = a.bits + row * a.num_bytes + byte;
        Row<W> own;
        own.read(a.table + row * width, width);
        own.scale(a.values ? a.factor * a.values[row] : a.factor, width);
        const int64_t spare = kChoices + row % kSpare;
        for (int64_t place = 0; place < step; ++place) {
            const int64_t choice = bits[place] | (spare & -static_cast<int64_t>(bits[place] == 0));
            add_to_row<W>(sums + place * choices + choice * width, 1.0f, own, width);
        }
    }
    for (int64_t place = 0; place < step; ++place) {
        float* own = sums + place * choices;
        for (int64_t bit = 7; bit >= 0; --bit) {  // the upper half has this bit; then its rows join the lower half
            const int64_t half = int64_t{1} << bit, column = 8 * (byte + place) + bit;
            Row<W> total;
            total.clear(width);
            for (int64_t choice = 0; choice < half; ++choice) {
                Row<W> upper;
                upper.read(own + (half + choice) * width, width);
                total.add(upper, width);
                upper.add(own + choice * width, width);
                upper.write(own + choice * width, width);
            }
            if (column < a.num_columns) total.write(a.out + column * width, width);
        }
    }
}

void multiply_bits_transposed(const BitArguments& a) {
    const int64_t step = bytes_at_once(a.width);
    l2g2g::parallel_for(a.num_bytes / step, [&](int64_t item, int) {
        with_width(a.width, [&](auto w) { multiply_bits_transposed_range<decltype(w)::value>(a, item * step, step); });
    });
}

// The bits that dropout keeps.
void drop_bits(const DropBitArguments& a) {
    typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
    const int64_t items = l2g2g::num_threads() == 1 || a.num_rows * a.num_bytes < 100000 ? 1 : 2 * l2g2g::num_threads();
    const uint32_t flip = static_cast<uint32_t>(a.key >> 32), least = static_cast<uint32_t>(a.threshold);
    Words first;
    for (int lane = 0; lane < kLanes; ++lane) first[lane] = static_cast<uint32_t>(lane) * kSpread;
    l2g2g::parallel_for(items, [&](int64_t item, int) {
        for (int64_t row = a.num_rows * item / items; row < a.num_rows * (item + 1) / items; ++row) {
            const uint8_t* bits = a.bits + row * a.num_bytes;
            uint8_t* out = a.out + row * a.num_bytes;
            Words numbers = first + a.node_hashes[row];
            for (int64_t byte = 0; byte < a.num_bytes; byte += 2)
                for (int64_t lane = 0, kept = 0; lane < 16; lane += kLanes) {
                    Words word = numbers ^ flip;  // mix() of hashing.hpp
                    word = (word ^ (word >> 16)) * 0x7feb352du;
                    word = (word ^ (word >> 15)) * 0x846ca68bu;
                    word ^= word >> 16;
                    numbers += static_cast<uint32_t>(kLanes) * kSpread;
#ifdef __AVX512F__
                    kept = _mm512_cmpge_epu32_mask((__m512i)word, _mm512_set1_epi32(static_cast<int>(least)));
#else
                    for (int n = 0; n < kLanes; ++n) kept |= static_cast<int64_t>(word[n] >= least) << (lane + n);
#endif
                    if (lane + kLanes < 16) continue;
                    out[byte] = static_cast<uint8_t>(bits[byte] & kept);
                    out[byte + 1] = static_cast<uint8_t>(bits[byte + 1] & (kept >> 8));
                }
        }
    });
}

}  // namespace
