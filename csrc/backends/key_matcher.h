// Owns the guard of objects whose keys may come in any order: it takes out of a matcher's rows the tokens that would
// repeat a key, close an object that lacks one, or lead to where no other key is left.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/key_walk.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// Which tokens of a vocabulary may be wrong, and where. Shared and immutable; rows of words as those of matchers.
struct KeyTokens {
  explicit KeyTokens(std::shared_ptr<const Vocabulary> vocabulary);

  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<int32_t> bounding;  // behind a value: closing an object, going on in it, or opening one with its key
  std::vector<int32_t> leaving;   // a string, and bounding behind it
  std::vector<int32_t> opening;   // opening an object, and more of it
  std::vector<int32_t> quoting;   // holding a quote
  std::vector<int32_t> keying;    // holding a whole key, perhaps, or bounding
  // Which tokens that leave a string have the same behind it, but for whitespace: by token the number of that end; -1
  // for none.
  std::vector<int32_t> end_of;
  size_t num_ends = 0;
};

// What a matcher of texts allows whose objects take each key any number of times in any order, with no key twice and
// all that are required. Throws std::runtime_error where the matcher underneath does not hold its contract.
class KeyMatcher final : public Matcher {
 public:
  KeyMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<const KeyTokens> tokens, KeyWalk walk);

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

  // Tokens that may be wrong in a state: those of `always`, and those of `words` that begin with one of some bytes.
  struct Suspects {
    const Row* words;  // null: all
    const Row* always;
    Bytes first;
  };
  // Answers that were found for one row: whether keys that begin so can go on, and whether ends may come.
  struct Known {
    std::unordered_map<std::string, bool> keys;
    std::vector<int8_t> ends;  // -1: not found out
  };

  // A state before a token that was accepted. Its key, which the text ends with, is kept with the text alone.
  struct Before {
    KeyState state;
    size_t key_size, text_size;
  };

  // A beginning of a key of an object, behind which no key can come any more that has not come. Of one object there
  // are ever fewer such keys.
  struct DeadKey {
    size_t num_taken;  // tokens when that was found out
    size_t object;     // see KeyFrame
    std::string text;  // the object's number, and the beginning
  };

  const Vocabulary& vocabulary() const { return *tokens_->vocabulary; }
  const std::string& bytes_of(int32_t token) const { return vocabulary().token_bytes[static_cast<size_t>(token)]; }
  void mask(int32_t* row);
  Suspects suspects() const;
  Bytes repeating() const;
  bool may_take(int32_t token, Known& known);
  bool find_out(int32_t token, Known& known);
  bool is_live_behind(int32_t token, const KeyState& after);
  // Whether a key that has not come can be ended from a state of the matcher underneath.
  bool can_go_on(const KeyState& state);
  void forget_dead_key();
  KeyVerdict takes_a_key(const KeyState& state);
  KeyVerdict takes_text(std::string_view text);
  bool is_live(const KeyState& state);

  const std::shared_ptr<Matcher> inner_;
  const std::shared_ptr<const KeyTokens> tokens_;
  const KeyWalk walk_;
  KeyState state_;
  std::vector<Before> before_;  // by token
  std::string text_;            // that was accepted
  std::vector<DeadKey> dead_;   // in ascending order of their tokens, and of their objects
  std::unordered_set<std::string> dead_texts_;
  Row row_;
};

}  // namespace specguide
