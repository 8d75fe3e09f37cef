// Owns ExecutorRig: an executor with its buffers, driven callback by callback on the calling thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "fake_grammar.h"
#include "grammar_executor.h"

// How many drafts of each origin a chain may have, or the stages of a tree.
struct DraftShape {
  DraftShape(int num_drafts_, int num_forced_ = 0, int num_lookup_ = 0,
             std::shared_ptr<specguide::LookupSource> lookup_ = nullptr)
      : num_drafts(num_drafts_), num_forced(num_forced_), num_lookup(num_lookup_), lookup(std::move(lookup_)) {}
  static DraftShape tree(std::vector<int> stage_begins) {
    DraftShape shape(static_cast<int>(stage_begins.size()) - 2);
    shape.stage_begins = std::move(stage_begins);
    return shape;
  }
  int num_nodes() const {
    return stage_begins.empty() ? num_drafts + num_forced + num_lookup + 1 : stage_begins.back();
  }
  bool has_proposals() const { return num_forced + num_lookup > 0; }
  int num_drafts, num_forced, num_lookup;
  std::shared_ptr<specguide::LookupSource> lookup;
  std::vector<int> stage_begins;
};

struct ExecutorRig {
  ExecutorRig(int max_batch_size, DraftShape shape, int num_threads, std::chrono::microseconds deadline)
      : ExecutorRig(max_batch_size, shape, num_threads, {deadline, deadline, deadline}) {}

  ExecutorRig(int max_batch_size, DraftShape shape, int num_threads, specguide::GrammarExecutor::Waits waits)
      : num_nodes(shape.num_nodes()),
        rows(max_batch_size * num_nodes * fake::kWords, -1),
        fill_ids(max_batch_size * num_nodes, kUntouched),
        held(max_batch_size, 9),
        tokens(max_batch_size * num_nodes, -1),
        num_accepted(max_batch_size, 0),
        chain_len(max_batch_size, 0),
        origins(max_batch_size * num_nodes, 9),
        parents(max_batch_size * num_nodes, -9),
        accepted_path(max_batch_size * shape.num_drafts, -9) {
    specguide::GrammarBuffers buffers{max_batch_size,  shape.num_drafts, fake::kVocab,  rows.data(),
                                      fill_ids.data(), held.data(),      tokens.data(), num_accepted.data(),
                                      &needed,         nullptr};
    buffers.num_forced_tokens = shape.num_forced;
    buffers.num_lookup_tokens = shape.num_lookup;
    buffers.chain_len = chain_len.data();
    buffers.origins = origins.data();
    buffers.stage_begins = shape.stage_begins;
    buffers.parents = parents.data();
    buffers.accepted_path = accepted_path.data();
    buffers.num_kept_rows = num_kept_rows();
    executor = std::make_shared<specguide::GrammarExecutor>(buffers, num_threads, waits, shape.lookup);
    callbacks = executor->callbacks();
  }

  void call(int index) const { callbacks[index]->call(); }

  // Runs a whole iteration in which no token changes, and in which nobody waits for rows.
  void call_all() const {
    for (size_t i = 0; i < callbacks.size(); ++i) call(static_cast<int>(i));
  }

  int32_t& token(int slot, int node) { return tokens[slot * num_nodes + node]; }
  int32_t& parent(int slot, int node) { return parents[slot * num_nodes + node]; }
  // Sets the result of a verification: the accepted nodes of a tree, and the golden token.
  void accept(int slot, const std::vector<int>& path, int32_t golden) {
    std::copy(path.begin(), path.end(), accepted_path.begin() + slot * (static_cast<int>(callbacks.size()) - 1));
    num_accepted[slot] = static_cast<int32_t>(path.size());
    token(slot, 0) = golden;
  }
  int num_kept_rows() const { return 4 * static_cast<int>(fill_ids.size()); }
  int row_index(int slot, int node) const { return node * static_cast<int>(held.size()) + slot; }
  bool is_guided(int slot, int node) const {
    const int64_t fill_id = fill_ids[row_index(slot, node)];
    return fill_id != 0 && fill_id != kUntouched;
  }
  fake::Row row(int slot, int node) const {
    const auto first = rows.begin() + row_index(slot, node) * fake::kWords;
    return fake::Row(first, first + fake::kWords);
  }

  // The slot's drafts, from node 1 up to the first node without a draft.
  std::vector<int32_t> chain(int slot) {
    std::vector<int32_t> drafts;
    for (int node = 1; node < num_nodes && token(slot, node) >= 0; ++node) drafts.push_back(token(slot, node));
    return drafts;
  }

  const int num_nodes;
  std::vector<int32_t> rows;
  static constexpr int64_t kUntouched = INT64_MIN;
  std::vector<int64_t> fill_ids;
  std::vector<uint8_t> held;
  std::vector<int32_t> tokens, num_accepted;
  std::vector<int32_t> chain_len;
  std::vector<uint8_t> origins;
  std::vector<int32_t> parents, accepted_path;
  int32_t needed = 0;
  std::shared_ptr<specguide::GrammarExecutor> executor;
  std::vector<specguide::HostFunctionRef> callbacks;
};
