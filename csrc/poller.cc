#include "poller.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "reclaimer.h"
#include "spin.h"

namespace specguide {

namespace {

constexpr int kBusyTime = 80;  // times spin_time(), 20 ms where there are cores enough: longer than most iterations
constexpr std::chrono::nanoseconds kShortestNap{50'000}, kLongestNap{1'000'000};
constexpr std::chrono::milliseconds kWatchInterval{50}, kReleaseInterval{1}, kLongUnseen{1000};
constexpr std::chrono::seconds kPatience{5};
constexpr int kMostTakeovers = 3;  // without a function run in between

enum class State {
  kFree,
  kReady,      // the stream may come here
  kTaken,      // it has; the function has not begun
  kRunning,
  kRan,
  kFinishing,  // the stream is being let go on
  kSpent,      // launched outside a capture: free once the stream has gone on
};

struct Slot {
  std::atomic<State> state{State::kFree};
  HostFunctionRef function;
  bool is_captured = false;

  bool change(State from, State to) { return state.compare_exchange_strong(from, to); }
};

struct EndOfThread {};

// Pollers at work, so that the process can end them, and words that streams may still touch.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Poller>> pollers;
  std::vector<std::shared_ptr<const void>> left_behind;

  void add(const std::shared_ptr<Poller>& poller) {
    std::lock_guard lock(mutex);
    const auto is_gone = [](const std::weak_ptr<Poller>& one) { return one.expired(); };
    pollers.erase(std::remove_if(pollers.begin(), pollers.end(), is_gone), pollers.end());
    pollers.push_back(poller);
  }
  void leave_behind(std::shared_ptr<const void> words) {
    std::lock_guard lock(mutex);
    left_behind.push_back(std::move(words));
  }
};

Registry& registry() {
  static auto* registry = new Registry;  // never destroyed: threads may outlive static objects
  return *registry;
}

bool take_one(std::atomic<int>& count) { return count > 0 && count-- > 0; }

}  // namespace

// What the threads share.
struct Poller : std::enable_shared_from_this<Poller> {
  Poller(PollingWords given, Timeout longest) : words(std::move(given)), timeout(longest), slots(words.capacity) {}

  int32_t* due(int i) const { return words.words + i; }
  int32_t* done(int i) const { return words.words + words.capacity + i; }

  void start() {
    std::lock_guard lock(mutex);
    start_thread([](Poller& self) { self.watch(); });
    start_polling();
  }

  // A slot for one launch.
  int reserve(HostFunctionRef function, bool is_captured) {
    std::lock_guard lock(mutex);
    for (int i = 0; i < words.capacity; ++i) {
      Slot& slot = slots[i];
      if (slot.state != State::kFree && !is_consumed(i)) continue;
      slot.function = std::move(function);
      slot.is_captured = is_captured;
      slot.state = State::kReady;
      num_slots = std::max<int>(num_slots, i + 1);
      return i;
    }
    throw EngineError("no words are left for host function '" + function->name + "': at most " +
                      std::to_string(words.capacity) + " launches may be captured or under way");
  }

  void free(int i) {
    const HostFunctionRef function = std::move(slots[i].function);
    slots[i].state = State::kFree;
  }

  void check() {
    latch.raise_if_set();
    std::lock_guard lock(mutex);
    if (has_failed) throw EngineError(failure);
  }

  void stop() {
    std::unique_lock lock(mutex);
    const auto end = Clock::now() + kPatience;
    const auto wait_while = [&](auto condition) {
      while (condition() && Clock::now() < end) changed.wait_for(lock, kReleaseInterval);
      return !condition();
    };
    if (!wait_while([this] { return is_under_way(); }) || has_failed) registry().leave_behind(words.owner);
    stopping = true;
    changed.notify_all();
    const auto is_own = [](const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); };
    const bool may_join = std::none_of(threads.begin(), threads.end(), is_own) &&
                          wait_while([this] { return num_threads > 0; });
    auto ended = std::exchange(threads, {});
    lock.unlock();
    for (std::thread& thread : ended) may_join ? thread.join() : thread.detach();
  }

