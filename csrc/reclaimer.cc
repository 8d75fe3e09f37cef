#include "reclaimer.h"

#include <thread>

namespace specguide {

Reclaimer& Reclaimer::instance() {
  static Reclaimer* reclaimer = [] {
    auto* created = new Reclaimer;  // never destroyed: CUDA's threads outlive static objects
    std::thread([created] { created->loop(); }).detach();
    return created;
  }();
  return *reclaimer;
}

void Reclaimer::give(std::shared_ptr<const void> payload) {
  std::lock_guard lock(mutex_);
  payloads_.push_back(std::move(payload));
  changed_.notify_all();
}

void Reclaimer::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return payloads_.empty() && !releasing_; });
}

void Reclaimer::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !payloads_.empty(); });
    std::vector<std::shared_ptr<const void>> payloads;
    payloads.swap(payloads_);
    releasing_ = true;
    lock.unlock();
    payloads.clear();
    lock.lock();
    releasing_ = false;
    changed_.notify_all();
  }
}

}  // namespace specguide
