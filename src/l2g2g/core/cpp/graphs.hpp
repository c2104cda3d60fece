// What the kernels on graphs share: a checked CSR pattern, a search in one of its rows, loops over ranges.
#pragma once
#include <algorithm>

#include "arrays.hpp"
#include "pool.hpp"

namespace l2g2g {

struct Pattern {
    const int64_t* indptr;
    const int32_t* indices;
    int64_t num_rows;
};

// A pattern whose rows lie within its entries and whose columns are below num_columns, so that kernels need no checks.
inline Pattern check_pattern(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, int64_t num_columns) {
    check_indptr(indptr.data(), indptr.shape(0), indices.shape(0));
    check_indices(indices.data(), indices.shape(0), num_columns);
    return {indptr.data(), indices.data(), static_cast<int64_t>(indptr.shape(0)) - 1};
}

// The place of a column in a row whose columns ascend; -1 where it is not.
inline int64_t find_in_row(const int32_t* indices, int64_t begin, int64_t end, int64_t column) {
    const int32_t* found = std::lower_bound(indices + begin, indices + end, column);
    return found < indices + end && *found == column ? found - indices : -1;
}

inline void check_nodes(const Vector<int64_t>& nodes, int64_t num_nodes) {
    for (size_t place = 0; place < nodes.shape(0); ++place)
        if (nodes.data()[place] < 0 || nodes.data()[place] >= num_nodes) throw std::out_of_range("a node is out of range");
}

// function(low, high, thread) for consecutive ranges of at most `grain`, in parallel. The ranges do not depend on the
// number of threads.
template <class Function> void parallel_ranges(int64_t count, int64_t grain, const Function& function) {
    parallel_for((count + grain - 1) / grain,
                 [&](int64_t part, int thread) { function(part * grain, std::min(count, (part + 1) * grain), thread); });
}

template <class T> NewMatrix<T> to_numpy(std::vector<T>&& values, size_t num_rows, size_t num_columns) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NewMatrix<T>(kept->data(), {num_rows, num_columns}, owner);
}

}  // namespace l2g2g
