#include "poller.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "reclaimer.h"
#include "spin.h"

namespace specguide {

namespace {

constexpr std::chrono::nanoseconds kShortestNap{50'000}, kLongestNap{1'000'000};
constexpr std::chrono::milliseconds kWatchInterval{50}, kReleaseInterval{1}, kLongUnseen{1000};
constexpr std::chrono::seconds kStopPatience{5};
constexpr int kMostTakeovers = 3;  // without a function run in between

struct EndOfThread {};

// The pollers that are running, so that the process can end them, and words that streams may still touch.
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
  std::vector<std::weak_ptr<Poller>> take() {
    std::lock_guard lock(mutex);
    return std::exchange(pollers, {});
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

std::shared_ptr<Poller> Poller::start(PollingWords words, Timeout timeout) {
  if (!words.words || words.capacity < 1) throw std::invalid_argument("a polling stream needs at least two words");
  const auto poller = std::make_shared<Poller>(std::move(words), timeout);
  const std::shared_ptr<Poller> owner(poller.get(), [poller](Poller*) { poller->stop(); });
  std::lock_guard lock(poller->mutex_);
  poller->start_thread([](Poller& self) { self.watch(); });
  poller->start_polling();
  registry().add(poller);
  return owner;
}

void Poller::stop_all() {
  for (const auto& poller : registry().take()) {
    if (const auto alive = poller.lock()) alive->stop();
  }
}

Poller::Poller(PollingWords words, Timeout timeout)
    : words_(std::move(words)), timeout_(timeout), slots_(words_.capacity) {}

bool Poller::Slot::is_in_progress() const {
  const State now = state;
  return now == State::kRunning || now == State::kRan || now == State::kFinishing;
}

int Poller::reserve(const HostFunctionRef& function, bool is_captured) {
  std::lock_guard lock(mutex_);
  for (int i = 0; is_captured && i < num_slots_; ++i) {
    if (slots_[i].num_leases == 0 || slots_[i].function != function) continue;
    ++slots_[i].num_leases;
    return i;
  }
  for (int i = 0; i < words_.capacity; ++i) {
    Slot& slot = slots_[i];
    if (slot.state != State::kFree && !is_consumed(i)) continue;
    slot.function = function;
    slot.is_captured = is_captured;
    slot.num_leases = is_captured ? 1 : 0;
    slot.state = State::kReady;
    num_slots_ = std::max<int>(num_slots_, i + 1);
    return i;
  }
  throw EngineError("no words are left for host function '" + function->name + "': at most " +
                    std::to_string(words_.capacity) + " may be captured or under way");
}

void Poller::free(int i) {
  HostFunctionRef function;  // its payload is released outside the mutex
  std::lock_guard lock(mutex_);
  if (--slots_[i].num_leases > 0) return;
  function = std::move(slots_[i].function);
  slots_[i].state = State::kFree;
}

void Poller::check() {
  latch_.raise_if_set();
  std::lock_guard lock(mutex_);
  if (has_failed_) throw EngineError(failure_);
}

void Poller::stop() {
  std::unique_lock lock(mutex_);
  const auto end = Clock::now() + kStopPatience;
  const auto wait_while = [&](auto condition) {
    while (condition() && Clock::now() < end) changed_.wait_for(lock, kReleaseInterval);
    return !condition();
  };
  if (!wait_while([this] { return is_under_way(); }) || has_failed_) registry().leave_behind(words_.owner);
  stopping_ = true;
  changed_.notify_all();
  const auto is_own = [](const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); };
  const bool may_join = std::none_of(threads_.begin(), threads_.end(), is_own) &&
                        wait_while([this] { return num_threads_ > 0; });
  auto ended = std::exchange(threads_, {});
  lock.unlock();
  for (std::thread& thread : ended) may_join ? thread.join() : thread.detach();
}

bool Poller::is_consumed(int i) const { return slots_[i].state == State::kSpent && load_word(done(i)) == 0; }

// Whether a launch outside a capture has not been passed by its stream yet.
bool Poller::is_under_way() const {
  for (int i = 0; i < num_slots_; ++i) {
    const bool has_gone_on = is_consumed(i) || (has_failed_ && slots_[i].state == State::kSpent);
    if (!slots_[i].is_captured && slots_[i].state != State::kFree && !has_gone_on) return true;
  }
  return false;
}

template <typename Function>
void Poller::start_thread(Function function) {
  ++num_threads_;
  try {
    threads_.emplace_back([self = shared_from_this(), function] {
      function(*self);
      std::lock_guard lock(self->mutex_);
      --self->num_threads_;
      self->changed_.notify_all();
    });
  } catch (const std::system_error&) {
    --num_threads_;
    throw;
  }
}

void Poller::start_polling() {
  has_ended_ = false;
  seen_ = Clock::now();
  start_thread([mine = ++generation_](Poller& self) { self.poll(mine); });
}

void Poller::poll(int mine) {
  auto last = Clock::now();
  try {
    while (!stopping_ && generation_ == mine) {
      const bool found = run_due();
      const auto now = Clock::now();
      seen_ = now;
      if (found) last = now;
      if (now - last < long_spin_time()) {
        cpu_relax();
      } else {
        std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>((now - last) / 16, kShortestNap, kLongestNap));
      }
    }
  } catch (const EndOfThread&) {
  }
  std::lock_guard lock(mutex_);
  if (generation_ == mine) has_ended_ = true;
  changed_.notify_all();
}

bool Poller::run_due() {
  bool found = false;
  const int n = num_slots_;
  for (int i = 0; i < n; ++i) {
    if (load_word(due(i)) == 0) continue;
    for (int before = 0; before <= i; ++before) found = run_if_due(before) || found;  // also what became due before it
  }
  return found;
}

// Whichever thread changes the state first resets the word, runs the function, and lets the stream continue.
bool Poller::run_if_due(int i) {
  Slot& slot = slots_[i];
  if (load_word(due(i)) == 0 || slot.state != State::kReady) return false;
  if (take_one(end_before_)) throw EndOfThread{};
  if (!slot.change(State::kReady, State::kRunning)) return false;
  const int32_t value = load_word(due(i));
  if (value == 0) {  // another thread has run it meanwhile
    slot.state = State::kReady;
    return false;
  }
  slot.value = value;
  store_word(due(i), 0);
  is_inside_ = true;
  latch_.run(*slot.function);
  is_inside_ = false;
  slot.state = State::kRan;
  if (take_one(end_after_)) throw EndOfThread{};
  finish(i);
  return true;
}

void Poller::finish(int i) {
  Slot& slot = slots_[i];
  if (!slot.change(State::kRan, State::kFinishing)) return;
  ++num_run_;
  if (slot.is_captured) {
    slot.state = State::kReady;  // before the stream continues, since it may come here again
    store_word(done(i), slot.value);
  } else {
    Reclaimer::instance().give(std::move(slot.function));
    store_word(done(i), slot.value);
    slot.state = State::kSpent;
  }
}

void Poller::watch() {
  std::unique_lock lock(mutex_);
  auto since = Clock::now();  // since when nothing was completed
  int64_t num_run_before = 0;
  int num_takeovers = 0;
  while (!stopping_) {
    changed_.wait_for(lock, has_failed_ ? kReleaseInterval : kWatchInterval,
                      [this] { return stopping_ || has_ended_; });
    const auto now = Clock::now();
    if (num_run_ != num_run_before) num_takeovers = 0;
    if (num_run_ != num_run_before || !is_busy()) since = now;
    num_run_before = num_run_;
    if (has_failed_) {
      let_go();
    } else if (now - since > timeout_) {
      fail("a host function did not end within " + format_seconds(timeout_));
    } else if (has_ended_ || (!is_inside_ && now - seen_.load() > kLongUnseen)) {
      take_over(++num_takeovers);
    }
  }
}

bool Poller::is_busy() const {
  for (int i = 0; i < num_slots_; ++i) {
    if (load_word(due(i)) != 0 || slots_[i].is_in_progress()) return true;
  }
  return false;
}

void Poller::take_over(int num_takeovers) {
  if (num_takeovers > kMostTakeovers) return fail("the polling thread ended " + std::to_string(num_takeovers) +
                                                  " times in a row");
  for (int i = 0; i < num_slots_; ++i) finish(i);
  try {
    start_polling();
  } catch (const std::system_error& error) {
    fail(std::string("the polling thread ended, and no other can be started: ") + error.what());
  }
}

void Poller::fail(const std::string& reason) {
  failure_ = reason + "; from then on streams go on without their host functions";
  has_failed_ = true;
  has_ended_ = false;
  ++generation_;
  let_go();
}

void Poller::let_go() {
  for (int i = 0; i < num_slots_; ++i) {
    Slot& slot = slots_[i];
    const int32_t value = load_word(due(i));
    if (value == 0 && !slot.is_in_progress()) continue;
    store_word(due(i), 0);
    store_word(done(i), value != 0 ? value : slot.value.load());
    if (!slot.is_captured) slot.change(State::kReady, State::kSpent);
  }
}

}  // namespace specguide
