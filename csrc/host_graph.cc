#include "host_graph.h"

#include <utility>

#include "host_stream.h"

namespace specguide {

HostGraph::HostGraph(std::vector<HostNode> nodes, int num_lanes, std::vector<int> last_after)
    : nodes_(std::move(nodes)),
      num_lanes_(num_lanes),
      last_after_(std::move(last_after)),
      is_waited_for_(nodes_.size()) {
  for (const HostNode& node : nodes_) {
    for (int first : node.after) is_waited_for_[first] = true;
  }
  for (int first : last_after_) is_waited_for_[first] = true;
}

void HostGraph::replay(const std::vector<CapturableStream*>& streams) const {
  const bool in_one = streams.size() == 1;
  if (!in_one && static_cast<int>(streams.size()) != num_lanes_) {
    throw std::invalid_argument("this graph was captured from " + std::to_string(num_lanes_) +
                                " streams: replay it on one stream or on as many");
  }
  for (CapturableStream* stream : streams) {
    if (!stream->is_capturing()) continue;
    throw std::invalid_argument("a graph cannot be replayed on stream '" + stream->name() + "' while it captures");
  }
  if (in_one) {
    for (const HostNode& node : nodes_) streams[0]->launch(node.function);
    return;
  }
  HostEvent begin("graph begin");
  streams[0]->record(begin);
  for (size_t lane = 1; lane < streams.size(); ++lane) streams[lane]->wait(begin);
  std::vector<std::unique_ptr<HostEvent>> done(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    CapturableStream& stream = *streams[nodes_[i].lane];
    for (int first : nodes_[i].after) stream.wait(*done[first]);
    stream.launch(nodes_[i].function);
    if (!is_waited_for_[i]) continue;
    done[i] = std::make_unique<HostEvent>("graph node '" + nodes_[i].function->name + "'");
    stream.record(*done[i]);
  }
  for (int first : last_after_) streams[0]->wait(*done[first]);
}

std::vector<int> HostCapture::Lane::tail() const {
  std::vector<int> nodes = after;
  if (last >= 0) nodes.push_back(last);
  return nodes;
}

HostCapture::Lane HostCapture::add_lane(std::vector<int> after) {
  Lane lane;
  lane.index = num_lanes_++;
  lane.after = std::move(after);
  return lane;
}

void HostCapture::add_node(Lane& lane, HostFunctionRef function) {
  nodes_.push_back({lane.index, std::move(function), std::move(lane.after)});
  lane.after.clear();
  lane.last = static_cast<int>(nodes_.size()) - 1;
}

void HostCapture::add_wait(Lane& lane, const std::vector<int>& nodes) const {
  for (int node : nodes) {
    if (nodes_[node].lane != lane.index) lane.after.push_back(node);
  }
}

std::shared_ptr<HostGraph> HostCapture::finish(const Lane& origin) {
  active_ = false;
  const std::vector<HostNode> nodes = std::exchange(nodes_, {});  // payloads must not outlive the capture
  check_joined(nodes, origin);
  return std::make_shared<HostGraph>(nodes, num_lanes_, origin.after);
}

void HostCapture::check_joined(const std::vector<HostNode>& nodes, const Lane& origin) const {
  std::vector<int> previous(nodes.size(), -1);  // the previous node in the same lane
  std::vector<int> last(num_lanes_, -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    previous[i] = last[nodes[i].lane];
    last[nodes[i].lane] = static_cast<int>(i);
  }
  std::vector<bool> reached(nodes.size());
  std::vector<int> open = origin.tail();
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (node < 0 || reached[node]) continue;
    reached[node] = true;
    open.push_back(previous[node]);
    open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (reached[i]) continue;
    throw std::invalid_argument("the capture ends before host function '" + nodes[i].function->name +
                                "' was joined: let the first stream wait for an event recorded after it");
  }
}

}  // namespace specguide
