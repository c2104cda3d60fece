// Patterns in packed order, for the negatives, and questions to sorted patterns.
#include "arrays.hpp"
#include "pool.hpp"

#include <algorithm>

namespace l2g2g {
namespace {

std::pair<NewVector<int64_t>, NewVector<int32_t>> pack_pattern(Vector<int64_t> indptr, Vector<int32_t> indices, Vector<int64_t> other_indptr, Vector<int32_t> other_indices,
                                                               Vector<int32_t> order, Vector<int32_t> places) {
    const int64_t num_rows = static_cast<int64_t>(order.size());
    require(indptr.size() == order.size() + 1 && other_indptr.size() == order.size() + 1 && places.size() == order.size(), "patterns, order and places must have the same rows");
    check_indptr(indptr.data(), indptr.size(), indices.size());
    check_indptr(other_indptr.data(), other_indptr.size(), other_indices.size());
    check_indices(indices.data(), indices.size(), num_rows);
    check_indices(other_indices.data(), other_indices.size(), num_rows);
    check_indices(order.data(), order.size(), num_rows);
    check_indices(places.data(), places.size(), num_rows);
    std::vector<int64_t> starts(static_cast<size_t>(num_rows) + 1, 0);
    std::vector<int32_t> columns;
    {
        const nb::gil_scoped_release release;
        const auto length = [&](int64_t row) { return indptr.data()[row + 1] - indptr.data()[row] + other_indptr.data()[row + 1] - other_indptr.data()[row]; };
        for (int64_t place = 0; place < num_rows; ++place) starts[static_cast<size_t>(place) + 1] = starts[static_cast<size_t>(place)] + length(order.data()[place]);
        columns.resize(static_cast<size_t>(starts.back()));
        std::vector<int64_t> counts(static_cast<size_t>(num_rows));
        const int64_t parts = 8 * num_threads();
        parallel_for(parts, [&](int64_t part, int) {
            for (int64_t place = num_rows * part / parts; place < num_rows * (part + 1) / parts; ++place) {
                const int64_t row = order.data()[place];
                int32_t* first = columns.data() + starts[static_cast<size_t>(place)];
                int32_t* last = first;
                for (int64_t entry = indptr.data()[row]; entry < indptr.data()[row + 1]; ++entry) *last++ = places.data()[indices.data()[entry]];
                for (int64_t entry = other_indptr.data()[row]; entry < other_indptr.data()[row + 1]; ++entry) *last++ = places.data()[other_indices.data()[entry]];
                std::sort(first, last);
                counts[static_cast<size_t>(place)] = std::unique(first, last) - first;
            }
        });
        int64_t end = 0;  // close the gaps that pairs of both patterns leave
        for (int64_t place = 0; place < num_rows; ++place) {
            const int64_t start = starts[static_cast<size_t>(place)], count = counts[static_cast<size_t>(place)];
            if (start != end) std::copy(columns.begin() + start, columns.begin() + start + count, columns.begin() + end);
            starts[static_cast<size_t>(place)] = end;
            end += count;
        }
        starts.back() = end;
        columns.resize(static_cast<size_t>(end));
    }
    return {to_numpy(std::move(starts)), to_numpy(std::move(columns))};
}

}  // namespace

void bind_packing(nb::module_& module) {
    module.def("pack_pattern", &pack_pattern, "indptr"_a.noconvert(), "indices"_a.noconvert(), "other_indptr"_a.noconvert(), "other_indices"_a.noconvert(),
               "order"_a.noconvert(), "places"_a.noconvert(),
               R"((indptr int64, columns int32) of the union of two square CSR patterns, rows and columns in another order.

indptr, other_indptr: (num_rows + 1,) int64. indices, other_indices: int32. order: (num_rows,) int32 row at each new place.
places: (num_rows,) int32 new place of each row.)");
}

}  // namespace l2g2g
