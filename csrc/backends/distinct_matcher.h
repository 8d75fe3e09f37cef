// Owns the guard of arrays whose items must differ: it removes the tokens that would repeat an item from a matcher's
// rows.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/distinct_walk.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// Which tokens of a vocabulary may end items. Shared and immutable; rows of words, as matchers fill them.
struct DistinctTokens {
  static constexpr std::string_view kEnding = "\",]} \t\n\r";  // bytes behind which a value may have ended

  explicit DistinctTokens(std::shared_ptr<const Vocabulary> vocabulary);

  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<int32_t> ending;        // may end a value, or begin an exponent
  std::vector<int32_t> whole;         // may end a value that begins in the token, or `ending`
  std::vector<int32_t> closing;       // end an array or object, or begin an item behind a comma
  std::vector<int32_t> holding;       // may contain the beginning of an item, behind a comma
  std::vector<int32_t> quoting;       // end a string
  size_t most_opening = 0;            // arrays and objects that one token opens
  std::array<int32_t, 256> of_byte;   // the token of each byte alone; -1 for none
};

// What a matcher of texts with JSON in them allows, without items that repeat one of their array; nor may an item have
// a beginning that could only repeat one. Throws std::runtime_error if the inner matcher breaks its contract.
class DistinctMatcher final : public Matcher {
 public:
  DistinctMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<const DistinctTokens> tokens, DistinctWalk walk);

  bool accept(int32_t token) override;
  void fill(int32_t* row) override;
  void rollback(int n) override;
  bool is_terminated() const override { return inner_->is_terminated(); }
  std::vector<int32_t> forced_tokens() override;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) override;

 private:
  using Row = std::vector<int32_t>;
  using Bytes = std::bitset<256>;

  // The state before an accepted token.
  struct Taken {
    int32_t token;
    DistinctState before;
  };

  const std::string& bytes_of(int32_t token) const { return vocabulary().token_bytes[static_cast<size_t>(token)]; }
  const Vocabulary& vocabulary() const { return *tokens_->vocabulary; }

  // The tokens that may be wrong in a state: those in `words`. Tokens not in `closing` begin with one of the bytes
  // `first`.
  struct Suspects {
    const Row* words;  // null: all
    Bytes first;
  };
  void mask(const DistinctState& state, int32_t* row);
  Suspects suspects(const DistinctState& state);
  bool may_take(const DistinctState& state, int32_t token);
  bool is_spent(const DistinctState& state);
  Bytes repeating(const DistinctState& state);
  Bytes going_wrong(const DistinctState& state);

  // Accepts a token of text. kNo: the inner matcher refuses it; kRuledOut: an item would be repeated, or have a
  // forbidden beginning.
  enum class Taking { kYes, kNo, kRuledOut };
  Taking take(int32_t token);

  // Finds out which beginnings each completed item rules out.
  void settle();
  void settle_items(const DistinctFrame& frame);
  void settle_told(const std::shared_ptr<DistinctItem>& item, const DistinctFrame& frame);
  std::string item_end() const;
  void settle_ahead();
  // place: where an item begins in the text; there it is tried which beginnings can only repeat one
  void settle(const std::shared_ptr<DistinctItem>& item, size_t place);
  void try_beginnings(const std::shared_ptr<DistinctItem>& item, size_t place);
  // The search that settles an item. Items inside the tried ones are settled on the way.
  struct Search {
    size_t start;     // where the item begins, in the text without whitespace
    size_t num_left;  // bytes that may still be tried
    std::unordered_map<std::string, std::vector<std::string>> dead;  // of inner items, by the text up to their ends
  };
  // An item that is begun on trial, behind `item`, the last completed one, and the bytes taken of it.
  struct Trial {
    std::shared_ptr<DistinctItem> item;
    std::string bytes;
  };
  bool lead(const std::string& bytes);
  Taking reach(Trial& trial, const std::string& bytes);
  bool is_dead(Trial& trial, const std::string& bytes, bool has_ended);
  bool is_live(bool has_ended);

  const std::shared_ptr<Matcher> inner_;
  const std::shared_ptr<const DistinctTokens> tokens_;
  DistinctWalk walk_;
  DistinctState state_;
  std::vector<Taken> taken_;
  std::optional<Search> search_;
  Row row_, scratch_;
};

}  // namespace specguide
