// Patterns in packed order, for the negatives, and questions to sorted patterns.
#include "arrays.hpp"
#include "pool.hpp"

#include <algorithm>

#define INLINE inline
#include "hashing.hpp"

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

// Row r of a patch draws as many targets as the others, within one; a target is the row on whose part of the line of units a
// random number falls. Pairs that are excluded are left out.
std::pair<NewVector<int32_t>, NewVector<int32_t>> draw_targets(Vector<int64_t> offsets, Vector<int64_t> num_draws, Vector<int64_t> shifts, Vector<uint64_t> keys,
                                                               Vector<int64_t> unit_starts, Vector<uint32_t> node_hashes, Vector<int32_t> places, Vector<int64_t> indptr,
                                                               Vector<int32_t> columns, std::optional<Vector<uint8_t>> wanted) {
    const size_t num_patches = num_draws.size(), size = places.size();
    const int64_t num_rows = static_cast<int64_t>(size);
    require(offsets.size() == num_patches + 1 && shifts.size() == num_patches && keys.size() == num_patches, "there must be offsets, draws, a shift and a key per patch");
    require(unit_starts.size() == size + 1 && node_hashes.size() == size && indptr.size() == size + 1, "there must be units, a hash, a place and excluded columns per row");
    require(!wanted || wanted->size() == size, "wanted must have a number per row");
    check_indptr(offsets.data(), offsets.size(), size);
    require(offsets.data()[0] == 0 && offsets.data()[num_patches] == num_rows, "patches must cover the rows");
    check_indptr(indptr.data(), indptr.size(), columns.size());
    check_indices(places.data(), size, num_rows);
    for (size_t row = 0; row < size; ++row) require(unit_starts.data()[row] <= unit_starts.data()[row + 1], "units must not be negative");
    for (size_t patch = 0; patch < num_patches; ++patch) {
        const int64_t rows = offsets.data()[patch + 1] - offsets.data()[patch], draws = num_draws.data()[patch];
        const int64_t units = unit_starts.data()[offsets.data()[patch + 1]] - unit_starts.data()[offsets.data()[patch]];
        require(draws >= 0 && draws < (int64_t{1} << 40) && units < (int64_t{1} << 31) && (draws == 0 || (rows > 0 && units > 0)), "a patch has an impossible number of draws or units");
        require(shifts.data()[patch] >= 0 && shifts.data()[patch] <= rows, "a shift must be below the rows of its patch");
    }
    // guide[row + k] is the row of the patch that holds unit k / rows of its line: a search begins there.
    std::vector<int64_t> guide(size);
    for (size_t patch = 0; patch < num_patches; ++patch) {
        const int64_t low = offsets.data()[patch], rows = offsets.data()[patch + 1] - low;
        const int64_t* starts = unit_starts.data() + low;
        const int64_t units = starts[rows] - starts[0];
        for (int64_t k = 0, row = 0; k < rows; ++k) {
            while (row + 1 < rows && starts[row + 1] - starts[0] <= k * units / rows) ++row;
            guide[static_cast<size_t>(low + k)] = row;
        }
    }
    const int64_t parts = 8 * num_threads();
    std::vector<std::vector<int32_t>> sources(static_cast<size_t>(parts)), targets(static_cast<size_t>(parts));
    std::vector<int32_t> all_sources, all_targets;
    {
        const nb::gil_scoped_release release;
        parallel_for(parts, [&](int64_t part, int) {
            std::vector<int32_t>&own = sources[static_cast<size_t>(part)], &found = targets[static_cast<size_t>(part)];
            size_t patch = 0;
            for (int64_t row = num_rows * part / parts; row < num_rows * (part + 1) / parts; ++row) {
                while (row >= offsets.data()[patch + 1]) ++patch;
                const int64_t low = offsets.data()[patch], high = offsets.data()[patch + 1], draws = num_draws.data()[patch], shift = shifts.data()[patch];
                if (draws == 0 || (wanted && !wanted->data()[row])) continue;
                const int64_t place = places.data()[row], local = place - low;
                const int64_t count = ((local + 1) * draws + shift) / (high - low) - (local * draws + shift) / (high - low);
                const int64_t* starts = unit_starts.data() + low;
                const int64_t units = starts[high - low] - starts[0];
                const int32_t *excluded = columns.data() + indptr.data()[place], *excluded_end = columns.data() + indptr.data()[place + 1];
                for (int64_t number = 0; number < count; ++number) {
                    const uint32_t word = hash_number(keys.data()[patch], node_hashes.data()[row], static_cast<uint32_t>(number));
                    const int64_t unit = static_cast<int64_t>((word * static_cast<uint64_t>(units)) >> 32);
                    int64_t target = guide[static_cast<size_t>(low + unit * (high - low) / units)];
                    while (starts[target + 1] - starts[0] <= unit) ++target;
                    target += low;
                    if (target == row || std::binary_search(excluded, excluded_end, places.data()[target])) continue;
                    own.push_back(static_cast<int32_t>(row));
                    found.push_back(static_cast<int32_t>(target));
                }
            }
        });
        for (size_t part = 0; part < sources.size(); ++part) {
            all_sources.insert(all_sources.end(), sources[part].begin(), sources[part].end());
            all_targets.insert(all_targets.end(), targets[part].begin(), targets[part].end());
        }
    }
    return {to_numpy(std::move(all_sources)), to_numpy(std::move(all_targets))};
}

}  // namespace

void bind_packing(nb::module_& module) {
    module.def("pack_pattern", &pack_pattern, "indptr"_a.noconvert(), "indices"_a.noconvert(), "other_indptr"_a.noconvert(), "other_indices"_a.noconvert(),
               "order"_a.noconvert(), "places"_a.noconvert(),
               R"((indptr int64, columns int32) of the union of two square CSR patterns, rows and columns in another order.

indptr, other_indptr: (num_rows + 1,) int64. indices, other_indices: int32. order: (num_rows,) int32 row at each new place.
places: (num_rows,) int32 new place of each row.)");
    module.def("draw_targets", &draw_targets, "offsets"_a.noconvert(), "num_draws"_a.noconvert(), "shifts"_a.noconvert(), "keys"_a.noconvert(), "unit_starts"_a.noconvert(),
               "node_hashes"_a.noconvert(), "places"_a.noconvert(), "indptr"_a.noconvert(), "columns"_a.noconvert(), "wanted"_a.noconvert().none() = nb::none(),
               R"((rows, columns) int32 of negatives whose columns are drawn in proportion to their units.

offsets: (num_patches + 1,) int64 rows of each patch. num_draws, shifts: (num_patches,) int64. keys: (num_patches,) uint64.
unit_starts: (num_rows + 1,) int64 units of all rows before each. node_hashes: (num_rows,) uint32. places: (num_rows,) int32
packed place of each row. indptr, columns: CSR in packed order of pairs that are left out, columns ascending. wanted:
(num_rows,) uint8, only the draws of these rows.)");
}

}  // namespace l2g2g
