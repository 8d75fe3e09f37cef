// Owns the guard of objects whose keys may come in any order: from a matcher's rows it removes the tokens that would
// repeat a key, close an object that lacks one, or lead to where no new key is possible.
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

// Which tokens of a vocabulary may be wrong, and where. Shared and immutable; rows of words, as matchers fill them.
struct KeyTokens {
  explicit KeyTokens(std::shared_ptr<const Vocabulary> vocabulary);

  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<int32_t> bounding;  // behind a value: close an object, continue it, or open one with its key
  std::vector<int32_t> leaving;   // leave a string, and are bounding behind it
  std::vector<int32_t> opening;   // open an object, and contain more of it
  std::vector<int32_t> quoting;   // contain a quote
  std::vector<int32_t> keying;    // may contain a whole key, or are bounding
  // Groups tokens that leave a string by what follows the string in them, apart from whitespace: the number of that
  // end, by token; -1: the token does not leave a string.
  std::vector<int32_t> end_of;
  size_t num_ends = 0;
};

// What a matcher allows of texts whose objects take any keys any number of times in any order, restricted to objects
// without duplicate keys and with all required ones. Throws std::runtime_error if the inner matcher breaks its
// contract.
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

  // The tokens that may be wrong in a state: those of `always`, and those of `words` that begin with one of some bytes.
  struct Suspects {
    const Row* words;  // null: all
    const Row* always;
    Bytes first;
  };
  // Answers found for one row: whether keys with a certain beginning can be completed, and whether ends may come.
  struct Known {
    std::unordered_map<std::string, bool> keys;
    std::vector<int8_t> ends;  // -1: not known yet
  };

  // The state before an accepted token. Its key is not stored, because the text ends with it.
  struct Before {
    KeyState state;
    size_t key_size, text_size;
  };

  // A beginning of an object's key that no new key has any more. The keys that can still come in an object only become
  // fewer.
  struct DeadKey {
    size_t num_taken;  // number of tokens when that was found out
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
  // Whether some new key can be completed from a state of the inner matcher.
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
  std::string text_;            // the accepted text
  std::vector<DeadKey> dead_;   // ascending by number of tokens, and by object
  std::unordered_set<std::string> dead_texts_;
  Row row_;
};

}  // namespace specguide
