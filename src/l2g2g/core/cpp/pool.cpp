#include "pool.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace l2g2g {
namespace {

// A worker looks for work this often before it sleeps: the next kernel of an epoch usually follows within microseconds.
constexpr int kLooks = 2000;

class Pool {
  public:
    explicit Pool(int count) {
        for (int thread = 1; thread < count; ++thread) workers_.emplace_back([this, thread] { serve(thread); });
    }

    ~Pool() {
        stop_.store(true, std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    void run(int64_t num_parts, Task task, const void* context) {
        num_parts_ = num_parts;
        task_ = task;
        context_ = context;
        failure_ = nullptr;
        next_.store(0, std::memory_order_relaxed);
        helpers_.store(0, std::memory_order_release);  // open: workers may join
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        take(0);
        close();
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    // Ends a round once no worker is in it. A worker that has not come yet is not waited for: on a busy machine it may take
    // milliseconds until it gets a core, and there is nothing left to do for it.
    void close() {
        for (int look = 0;; ++look) {
            int helpers = 0;
            if (helpers_.compare_exchange_weak(helpers, kClosed, std::memory_order_acquire)) return;
            if (look > kLooks && helpers != 0) helpers_.wait(helpers, std::memory_order_acquire);
        }
    }

    bool join() {
        int helpers = helpers_.load(std::memory_order_relaxed);
        while (helpers != kClosed)
            if (helpers_.compare_exchange_weak(helpers, helpers + 1, std::memory_order_acq_rel)) return true;
        return false;
    }

    void take(int thread) {
        try {
            for (int64_t part; (part = next_.fetch_add(1, std::memory_order_relaxed)) < num_parts_;) task_(context_, part, thread);
        } catch (...) {
            next_.store(num_parts_, std::memory_order_relaxed);
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
        }
    }

    void serve(int thread) {
        for (uint32_t seen = 0;;) {
            for (int look = 0; look < kLooks && round_.load(std::memory_order_acquire) == seen; ++look) {
            }
            round_.wait(seen, std::memory_order_acquire);
            seen = round_.load(std::memory_order_acquire);
            if (stop_.load(std::memory_order_relaxed)) return;
            if (!join()) continue;
            take(thread);
            if (helpers_.fetch_sub(1, std::memory_order_acq_rel) == 1) helpers_.notify_one();
        }
    }

    static constexpr int kClosed = -1;
    std::atomic<uint32_t> round_{0};
    std::atomic<int> helpers_{kClosed};  // workers in this round
    std::atomic<int64_t> next_{0};
    std::atomic<bool> stop_{false};
    int64_t num_parts_ = 0;
    Task task_ = nullptr;
    const void* context_ = nullptr;
    std::exception_ptr failure_;
    std::mutex mutex_;
    std::vector<std::thread> workers_;
};

std::mutex owner;  // one caller at a time; others run their parts alone
Pool* pool = nullptr;
int wanted = 1;

#ifndef _WIN32
// Threads do not survive a fork: the child forgets the pool, which stays allocated, and makes a new one when it needs it.
void forget_pool() {
    pool = nullptr;
    new (&owner) std::mutex();
}
const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
#endif

}  // namespace

void set_num_threads(int count) {
    const std::lock_guard<std::mutex> lock(owner);
    if (count == wanted) return;
    delete pool;
    pool = nullptr;
    wanted = count < 1 ? 1 : count;
}

int num_threads() { return wanted; }

void run_parts(int64_t num_parts, Task task, const void* context) {
    std::unique_lock<std::mutex> lock(owner, std::defer_lock);
    if (wanted > 1 && num_parts > 1 && lock.try_lock()) {
        if (!pool) pool = new Pool(wanted);
        pool->run(num_parts, task, context);
        return;
    }
    for (int64_t part = 0; part < num_parts; ++part) task(context, part, 0);
}

}  // namespace l2g2g
