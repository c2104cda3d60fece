// A small pool of threads: no OpenMP runtime beside those of torch and scikit-learn.
#pragma once
#include <cstdint>

namespace l2g2g {

// Sets how many threads kernels use; 1 runs everything in the calling thread.
void set_num_threads(int count);
int num_threads();

// Calls task(context, part, thread) for every part in [0, num_parts), each once. Parts are handed out in order to whichever
// thread is free, so a task must write only what belongs to its part. An exception in a part is rethrown here.
using Task = void (*)(const void* context, int64_t part, int thread);
void run_parts(int64_t num_parts, Task task, const void* context);

template <class Function> void parallel_for(int64_t num_parts, const Function& function) {  // function(part, thread)
    run_parts(
        num_parts, [](const void* context, int64_t part, int thread) { (*static_cast<const Function*>(context))(part, thread); },
        &function);
}

}  // namespace l2g2g