  std::atomic<int> end_before{0}, end_after{0};  // functions before and after which the thread is to end
  ErrorLatch latch;

 private:
  bool is_consumed(int i) const { return slots[i].state == State::kSpent && load_word(done(i)) == 0; }

  // A launch outside a capture that its stream has not left behind.
  bool is_under_way() const {
    for (int i = 0; i < num_slots; ++i) {
      const bool has_gone_on = is_consumed(i) || (has_failed && slots[i].state == State::kSpent);
      if (!slots[i].is_captured && slots[i].state != State::kFree && !has_gone_on) return true;
    }
    return false;
  }

  template <typename Function>
  void start_thread(Function function) {
    ++num_threads;
    try {
      threads.emplace_back([self = shared_from_this(), function] {
        function(*self);
        std::lock_guard lock(self->mutex);
        --self->num_threads;
        self->changed.notify_all();
      });
    } catch (const std::system_error&) {
      --num_threads;
      throw;
    }
  }

  void start_polling() {
    has_ended = false;
    seen = Clock::now();
    start_thread([mine = ++generation](Poller& self) { self.poll(mine); });
  }

  void poll(int mine) {
    auto last = Clock::now();
    try {
      while (!stopping && generation == mine) {
        const bool found = run_due();
        const auto now = Clock::now();
        seen = now;
        if (found) last = now;
        if (now - last < kBusyTime * spin_time()) {
          cpu_relax();
        } else {
          std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>((now - last) / 16, kShortestNap, kLongestNap));
        }
      }
    } catch (const EndOfThread&) {
    }
    std::lock_guard lock(mutex);
    if (generation == mine) has_ended = true;
    changed.notify_all();
  }

  bool run_due() {
    bool found = false;
    const int n = num_slots;
    for (int i = 0; i < n; ++i) {
      if (load_word(due(i)) == 0 || !slots[i].change(State::kReady, State::kTaken)) continue;
      found = true;
      store_word(due(i), 0);
      run(i);
    }
    return found;
  }

  // Whoever changes the state first runs the function, and lets the stream go on.
  void run(int i) {
    if (take_one(end_before)) throw EndOfThread{};
    Slot& slot = slots[i];
    if (!slot.change(State::kTaken, State::kRunning)) return;
    is_inside = true;
    latch.run(*slot.function);
    is_inside = false;
    slot.state = State::kRan;
    if (take_one(end_after)) throw EndOfThread{};
    finish(i);
  }

  void finish(int i) {
    Slot& slot = slots[i];
    if (!slot.change(State::kRan, State::kFinishing)) return;
    ++num_run;
    if (slot.is_captured) {
      slot.state = State::kReady;  // before the stream goes on, since it may come again
      store_word(done(i), 1);
    } else {
      Reclaimer::instance().give(std::move(slot.function));
      store_word(done(i), 1);
      slot.state = State::kSpent;
    }
  }

  void watch() {
    std::unique_lock lock(mutex);
    auto since = Clock::now();  // nothing under way was done
    int64_t num_run_before = 0;
    int num_takeovers = 0;
    while (!stopping) {
      changed.wait_for(lock, has_failed ? kReleaseInterval : kWatchInterval, [this] { return stopping || has_ended; });
      const auto now = Clock::now();
      if (num_run != num_run_before) num_takeovers = 0;
      if (num_run != num_run_before || !is_busy()) since = now;
      num_run_before = num_run;
      if (has_failed) {
        let_go();
      } else if (now - since > timeout) {
        fail("a host function did not end within " + format_seconds(timeout));
      } else if (has_ended || (!is_inside && now - seen.load() > kLongUnseen)) {
        take_over(++num_takeovers);
      }
    }
  }

  bool is_busy() const {
    for (int i = 0; i < num_slots; ++i) {
      const State state = slots[i].state;
      if (load_word(due(i)) != 0 || (state >= State::kTaken && state <= State::kFinishing)) return true;
    }
    return false;
  }

  void take_over(int num_takeovers) {
    if (num_takeovers > kMostTakeovers) return fail("the polling thread ended " + std::to_string(num_takeovers) +
                                                    " times in a row");
    for (int i = 0; i < num_slots; ++i) {
      finish(i);
      if (slots[i].change(State::kTaken, State::kReady)) store_word(due(i), 1);
    }
    try {
      start_polling();
    } catch (const std::system_error& error) {
      fail(std::string("the polling thread ended, and no other can be started: ") + error.what());
    }
  }

  void fail(const std::string& reason) {
    failure = reason + "; from then on streams go on without their host functions";
    has_failed = true;
    has_ended = false;
    ++generation;
    let_go();
  }

  void let_go() {
    for (int i = 0; i < num_slots; ++i) {
      Slot& slot = slots[i];
      const State state = slot.state;
      if (load_word(due(i)) == 0 && (state < State::kTaken || state > State::kFinishing)) continue;
      store_word(due(i), 0);
      store_word(done(i), 1);
      if (!slot.is_captured) slot.change(State::kReady, State::kSpent);
    }
  }

  const PollingWords words;
  const Timeout timeout;
  std::vector<Slot> slots;
  std::atomic<int> num_slots{0};  // ever in use
  std::atomic<int64_t> num_run{0};
  std::atomic<Clock::time_point> seen{Clock::time_point{}};
  std::atomic<bool> is_inside{false};  // a function
  std::atomic<int> generation{0};      // of the polling thread
  std::atomic<bool> stopping{false};

  std::mutex mutex;  // what follows, and who takes a slot
  std::condition_variable changed;
  std::vector<std::thread> threads;
  int num_threads = 0;     // not ended
  bool has_ended = false;  // the polling thread, and it should not have
  bool has_failed = false;
  std::string failure;
};

