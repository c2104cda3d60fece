#include "arrays.hpp"

namespace l2g2g {

void bind_search(nb::module_&) {}

}  // namespace l2g2g
