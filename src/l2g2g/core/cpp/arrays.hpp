// Arrays that cross the border between Python and C++: NumPy arrays, contiguous, never copied or converted on the way in.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace l2g2g {
namespace nb = nanobind;
using namespace nb::literals;

// Inputs (read-only arrays are fine) and outputs. Every argument of a binding must be named with `.noconvert()`: otherwise
// nanobind would silently copy an array of another type, outputs included.
template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using VectorOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using MatrixOut = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using NewVector = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig>;
template <class T> using NewMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>, nb::c_contig>;

// A new NumPy array that takes over some values.
template <class T> NewVector<T> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NewVector<T>(kept->data(), {kept->size()}, owner);
}

// Refuses a call whose arguments do not fit, as ValueError.
inline void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Checks a CSR pattern once at the border: row bounds ascend within `num_entries`, columns are below num_columns.
inline void check_indptr(const int64_t* indptr, size_t size, size_t num_entries) {
    require(size >= 1, "indptr must have at least one entry");
    require(indptr[0] >= 0, "indptr must not be negative");
    for (size_t row = 1; row < size; ++row)
        if (indptr[row] < indptr[row - 1]) throw std::invalid_argument("indptr must not descend");
    require(static_cast<size_t>(indptr[size - 1]) <= num_entries, "indptr goes beyond the entries");
}
inline void check_indices(const int32_t* indices, size_t count, int64_t bound) {
    uint32_t largest = 0;  // a negative number becomes a huge one
    for (size_t entry = 0; entry < count; ++entry) largest = largest < static_cast<uint32_t>(indices[entry]) ? static_cast<uint32_t>(indices[entry]) : largest;
    if (count && static_cast<int64_t>(largest) >= bound) throw std::out_of_range("an index is out of range");
}

void bind_tensors(nb::module_& module);    // products, layers, pair losses, negatives, masks: bind_tensors.cpp
void bind_csr(nb::module_& module);        // csr.cpp
void bind_partition(nb::module_& module);  // partition.cpp
void bind_search(nb::module_& module);     // search.cpp
void bind_packing(nb::module_& module);    // packing.cpp
void bind_evidence(nb::module_& module);   // evidence.cpp

}  // namespace l2g2g
