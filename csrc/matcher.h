// Owns the matcher contract: a request's grammar state, one meaning over all backends.
//
// * accept(end token) terminates where the grammar may end. A terminated matcher accepts nothing, fills nothing.
// * A refused token changes nothing.
// * rollback(n) takes back the last n accepted tokens, also across termination.
// * A failure of the library underneath is thrown as std::runtime_error with the library's words. The matcher's state is
//   not known then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "row.h"
#include "spelling.h"

namespace specguide {

class Matcher {
 public:
  virtual ~Matcher() = default;

  // True when the grammar takes `token` here, and then it is taken.
  virtual bool accept(int32_t token) = 0;

  // Takes tokens that are known to be allowed. False where the matcher refuses one after all; then it has taken the
  // tokens before that one, or none.
  virtual bool accept_all(const int32_t* tokens, size_t num_tokens) {
    return std::all_of(tokens, tokens + num_tokens, [this](int32_t token) { return accept(token); });
  }

  // Writes the row of what may follow: ceil(vocab / 32) words, bit 1 = allowed, padding bits 0, end tokens
  // allowed where the grammar may end. Not to be called on a terminated matcher.
  virtual void fill(int32_t* row) = 0;

  // The same as `fill`; what the row holds already need not be written again.
  virtual void refill(FilledRow& row) {
    row.content = 0;
    fill(row.words);
  }

  // The same as accept and refill for drafts that are not verified yet: these answer at once, if need be by a guess.
  //
  // A token that was accepted by a guess is rolled back before anything but drafts' tokens and rows is asked for. A
  // token that was refused by a guess may be accepted behind other tokens.
  enum class Answer { kNo, kYes, kNoByGuess, kYesByGuess };
  virtual Answer accept_draft(int32_t token) { return accept(token) ? Answer::kYes : Answer::kNo; }
  // kYes: the row is filled. kYesByGuess: the row is that of a state which is like this one. kNoByGuess: nothing is
  // known at once.
  virtual Answer refill_draft(FilledRow& row) {
    refill(row);
    return Answer::kYes;
  }

  // Takes back the last n accepted tokens. Throws when there are fewer.
  virtual void rollback(int n) = 0;

  virtual bool is_terminated() const = 0;

  // Tells the matcher how many tokens of the output come before the first one that it takes; without this call there
  // are none. Only to be called before it takes a token.
  virtual void begin_behind(int64_t num_tokens) { (void)num_tokens; }

  // Tokens that must follow whatever is chosen, possibly none; the state stays as it is.
  virtual std::vector<int32_t> forced_tokens() = 0;

  // At most `limit` tokens as the target would spell what is forced, by the `row` of num_words words that was filled
  // here last; to be accepted one by one, since they are a guess. The only token that a row allows is forced too, the
  // end token included. The state stays as it is.
  virtual std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                const Spelling& spelling) {
    (void)limit, (void)spelling;
    return only_draft(row, num_words);
  }

 protected:
  // The token that a row allows where it allows no other, as drafts.
  static std::vector<SpeltToken> only_draft(const int32_t* row, size_t num_words) {
    const int32_t token = only_token(row, num_words);
    return token < 0 ? std::vector<SpeltToken>{} : std::vector<SpeltToken>{{token, -1}};
  }
};

}  // namespace specguide
