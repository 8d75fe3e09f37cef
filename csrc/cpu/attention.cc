#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/dot.h"

namespace specguide {

namespace {

// The keys that one token sees, as places in the cache, counted in tokens.
class SeenKeys {
 public:
  SeenKeys(const AttentionPass& pass, int64_t window) : pass_(pass), window_(window) {}

  // For token `token` of the pass, which is number `index` of the `query_len` tokens of sequence `seq`.
  const std::vector<int64_t>& find(int64_t seq, int64_t token, int64_t index, int64_t query_len) {
    const int64_t num_keys = std::min<int64_t>(pass_.seq_lens[seq], pass_.max_pages * pass_.page_size);
    const int64_t num_last = pass_.ancestors ? pass_.num_nodes : query_len;
    const int64_t before = pass_.seq_lens[seq] - num_last;  // keys to which no mask applies
    const uint8_t* ancestors = pass_.ancestors ? pass_.ancestors + (seq * query_len + index) * num_last : nullptr;
    const int64_t* last_positions =
        ancestors ? pass_.node_positions + seq * num_last : pass_.position_ids + token - index;
    const int64_t first_position = pass_.position_ids[token] - window_;  // the last position outside the window
    places_.clear();
    for (int64_t key = 0; key < num_keys; ++key) {
      const int64_t own = key - before;
      if (own >= 0 && (ancestors ? !ancestors[own] : own > index)) continue;
      if (window_ && (own < 0 ? key : last_positions[own]) <= first_position) continue;
      places_.push_back(place(seq, key));
    }
    return places_;
  }

 private:
  // A draft at a position without a page is never read, so any page will do.
  int64_t place(int64_t seq, int64_t key) const {
    const int64_t page = pass_.block_table[seq * pass_.table_stride + key / pass_.page_size];
    return std::max<int64_t>(page, 0) * pass_.page_size + key % pass_.page_size;
  }

  const AttentionPass& pass_;
  int64_t window_;
  std::vector<int64_t> places_;
};

// Each score s becomes cap · tanh(s / cap).
void limit(std::vector<float>& scores, float cap) {
  for (float& score : scores) score = cap * std::tanh(score / cap);
}

// Softmax of scores, in place, with an optional sink; the maximum is subtracted first.
void softmax(std::vector<float>& scores, const float* sink) {
  float most = sink ? *sink : -std::numeric_limits<float>::infinity();
  for (const float score : scores) most = std::max(most, score);
  float total = sink ? std::exp(*sink - most) : 0.0f;
  for (float& score : scores) total += score = std::exp(score - most);
  for (float& score : scores) score /= total;
}

}  // namespace

int64_t AttentionPass::num_pairs() const {
  int64_t pairs = 0;
  for (int64_t seq = 0; seq < num_seqs; ++seq) {
    pairs += int64_t{seq_lens[seq]} * (query_start_loc[seq + 1] - query_start_loc[seq]);
  }
  return pairs;
}

void attend(const AttentionPass& pass, const AttentionLayer& layer) {
  const int64_t dim = layer.head_dim, group = layer.num_heads / layer.num_kv_heads;
  const int64_t stride = layer.num_kv_heads * dim;  // stride between tokens in the cache
  SeenKeys seen(pass, layer.window);
  std::vector<float> weights;
  for (int64_t seq = 0; seq < pass.num_seqs; ++seq) {
    const int64_t start = pass.query_start_loc[seq], query_len = pass.query_start_loc[seq + 1] - start;
    for (int64_t index = 0; index < query_len; ++index) {
      const auto& places = seen.find(seq, start + index, index, query_len);
      weights.resize(places.size());
      for (int64_t head = 0; head < layer.num_heads; ++head) {
        const int64_t row = ((start + index) * layer.num_heads + head) * dim;
        const int64_t column = head / group * dim;
        for (size_t i = 0; i < places.size(); ++i) {
          const float* key = layer.key_cache + places[i] * stride + column;
          weights[i] = layer.scale * dot(layer.query + row, key, dim);
        }
        if (layer.softcap) limit(weights, layer.softcap);
        softmax(weights, layer.sinks ? layer.sinks + head : nullptr);
        float* output = layer.output + row;
        std::fill(output, output + dim, 0.0f);
        for (size_t i = 0; i < places.size(); ++i) {
          add_scaled(output, weights[i], layer.value_cache + places[i] * stride + column, dim);
        }
      }
    }
  }
}

}  // namespace specguide
