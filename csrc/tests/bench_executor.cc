// Measures how long a callback takes by batch size and number of workers, with matchers of a fixed cost: what the pool
// adds to the work itself. Prints medians in microseconds, with the lower bound `work / threads`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "grammar_executor.h"
#include "spin.h"

using namespace specguide;
using namespace std::chrono_literals;

namespace {

constexpr int kVocab = 128256, kDrafts = 3, kIterations = 60;
constexpr auto kFillTime = 10us;

// Accepts any token; writes a whole row and spins for the rest of its time.
class BurningMatcher : public Matcher {
 public:
  bool accept(int32_t) override { return true; }
  void fill(int32_t* row) override {
    const auto end = Clock::now() + kFillTime;
    std::fill_n(row, (kVocab + 31) / 32, ++num_fills_);
    while (Clock::now() < end) cpu_relax();
  }
  void rollback(int) override {}
  bool is_terminated() const override { return false; }
  std::vector<int32_t> forced_tokens() override { return {}; }

 private:
  int32_t num_fills_ = 0;
};

double median_callback_us(int batch_size, int num_threads, std::chrono::microseconds pause) {
  constexpr int kNodes = kDrafts + 1;
  std::vector<int32_t> rows(static_cast<size_t>(batch_size) * kNodes * ((kVocab + 31) / 32));
  std::vector<int64_t> fill_ids(batch_size * kNodes);
  std::vector<uint8_t> held(batch_size);
  std::vector<int32_t> tokens(batch_size * kNodes, 1), num_accepted(batch_size);
  int32_t needed = 0;
  auto executor = std::make_shared<GrammarExecutor>(
      GrammarBuffers{batch_size, kDrafts, kVocab, rows.data(), fill_ids.data(), held.data(), tokens.data(),
                   num_accepted.data(), &needed, nullptr},
      num_threads, GrammarExecutor::Waits{1s, 1s, 1s});
  const auto callbacks = executor->callbacks();
  std::vector<GrammarExecutor::Start> started;
  std::vector<int> slots;
  for (int slot = 0; slot < batch_size; ++slot) {
    started.emplace_back(slot, std::make_shared<BurningMatcher>());
    slots.push_back(slot);
  }
  executor->submit(started, {});
  std::vector<double> times;
  for (int i = 0; i < kIterations; ++i) {
    if (i > 0) executor->submit({}, slots);
    for (const HostFunctionRef& callback : callbacks) {
      std::this_thread::sleep_for(pause);  // meanwhile the forward pass would run
      const auto begin = Clock::now();
      callback->call();
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const auto pause : {150us, 3000us}) {
    std::printf("pause between callbacks %d us\n%8s", static_cast<int>(pause.count()), "batch");
    for (int threads = 1; threads < num_cores; threads *= 2) std::printf("%9d thr", threads);
    std::printf("%9d thr\n", std::max(1, num_cores - 2));
    for (int batch_size : {1, 4, 16, 64, 128}) {
      std::printf("%8d", batch_size);
      for (int threads = 1; threads < num_cores; threads *= 2) {
        std::printf("%13.1f", median_callback_us(batch_size, threads, pause));
      }
      std::printf("%13.1f\n", median_callback_us(batch_size, std::max(1, num_cores - 2), pause));
      std::fflush(stdout);
    }
  }
  return EXIT_SUCCESS;
}
