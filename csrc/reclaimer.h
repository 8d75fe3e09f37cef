// Owns the release of payloads that CUDA lets go of: its threads may neither call CUDA, nor join threads, nor wait for
// the GIL, and the destructor of a payload may do all of that. So they hand payloads to a thread of our own.
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
  // Waits until all that was given before is released.
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
