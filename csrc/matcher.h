// Owns the matcher contract: a request's grammar state, with the same meaning for all backends.
//
// * accept(end token) terminates if the grammar may end here. A terminated matcher accepts nothing and fills nothing.
// * A refused token changes nothing.
// * rollback(n) takes back the last n accepted tokens, also across termination.
// * A failure of the library underneath is thrown as std::runtime_error with the library's message. The matcher's state
//   is unknown afterwards.
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

  // True if the grammar allows `token` here; it is then accepted.
  virtual bool accept(int32_t token) = 0;

  // Accepts tokens that are known to be allowed. False if the matcher refuses one after all; it has then accepted the
  // tokens before that one, or none.
  virtual bool accept_all(const int32_t* tokens, size_t num_tokens) {
    return std::all_of(tokens, tokens + num_tokens, [this](int32_t token) { return accept(token); });
  }

  // Writes the row of what may follow: ceil(vocab / 32) words, bit 1 = allowed, padding bits 0, end tokens allowed if
  // the grammar may end. Must not be called on a terminated matcher.
  virtual void fill(int32_t* row) = 0;

  // Like `fill`, but what the row holds already need not be written again.
  virtual void refill(FilledRow& row) {
    row.content = 0;
    fill(row.words);
  }

  // Like accept and refill, for drafts that are not verified yet: these answer immediately, by a guess if necessary.
  //
  // A token that was accepted by a guess must be rolled back before anything but draft tokens and draft rows is asked
  // for. A token that was refused by a guess may still be allowed behind other tokens.
  enum class Answer { kNo, kYes, kNoByGuess, kYesByGuess };
  virtual Answer accept_draft(int32_t token) { return accept(token) ? Answer::kYes : Answer::kNo; }
  // kYes: the row is filled. kYesByGuess: the row is that of a similar state. kNoByGuess: nothing is known immediately.
  virtual Answer refill_draft(FilledRow& row) {
    refill(row);
    return Answer::kYes;
  }

  // Takes back the last n accepted tokens. Throws if there are fewer.
  virtual void rollback(int n) = 0;

  virtual bool is_terminated() const = 0;

  // Tells the matcher how many output tokens come before the first token that it accepts; the default is none. Must be
  // called before it accepts any token.
  virtual void begin_behind(int64_t num_tokens) { (void)num_tokens; }

  // Tokens that must come next, whatever is chosen; possibly none. The state is unchanged.
  virtual std::vector<int32_t> forced_tokens() = 0;

  // At most `limit` forced tokens, spelled as the target would spell them; `row`, of num_words words, is the row that
  // was last filled here. They are a guess, so each must still be accepted. The only token that a row allows counts as
  // forced, too, even an end token. The state is unchanged.
  virtual std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                const Spelling& spelling) {
    (void)limit, (void)spelling;
    return only_draft(row, num_words);
  }

 protected:
  // The token of a row that allows exactly one, as drafts.
  static std::vector<SpeltToken> only_draft(const int32_t* row, size_t num_words) {
    const int32_t token = only_token(row, num_words);
    return token < 0 ? std::vector<SpeltToken>{} : std::vector<SpeltToken>{{token, -1}};
  }
};

}  // namespace specguide
