#include "arrays.hpp"

namespace l2g2g {

void bind_tensors(nb::module_&) {}

}  // namespace l2g2g
