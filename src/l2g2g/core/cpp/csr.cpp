// Patterns in CSR form: induced subgraphs, edges between clusters, edges that no patch holds, look-ups.
#include "arguments.hpp"
#include "graphs.hpp"

namespace l2g2g {
namespace {

struct Patches {
    const int64_t* nodes;
    const int64_t* offsets;
    int64_t num_patches, num_rows;
};

Patches check_patches(const Vector<int64_t>& nodes, const Vector<int64_t>& offsets, int64_t num_nodes) {
    check_indptr(offsets.data(), offsets.shape(0), nodes.shape(0));
    check_nodes(nodes, num_nodes);
    require(nodes.shape(0) < (size_t{1} << 31), "stacked patches must have fewer than 2^31 rows");
    return {nodes.data(), offsets.data(), static_cast<int64_t>(offsets.shape(0)) - 1, static_cast<int64_t>(nodes.shape(0))};
}

// visit(row, entry, column, inside) for all entries of the stacked rows whose nodes are among the rows of the graph, which
// are those of the nodes from first_node on, patches in parallel. column: the stacked row of the entry's node where inside
// is true. Every thread has one table over the nodes, which is never cleared: patches come to a thread in ascending order,
// so rows of earlier patches are smaller than those of this one.
template <class Visit>
void visit_patches(const Pattern& graph, int64_t first_node, int64_t num_nodes, const Patches& patches, const Visit& visit) {
    std::vector<std::vector<int32_t>> tables(static_cast<size_t>(num_threads()));
    parallel_for(patches.num_patches, [&](int64_t patch, int thread) {
        auto& row_of_node = tables[static_cast<size_t>(thread)];
        if (row_of_node.empty()) row_of_node.assign(static_cast<size_t>(num_nodes), -1);
        const int64_t low = patches.offsets[patch], high = patches.offsets[patch + 1];
        for (int64_t row = low; row < high; ++row) row_of_node[static_cast<size_t>(patches.nodes[row])] = static_cast<int32_t>(row);
        for (int64_t row = low; row < high; ++row) {
            const int64_t own = patches.nodes[row] - first_node;
            if (own < 0 || own >= graph.num_rows) continue;
            for (int64_t entry = graph.indptr[own]; entry < graph.indptr[own + 1]; ++entry) {
                const int32_t column = row_of_node[static_cast<size_t>(graph.indices[entry])];
                visit(row, entry, column, column >= low);
            }
        }
    });
}

std::vector<int64_t> count_rows(const Pattern& graph, int64_t first_node, int64_t num_nodes, const Patches& patches) {
    std::vector<int64_t> indptr(static_cast<size_t>(patches.num_rows) + 1, 0);
    int64_t* counts = indptr.data() + 1;
    visit_patches(graph, first_node, num_nodes, patches, [counts](int64_t row, int64_t, int32_t, bool inside) { counts[row] += inside; });
    for (int64_t row = 0; row < patches.num_rows; ++row) indptr[static_cast<size_t>(row) + 1] += indptr[static_cast<size_t>(row)];
    return indptr;
}

NewVector<int64_t> induced_indptr(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, int64_t first_node, int64_t num_nodes,
                                  const Vector<int64_t>& nodes, const Vector<int64_t>& offsets) {
    std::vector<int64_t> new_indptr;
    {
        nb::gil_scoped_release release;
        const Pattern graph = check_pattern(indptr, indices, num_nodes);
        new_indptr = count_rows(graph, first_node, num_nodes, check_patches(nodes, offsets, num_nodes));
    }
    return to_numpy(std::move(new_indptr));
}

std::tuple<NewVector<int64_t>, NewVector<int32_t>, NewVector<int64_t>> induce(const Vector<int64_t>& indptr,
                                                                             const Vector<int32_t>& indices, int64_t first_node,
                                                                             int64_t num_nodes, const Vector<int64_t>& nodes,
                                                                             const Vector<int64_t>& offsets) {
    std::vector<int64_t> new_indptr, entries;
    std::vector<int32_t> columns;
    {
        nb::gil_scoped_release release;
        const Pattern graph = check_pattern(indptr, indices, num_nodes);
        const Patches patches = check_patches(nodes, offsets, num_nodes);
        new_indptr = count_rows(graph, first_node, num_nodes, patches);
        columns.resize(static_cast<size_t>(new_indptr.back()));
        entries.resize(columns.size());
        std::vector<int64_t> next(new_indptr.begin(), new_indptr.end() - 1);
        visit_patches(graph, first_node, num_nodes, patches, [&](int64_t row, int64_t entry, int32_t column, bool inside) {
            if (!inside) return;
            const auto place = static_cast<size_t>(next[static_cast<size_t>(row)]++);
            columns[place] = column;
            entries[place] = entry;
        });
    }
    return {to_numpy(std::move(new_indptr)), to_numpy(std::move(columns)), to_numpy(std::move(entries))};
}

bool share_a_patch(const Pattern& held, int64_t node, int64_t other) {
    int64_t a = held.indptr[node], b = held.indptr[other];
    while (a < held.indptr[node + 1] && b < held.indptr[other + 1]) {
        if (held.indices[a] == held.indices[b]) return true;
        if (held.indices[a] < held.indices[b])
            ++a;
        else
            ++b;
    }
    return false;
}

std::pair<NewVector<int32_t>, NewVector<int32_t>> cut_edges(const Vector<int64_t>& indptr, const Vector<int32_t>& indices,
                                                            int64_t first_node, const Vector<int64_t>& held_indptr,
                                                            const Vector<int32_t>& held) {
    std::vector<int32_t> sources, targets;
    {
        nb::gil_scoped_release release;
        check_indptr(held_indptr.data(), held_indptr.shape(0), held.shape(0));
        const Pattern holders{held_indptr.data(), held.data(), static_cast<int64_t>(held_indptr.shape(0)) - 1};
        const Pattern graph = check_pattern(indptr, indices, holders.num_rows);
        require(first_node >= 0 && first_node + graph.num_rows <= holders.num_rows, "held_indptr must have one row for each node");
        constexpr int64_t kGrain = 8192;
        std::vector<std::vector<std::pair<int32_t, int32_t>>> found(static_cast<size_t>((graph.num_rows + kGrain - 1) / kGrain));
        parallel_ranges(graph.num_rows, kGrain, [&](int64_t low, int64_t high, int) {
            auto& here = found[static_cast<size_t>(low / kGrain)];
            for (int64_t row = low; row < high; ++row)
                for (int64_t node = first_node + row, entry = graph.indptr[row]; entry < graph.indptr[row + 1]; ++entry)
                    if (graph.indices[entry] > node && !share_a_patch(holders, node, graph.indices[entry]))
                        here.emplace_back(static_cast<int32_t>(node), graph.indices[entry]);
        });
        for (const auto& part : found)
            for (const auto& [source, target] : part) {
                sources.push_back(source);
                targets.push_back(target);
            }
    }
    return {to_numpy(std::move(sources)), to_numpy(std::move(targets))};
}

std::tuple<NewVector<int64_t>, NewVector<int32_t>, NewVector<int64_t>> count_between(const Vector<int64_t>& indptr,
                                                                                    const Vector<int32_t>& indices,
                                                                                    const Vector<int32_t>& labels,
                                                                                    const Vector<int64_t>& members,
                                                                                    const Vector<int64_t>& starts) {
    std::vector<int64_t> new_indptr, counts;
    std::vector<int32_t> columns;
    {
        nb::gil_scoped_release release;
        const Pattern graph = check_pattern(indptr, indices, static_cast<int64_t>(labels.shape(0)));
        check_nodes(members, graph.num_rows);
        check_indptr(starts.data(), starts.shape(0), members.shape(0));
        const int64_t num_clusters = static_cast<int64_t>(starts.shape(0)) - 1;
        struct Counting {
            std::vector<int64_t> counts;
            std::vector<int32_t> touched;
        };
        std::vector<Counting> threads(static_cast<size_t>(num_threads()));
        std::vector<std::vector<std::pair<int32_t, int64_t>>> rows(static_cast<size_t>(num_clusters));
        parallel_for(num_clusters, [&](int64_t cluster, int thread) {
            auto& [seen, touched] = threads[static_cast<size_t>(thread)];
            seen.resize(static_cast<size_t>(num_clusters), 0);
            touched.clear();
            for (int64_t place = starts.data()[cluster]; place < starts.data()[cluster + 1]; ++place) {
                const int64_t row = members.data()[place];
                for (int64_t entry = graph.indptr[row]; entry < graph.indptr[row + 1]; ++entry) {
                    const int32_t other = labels.data()[graph.indices[entry]];
                    if (other == cluster) continue;
                    if (other < 0 || other >= num_clusters) throw std::out_of_range("a label is out of range");
                    if (seen[static_cast<size_t>(other)]++ == 0) touched.push_back(other);
                }
            }
            std::sort(touched.begin(), touched.end());
            auto& here = rows[static_cast<size_t>(cluster)];
            here.reserve(touched.size());
            for (const int32_t other : touched) {
                here.emplace_back(other, seen[static_cast<size_t>(other)]);
                seen[static_cast<size_t>(other)] = 0;
            }
        });
        new_indptr.push_back(0);
        for (const auto& row : rows) {
            for (const auto& [other, count] : row) {
                columns.push_back(other);
                counts.push_back(count);
            }
            new_indptr.push_back(static_cast<int64_t>(columns.size()));
        }
    }
    return {to_numpy(std::move(new_indptr)), to_numpy(std::move(columns)), to_numpy(std::move(counts))};
}

NewVector<int64_t> find_entries(const Vector<int64_t>& indptr, const Vector<int32_t>& indices, const Vector<int64_t>& rows,
                                const Vector<int64_t>& columns) {
    std::vector<int64_t> found(rows.shape(0));
    {
        nb::gil_scoped_release release;
        require(rows.shape(0) == columns.shape(0), "rows and columns must be equally long");
        require(indptr.shape(0) >= 1, "indptr must have at least one entry");
        const auto num_rows = static_cast<int64_t>(indptr.shape(0)) - 1, num_entries = static_cast<int64_t>(indices.shape(0));
        parallel_ranges(static_cast<int64_t>(rows.shape(0)), 1 << 14, [&](int64_t low, int64_t high, int) {
            for (int64_t pair = low; pair < high; ++pair) {
                // Only the rows that are asked for are checked: a few look-ups may go to a large pattern.
                const int64_t row = rows.data()[pair];
                if (row < 0 || row >= num_rows) throw std::out_of_range("a row is out of range");
                const int64_t begin = indptr.data()[row], end = indptr.data()[row + 1];
                require(0 <= begin && begin <= end && end <= num_entries, "indptr does not fit the indices");
                found[static_cast<size_t>(pair)] = find_in_row(indices.data(), begin, end, columns.data()[pair]);
            }
        });
    }
    return to_numpy(std::move(found));
}

// Where numbers stand in an ascending list. starts[b] is the place of the first node that is not below b << shift: so few nodes
// lie between two starts that a search among them touches one or two cache lines.
NewVector<int32_t> find_places(const Vector<int32_t>& nodes, const Vector<int32_t>& starts, int64_t shift, const Vector<int32_t>& values) {
    std::vector<int32_t> places(values.shape(0));
    {
        nb::gil_scoped_release release;
        require(0 <= shift && shift < 31, "shift must be from 0 to 30");
        const auto num_starts = static_cast<int64_t>(starts.shape(0));
        check_indices(starts.data(), starts.shape(0), static_cast<int64_t>(nodes.shape(0)) + 1);
        parallel_ranges(static_cast<int64_t>(values.shape(0)), 1 << 14, [&](int64_t low, int64_t high, int) {
            for (int64_t each = low; each < high; ++each) {
                const int32_t value = values.data()[each];
                const int64_t bucket = value >> shift;
                int32_t place = -1;
                if (value >= 0 && bucket + 1 < num_starts) {
                    const int32_t *first = nodes.data() + starts.data()[bucket], *last = nodes.data() + starts.data()[bucket + 1];
                    const int32_t* found = first < last ? std::lower_bound(first, last, value) : last;
                    if (found < last && *found == value) place = static_cast<int32_t>(found - nodes.data());
                }
                places[static_cast<size_t>(each)] = place;
            }
        });
    }
    return to_numpy(std::move(places));
}

// Pairs in the order of their rows, those of one row as they come.
std::tuple<NewVector<int32_t>, NewVector<int32_t>, NewVector<int64_t>> sort_pairs(const Vector<int32_t>& rows,
                                                                                 const Vector<int32_t>& columns, int64_t num_rows) {
    std::vector<int32_t> new_rows(rows.shape(0)), new_columns(rows.shape(0));
    std::vector<int64_t> starts(static_cast<size_t>(std::max<int64_t>(num_rows, 0)) + 1, 0);
    {
        nb::gil_scoped_release release;
        require(rows.shape(0) == columns.shape(0), "rows and columns must be equally long");
        check_indices(rows.data(), rows.shape(0), num_rows);
        for (size_t pair = 0; pair < rows.shape(0); ++pair) ++starts[static_cast<size_t>(rows.data()[pair]) + 1];
        for (size_t row = 1; row < starts.size(); ++row) starts[row] += starts[row - 1];
        std::vector<int64_t> next(starts.begin(), starts.end() - 1);
        for (size_t pair = 0; pair < rows.shape(0); ++pair) {
            const int32_t row = rows.data()[pair];
            const auto place = static_cast<size_t>(next[static_cast<size_t>(row)]++);
            new_rows[place] = row;
            new_columns[place] = columns.data()[pair];
        }
    }
    return {to_numpy(std::move(new_rows)), to_numpy(std::move(new_columns)), to_numpy(std::move(starts))};
}

void add_rows(const Matrix<float>& rows, const Vector<int32_t>& places, const Vector<float>& factors, const MatrixOut<float>& table) {
    const size_t count = rows.shape(0), width = rows.shape(1);
    require(width == table.shape(1), "rows and table must have the same width");
    require(places.shape(0) == count && factors.shape(0) == count, "there must be a place and a factor for each row");
    check_indices(places.data(), count, static_cast<int64_t>(table.shape(0)));
    for (size_t row = 0; row < count; ++row) {
        float* out = table.data() + static_cast<size_t>(places.data()[row]) * width;
        const float* in = rows.data() + row * width;
        const float factor = factors.data()[row];
        for (size_t column = 0; column < width; ++column) out[column] += factor * in[column];
    }
}

struct Hidden {
    std::vector<int32_t> rows, columns;
    std::vector<int64_t> entries;
};

// The edges u < v of some rows whose hash is below a bound and whose groups differ. Parts of the rows are listed in
// parallel and joined in order.
std::tuple<NewVector<int32_t>, NewVector<int32_t>, NewVector<int64_t>> hidden_edges(
    const Vector<int64_t>& indptr, const Vector<int32_t>& indices, const Vector<int32_t>& nodes, const Vector<uint32_t>& hashes,
    std::optional<Vector<int32_t>> groups, uint64_t key, uint64_t bound) {
    Hidden all;
    {
        nb::gil_scoped_release release;
        const auto num_nodes = static_cast<int64_t>(hashes.shape(0));
        const Pattern graph = check_pattern(indptr, indices, num_nodes);
        require(static_cast<int64_t>(nodes.shape(0)) == graph.num_rows, "nodes must have one number for each row");
        check_indices(nodes.data(), nodes.shape(0), num_nodes);
        require(!groups || static_cast<int64_t>(groups->shape(0)) == num_nodes, "groups must have one number for each node");
        constexpr int64_t kRows = 1 << 11;
        std::vector<Hidden> parts(static_cast<size_t>((graph.num_rows + kRows - 1) / kRows));
        parallel_ranges(graph.num_rows, kRows, [&](int64_t low, int64_t high, int) {
            Hidden& part = parts[static_cast<size_t>(low / kRows)];
            std::vector<int32_t> places;
            for (int64_t row = low; row < high; ++row) {
                const int32_t node = nodes.data()[row];
                const int32_t* end = graph.indices + graph.indptr[row + 1];
                const int32_t* first = std::upper_bound(graph.indices + graph.indptr[row], end, node);
                places.resize(std::max(places.size(), static_cast<size_t>(end - first) + 16));
                const int64_t count =
                    active->select_below(first, end - first, hashes.data()[node], hashes.data(), key, bound, places.data());
                for (int64_t k = 0; k < count; ++k) {
                    const int32_t* place = first + places[static_cast<size_t>(k)];
                    if (groups && groups->data()[node] == groups->data()[*place]) continue;
                    part.rows.push_back(node);
                    part.columns.push_back(*place);
                    part.entries.push_back(place - graph.indices);
                }
            }
        });
        for (const Hidden& part : parts) {
            all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
            all.columns.insert(all.columns.end(), part.columns.begin(), part.columns.end());
            all.entries.insert(all.entries.end(), part.entries.begin(), part.entries.end());
        }
    }
    return {to_numpy(std::move(all.rows)), to_numpy(std::move(all.columns)), to_numpy(std::move(all.entries))};
}

}  // namespace

void bind_csr(nb::module_& module) {
    module.def("induced_indptr", &induced_indptr, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first_node"_a, "num_nodes"_a,
               "nodes"_a.noconvert(), "offsets"_a.noconvert(),
               "(num_stacked + 1,) int64 row bounds of the block-diagonal induced submatrices of all patches; `induce` says more.\n\n"
               "indptr, indices, first_node, num_nodes, nodes, offsets: as for `induce`.");
    module.def("induce", &induce, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first_node"_a, "num_nodes"_a,
               "nodes"_a.noconvert(), "offsets"_a.noconvert(),
               "(indptr int64, columns int32, entries int64): the block-diagonal induced submatrices of all patches, and which\n"
               "entries of the graph theirs are. Rows of nodes that have no row here are empty.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32: CSR pattern of the nodes from first_node on.\n"
               "num_nodes: columns of the pattern. nodes: (num_stacked,) int64 nodes of the patches, patch after patch.\n"
               "offsets: (num_patches + 1,) int64, patch p has the rows offsets[p]:offsets[p + 1].");
    module.def("cut_edges", &cut_edges, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first_node"_a,
               "held_indptr"_a.noconvert(), "held"_a.noconvert(),
               "(sources int32, targets int32), source < target: the edges that no patch holds, in the order of the rows.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32: CSR pattern of the nodes from first_node on.\n"
               "held_indptr: (num_nodes + 1,) int64, held: (num_rows,) int32: the patches of each node, ascending.");
    module.def("count_between", &count_between, "indptr"_a.noconvert(), "indices"_a.noconvert(), "labels"_a.noconvert(),
               "members"_a.noconvert(), "starts"_a.noconvert(),
               "(indptr int64, columns int32, counts int64): entries of each cluster's rows whose column is in another cluster.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32: CSR pattern of all nodes or of a block of them.\n"
               "labels: (num_nodes,) int32 cluster of each column.\n"
               "members: (num_members,) int64 rows, cluster after cluster; starts: (num_clusters + 1,) int64 their bounds.");
    module.def("find_entries", &find_entries, "indptr"_a.noconvert(), "indices"_a.noconvert(), "rows"_a.noconvert(),
               "columns"_a.noconvert(),
               "(num_pairs,) int64 place of each pair's entry in a CSR pattern, -1 where there is none.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32, ascending in each row: CSR pattern.\n"
               "rows, columns: (num_pairs,) int64.");
    module.def("find_places", &find_places, "nodes"_a.noconvert(), "starts"_a.noconvert(), "shift"_a, "values"_a.noconvert(),
               "(num_values,) int32 place of each value in a list of nodes, -1 where it has none.\n\n"
               "nodes: (num_nodes,) int32, ascending. starts: (num_buckets + 1,) int32 place of the first node that is not below\n"
               "bucket << shift; values of buckets beyond have no place. values: (num_values,) int32.");
    module.def("sort_pairs", &sort_pairs, "rows"_a.noconvert(), "columns"_a.noconvert(), "num_rows"_a,
               "(rows int32, columns int32, starts int64): pairs in the order of their rows, those of one row as they come.\n\n"
               "rows, columns: (num_pairs,) int32. num_rows: rows are below it; starts has num_rows + 1 places.");
    module.def("add_rows", &add_rows, "rows"_a.noconvert(), "places"_a.noconvert(), "factors"_a.noconvert(), "table"_a.noconvert(),
               nb::call_guard<nb::gil_scoped_release>(),
               "Add to rows of a table, in place and in order: table[places[i]] += factors[i] rows[i].\n\n"
               "rows: (num_rows, width) float32, places: (num_rows,) int32, factors: (num_rows,) float32.\n"
               "table: (num_places, width) float32.");
    module.def("hidden_edges", &hidden_edges, "indptr"_a.noconvert(), "indices"_a.noconvert(), "nodes"_a.noconvert(),
               "hashes"_a.noconvert(), "groups"_a.noconvert().none(), "key"_a, "bound"_a,
               "(rows int32, columns int32, entries int64): the edges u < v of some rows that a mask hides, by their nodes.\n\n"
               "indptr: (num_rows + 1,) int64, indices: (num_entries,) int32, ascending in each row: CSR pattern of the rows.\n"
               "nodes: (num_rows,) int32 the node of each row; hashes: (num_nodes,) uint32 of all nodes under the key.\n"
               "groups: (num_nodes,) int32; edges inside a group are not hidden. bound: hashes of pairs below it are hidden.");
}

}  // namespace l2g2g