namespace {

std::shared_ptr<Poller> start_poller(PollingWords words, Timeout timeout) {
  if (!words.words || words.capacity < 1) throw std::invalid_argument("a polling stream needs at least two words");
  auto poller = std::make_shared<Poller>(std::move(words), timeout);
  poller->start();
  registry().add(poller);
  return {poller.get(), [poller](Poller*) { poller->stop(); }};  // for those who launch; the threads share `poller`
}

// A captured launch, kept by its graph.
class Lease {
 public:
  Lease(std::shared_ptr<Poller> poller, int slot) : poller_(std::move(poller)), slot_(slot) {}
  ~Lease() { poller_->free(slot_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  const std::shared_ptr<Poller> poller_;
  const int slot_;
};

}  // namespace

PollingStream::PollingStream(std::shared_ptr<Stream> stream, PollingWords words)
    : Stream(stream->name(), stream->timeout()),
      stream_(std::move(stream)),
      poller_(start_poller(std::move(words), timeout())) {}

void PollingStream::launch(HostFunctionRef function) {
  const bool is_captured = is_capturing();
  const int slot = poller_->reserve(std::move(function), is_captured);
  const auto lease = is_captured ? std::make_shared<Lease>(poller_, slot) : nullptr;
  const WordRef done(lease, poller_->done(slot));
  write_value(unowned(poller_->due(slot)), 1);
  wait_value(unowned(done.get()), 1);
  write_value(done, 0);
}

void PollingStream::synchronize(Timeout timeout) {
  stream_->synchronize(timeout);
  poller_->check();
}

void PollingStream::check() {
  stream_->check();
  poller_->check();
}

void PollingStream::end_thread(int times, bool after_running) {
  (after_running ? poller_->end_after : poller_->end_before) = times;
}

void PollingStream::stop_all() {
  std::vector<std::weak_ptr<Poller>> pollers;
  {
    std::lock_guard lock(registry().mutex);
    pollers.swap(registry().pollers);
  }
  for (const auto& poller : pollers) {
    if (const auto alive = poller.lock()) alive->stop();
  }
}

}  // namespace specguide
