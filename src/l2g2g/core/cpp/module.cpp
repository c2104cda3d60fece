#include "arrays.hpp"
#include "pool.hpp"

NB_MODULE(_native, module) {
    nanobind::set_leak_warnings(false);  // a process that ends by an error does not free its patterns first
    module.doc() = "The native CPU kernels of l2g2g.";
    module.def("set_num_threads", &l2g2g::set_num_threads, nanobind::arg("count"), "Set how many threads kernels use.");
    module.def("num_threads", &l2g2g::num_threads, "Threads that kernels use.");
    l2g2g::bind_tensors(module);
    l2g2g::bind_packing(module);
    l2g2g::bind_csr(module);
    l2g2g::bind_partition(module);
    l2g2g::bind_evidence(module);
    l2g2g::bind_search(module);
}
