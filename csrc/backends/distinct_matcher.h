// Owns the guard of arrays whose items must differ: it takes out of a matcher's rows the tokens that would repeat one.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/distinct_walk.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// Which tokens of a vocabulary may end items. Shared and immutable; rows of words as those of matchers.
struct DistinctTokens {
  explicit DistinctTokens(std::shared_ptr<const Vocabulary> vocabulary);

  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<int32_t> ending;        // a value, perhaps, or making a zero a power
  std::vector<int32_t> whole;         // a value that it begins, perhaps, or the same
  std::vector<int32_t> closing;       // an array or object, or holding a whole item
  std::vector<int32_t> holding;       // perhaps a whole item, behind a comma
  std::vector<int32_t> quoting;       // a string
  std::array<int32_t, 256> of_byte;   // the token of each byte alone; -1 for none
};

// What a matcher of JSON texts allows, without items that repeat one of their array; nor may an item begin so that it
// could only repeat one. Throws std::runtime_error where the matcher underneath does not hold its contract.
class DistinctMatcher final : public Matcher {
 public:
  DistinctMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<const DistinctTokens> tokens,
                  std::shared_ptr<const DistinctPlaces> places);

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

  // The state before a token that was accepted.
  struct Taken {
    int32_t token;
    DistinctState before;
  };

  const std::string& bytes_of(int32_t token) const { return vocabulary().token_bytes[static_cast<size_t>(token)]; }
  const Vocabulary& vocabulary() const { return *tokens_->vocabulary; }

  // The tokens that may be wrong in a state: of these words. Those not in `closing` begin with one of these bytes.
  struct Suspects {
    const Row* words;  // null: all
    Bytes first;
  };
  void mask(const DistinctState& state, int32_t* row);
  Suspects suspects(const DistinctState& state);
  Bytes repeating(const DistinctState& state) const;
  Bytes going_wrong(const DistinctState& state);

  // Finds out what each item that has come makes impossible.
  void settle();
  void settle_scalar();
  void settle(const std::shared_ptr<DistinctItem>& item);
  // How an item is begun on trial in the place of one that has come: the bytes that `inner_` has taken of it, and the
  // state before each and behind the last.
  struct Trial {
    std::shared_ptr<DistinctItem> item;
    std::string bytes;
    std::vector<DistinctState> passed;
    size_t num_left;  // bytes that may yet be taken
  };
  enum class Reached { kYes, kNo, kRuledOut };
  Reached reach(Trial& trial, const std::string& bytes);
  bool is_dead(Trial& trial, const std::string& bytes, bool has_ended);
  bool is_live(const DistinctState& state, bool has_ended);

  const std::shared_ptr<Matcher> inner_;
  const std::shared_ptr<const DistinctTokens> tokens_;
  DistinctWalk walk_;
  DistinctState state_;
  std::vector<Taken> taken_;
  Row row_, scratch_;
};

}  // namespace specguide
