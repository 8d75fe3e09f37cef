#include "stream.h"

#include <cstdio>

namespace specguide {

std::string format_seconds(Timeout time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", time.count());
  return text;
}

void ErrorLatch::set(const std::string& message) {
  std::lock_guard lock(mutex_);
  if (!message_) message_ = message;
}

void ErrorLatch::raise_if_set() {
  std::optional<std::string> message;
  {
    std::lock_guard lock(mutex_);
    message.swap(message_);
  }
  if (message) throw EngineError(*message);
}

void ErrorLatch::run(const HostFunction& function) noexcept {
  try {
    function.call();
  } catch (const std::exception& error) {
    set("host function '" + function.name + "' failed: " + error.what());
  } catch (...) {
    set("host function '" + function.name + "' failed");
  }
}

}  // namespace specguide
