// Owns graphs captured from host streams: host functions in their order, which can be replayed any number of times.
//
// They mean the same as in CUDA: a capture begins on one stream (the origin); a stream that waits for an event recorded
// in the capture joins it; all streams must lead back to the origin before the capture ends.
#pragma once

#include <memory>
#include <vector>

#include "stream.h"

namespace specguide {

class CapturableStream;

struct HostNode {
  int lane;  // which of the captured streams
  HostFunctionRef function;
  std::vector<int> after;  // nodes of other lanes that come first; earlier nodes of its own lane always do
};

class HostGraph {
 public:
  HostGraph(std::vector<HostNode> nodes, int num_lanes, std::vector<int> last_after);

  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  int num_streams() const { return num_lanes_; }

  // Runs all nodes: on one stream in the order of the capture, or with a stream for each captured stream. What follows
  // on streams[0] waits for all of them.
  void replay(const std::vector<CapturableStream*>& streams) const;

 private:
  std::vector<HostNode> nodes_;
  int num_lanes_;
  std::vector<int> last_after_;     // nodes of other lanes that the origin waited for at the end
  std::vector<bool> is_waited_for_;  // whether a node of another lane, or the end, waits for it
};

// A capture in progress, shared by the streams that take part. Only one thread at a time may capture.
class HostCapture {
 public:
  // The position of one stream in the capture.
  struct Lane {
    int index = 0;
    int last = -1;           // its last node
    std::vector<int> after;  // nodes of other lanes that its next node waits for
    std::vector<int> tail() const;
  };

  bool active() const { return active_; }
  Lane add_lane(std::vector<int> after);
  void add_node(Lane& lane, HostFunctionRef function);
  void add_wait(Lane& lane, const std::vector<int>& nodes) const;
  std::shared_ptr<HostGraph> finish(const Lane& origin);

 private:
  void check_joined(const std::vector<HostNode>& nodes, const Lane& origin) const;

  std::vector<HostNode> nodes_;
  int num_lanes_ = 0;
  bool active_ = true;
};

}  // namespace specguide
