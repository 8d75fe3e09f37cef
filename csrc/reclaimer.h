// Owns the release of payloads that CUDA gives up. CUDA's threads must not call CUDA, join threads or wait for the GIL,
// but a payload's destructor may do all of that; so they hand payloads to a thread of ours.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace specguide {

class Reclaimer {
 public:
  static Reclaimer& instance();

  void give(std::shared_ptr<const void> payload);
  // Waits until everything given before has been released.
  void drain();

 private:
  Reclaimer() = default;
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const void>> payloads_;
  bool releasing_ = false;
};

}  // namespace specguide
