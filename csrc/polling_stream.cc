#include "polling_stream.h"

namespace specguide {

namespace {

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
      poller_(Poller::start(std::move(words), timeout())) {}

void PollingStream::launch(HostFunctionRef function) {
  const bool is_captured = is_capturing();
  const int slot = poller_->reserve(function, is_captured);
  const auto lease = is_captured ? std::make_shared<Lease>(poller_, slot) : nullptr;
  const WordRef done(lease, poller_->done(slot));
  write_value(unowned(poller_->due(slot)), 1);
  wait_value(unowned(done.get()), 1);
  write_value(done, 0);
}

PollingStream::Words PollingStream::hold(const HostFunctionRef& function) {
  const int slot = poller_->reserve(function, /*is_captured=*/true);
  auto lease = std::make_shared<Lease>(poller_, slot);
  const auto place = [this](const int32_t* word) { return static_cast<int>(word - poller_->due(0)); };
  return {place(poller_->due(slot)), place(poller_->done(slot)), std::move(lease)};
}

void PollingStream::synchronize(Timeout timeout) {
  stream_->synchronize(timeout);
  poller_->check();
}

void PollingStream::check() {
  stream_->check();
  poller_->check();
}

void PollingStream::end_thread(int times, bool after_running) { poller_->end_thread(times, after_running); }

}  // namespace specguide
