// Owns a context-free grammar over bytes as a network of rules (recursive transition network, Woods 1970), and the
// length of the shortest text from each of its nodes, in tokens.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/vocabulary.h"
#include "endings/lengths.h"

namespace specguide {

using ByteSet = std::bitset<256>;

ByteSet spellable_bytes(const Vocabulary& vocabulary);

class Network {
 public:
  // The nodes that a node leads to; for most nodes it is only one.
  class Ways {
   public:
    Ways() = default;
    explicit Ways(int32_t only) : only_(only), num_(1) {}
    void push_back(int32_t node) {
      if (num_ == 0) only_ = node;
      if (num_ == 1) more_.push_back(only_);
      if (num_++ > 0) more_.push_back(node);
    }
    size_t size() const { return num_; }
    const int32_t* begin() const { return num_ > 1 ? more_.data() : &only_; }
    const int32_t* end() const { return begin() + num_; }
    int32_t operator[](size_t i) const { return begin()[i]; }

   private:
    int32_t only_ = -1;
    uint32_t num_ = 0;
    std::vector<int32_t> more_;
  };

  enum class Kind : uint8_t { kBytes, kLiteral, kCall, kSplit, kFinal };

  // kBytes:   one byte of a set, then the node in `next` at the set's place in the node's branch
  // kLiteral: a text, then next[0]
  // kCall:    a rule, `least` to `most` times (-1: any number), then next[0]
  // kSplit:   any one of `next`; none: nothing follows
  // kFinal:   the end of the rule
  struct Node {
    Kind kind = Kind::kFinal;
    int32_t in_rule = 0;
    Ways next{};
    int32_t index = -1;  // index of the branch, the text or the rule
    int32_t least = 1, most = 1;
    int32_t run = -1;  // index of the run of a literal that another literal may follow immediately
    int64_t cost = kNever;     // tokens of the shortest text from here to the end of the rule
    // The maximum of the cost at any place behind here, including entered rules; kNever if it may lead to no end.
    int64_t most_missing = 0;
  };

  // Greater than any cost: no text gets there.
  static constexpr int64_t kNever = kEndless;
  // Rules that one token may enter within one another. A JSON array or object needs about six.
  static constexpr int kMostEntered = 64;

  // spellable: bytes that are tokens
  Network(const Vocabulary& vocabulary, const ByteSet& spellable) : vocabulary_(vocabulary), spellable_(spellable) {}

  // For code that builds a network: each rule needs a start, and `settle` comes last.
  int32_t add_rule();
  int32_t add_node(int32_t rule, Node node);
  int32_t add_bytes(int32_t rule, const ByteSet& bytes, int32_t next) { return add_bytes(rule, {{next, bytes}}); }
  // ways: for each node the bytes that lead to it, which lead to no other node
  int32_t add_bytes(int32_t rule, const std::map<int32_t, ByteSet>& ways);
  int32_t add_literal(int32_t rule, const std::string& text, int32_t next);
  int32_t add_call(int32_t rule, int32_t callee, int32_t least, int32_t most, int32_t next);
  void set_start(int32_t rule, int32_t node) { rules_[static_cast<size_t>(rule)].start = node; }
  void add_way(int32_t split, int32_t next) { nodes_[static_cast<size_t>(split)].next.push_back(next); }
  // Computes all costs. root: the rule of the whole text
  void settle(int32_t root);
  // Says that the network has exactly the texts of its grammar.
  void set_exact() { is_exact_ = true; }

  bool is_exact() const { return is_exact_; }

  int32_t root() const { return root_; }
  int32_t start(int32_t rule) const { return rules_[static_cast<size_t>(rule)].start; }
  // Whether the rule allows the empty text.
  bool may_be_empty(int32_t rule) const { return (*this)[start(rule)].cost == 0; }
  const Node& operator[](int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  // The node after a byte; -1 if there is none.
  int32_t behind(const Node& node, uint8_t byte) const;
  const std::string& text(const Node& node) const { return texts_[static_cast<size_t>(node.index)].bytes; }
  // The class of each byte: bytes of one class lead to the same nodes.
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  int num_classes() const { return num_classes_; }

  // Tokens from a node to the end of its rule. done: how often its call has been made, or how many bytes of its literal
  // have been read
  int64_t cost(const Node& node, int32_t done) const;

 private:
  struct Rule {
    int32_t start = -1;
    int64_t least = kNever;    // tokens of its shortest text
    int64_t most_missing = 0;  // most_missing of its start
    std::vector<int32_t> nodes{};
  };
  struct Text {
    std::string bytes;
    std::vector<int64_t> tokens;  // for the rest from each byte on
  };
  // Consecutive literals, with nothing between them that must be present. A token may spell parts of several.
  struct Run {
    std::vector<int64_t> tokens;  // from each byte of the first literal to the end of the last
    int32_t end;                  // the node behind the run
  };

  int32_t literal_behind(int32_t at) const;
  bool may_be_left_out(const Node& call) const;
  void find_run(int32_t at);
  int64_t rest_of_run(int32_t at, size_t done) const;
  int32_t set_of(const ByteSet& bytes);
  int64_t cost_of(const Node& node) const;
  int64_t cost_at(int32_t at) const;
  bool may_read(const Node& node, size_t way) const;
  int64_t most_missing_at(int32_t at) const;
  int64_t most_missing_of(const Node& node) const;
  std::vector<std::vector<int32_t>> callees_first() const;
  void find_costs(const std::vector<int32_t>& group);
  void find_most_missing(const std::vector<int32_t>& group);
  void find_classes();

  const Vocabulary& vocabulary_;
  const ByteSet spellable_;
  std::vector<Rule> rules_;
  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<bool> is_spellable_;  // by set: whether one of its bytes is spellable
  std::vector<Text> texts_;
  std::vector<std::vector<int32_t>> branches_;  // indices of sets
  std::unordered_map<ByteSet, int32_t> set_index_;
  std::map<std::vector<int32_t>, int32_t> branch_index_;
  std::unordered_map<std::string, int32_t> text_index_;
  std::vector<uint8_t> classes_ = std::vector<uint8_t>(256);
  int num_classes_ = 1;
  int32_t root_ = 0;
  bool is_exact_ = false;
  std::vector<Run> runs_;
};

}  // namespace specguide
