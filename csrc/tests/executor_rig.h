// Owns an executor with its buffers, driven callback by callback on the calling thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "fake_grammar.h"
#include "grammar_executor.h"

struct ExecutorRig {
  ExecutorRig(int max_batch_size, int num_draft_tokens, int num_threads, std::chrono::microseconds deadline)
      : ExecutorRig(max_batch_size, num_draft_tokens, num_threads, {deadline, deadline, deadline}) {}

  ExecutorRig(int max_batch_size, int num_draft_tokens, int num_threads, specguide::GrammarExecutor::Waits waits)
      : num_nodes(num_draft_tokens + 1),
        rows(max_batch_size * num_nodes * fake::kWords, -1),
        guided(max_batch_size * num_nodes, 9),
        held(max_batch_size, 9),
        tokens(max_batch_size * num_nodes, -1),
        num_accepted(max_batch_size, 0) {
    specguide::GuideBuffers buffers{max_batch_size, num_draft_tokens, fake::kVocab,        rows.data(), guided.data(),
                                    held.data(),    tokens.data(),    num_accepted.data(), &needed,
                                    nullptr};
    executor = std::make_shared<specguide::GrammarExecutor>(buffers, num_threads, waits);
    callbacks = executor->callbacks();
  }

  void call(int index) const { callbacks[index]->call(); }

  // One whole iteration in which no token changes, and whose rows nobody stands waiting for.
  void call_all() const {
    for (int i = 0; i < num_nodes; ++i) call(i);
  }

  int32_t& token(int slot, int node) { return tokens[slot * num_nodes + node]; }
  int row_index(int slot, int node) const { return node * static_cast<int>(held.size()) + slot; }
  bool is_guided(int slot, int node) const { return guided[row_index(slot, node)] == 1; }
  fake::Row row(int slot, int node) const {
    const auto first = rows.begin() + row_index(slot, node) * fake::kWords;
    return fake::Row(first, first + fake::kWords);
  }

  const int num_nodes;
  std::vector<int32_t> rows;
  std::vector<uint8_t> guided, held;
  std::vector<int32_t> tokens, num_accepted;
  int32_t needed = 0;
  std::shared_ptr<specguide::GrammarExecutor> executor;
  std::vector<specguide::HostFunctionRef> callbacks;
};
