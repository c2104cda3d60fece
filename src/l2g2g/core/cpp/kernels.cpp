// The kernels with vector code, compiled once for every instruction set (LEVEL). Everything but the table is local to this
// file, so that no function of one level can stand in for that of another.
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "arguments.hpp"
#include "pool.hpp"

#include "vectors.hpp"

#include "hashing.hpp"
#include "softplus.hpp"

#include "products.hpp"

#include "bits.hpp"

#include "layers.hpp"

#include "pairs.hpp"

#include "negatives.hpp"

#include "masks.hpp"

#include "adam.hpp"

#define JOIN_(one, two) one##two
#define JOIN(one, two) JOIN_(one, two)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

namespace l2g2g {

const Kernels& JOIN(kernels_, LEVEL)() {
    static const Kernels kernels = {
        TEXT(LEVEL),      multiply,   multiply_two, multiply_transposed, multiply_bits, multiply_bits_transposed, drop_bits, forward_layer,  backward_layer,  move_rows, multiply_dense, multiply_dense_transposed, sum_rows, score_arcs, score_list,
        multiply_ends,    spread_to_ends, score_negatives, list_negatives, split_masked,    select_below, drop_dense,   step_adam, hash_nodes, hash_pairs,
    };
    return kernels;
}

}  // namespace l2g2g
