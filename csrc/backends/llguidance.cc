// Owns the native adapter of llguidance; see llguidance.h.
#include "backends/llguidance.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "backends/llguidance_pattern.h"

namespace specguide {
namespace {

// The library's message for a state that allows no token, which is an empty row here, not a failure.
constexpr std::string_view kDeadEnd = "NoExtensionBias";
constexpr char kRaised[] = " (its limits were raised, and that was not enough: make the grammar simpler)";

class LLGuidanceMatcher final : public LibraryMatcher {
 public:
  LLGuidanceMatcher(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<LLGuidancePattern> pattern)
      : LibraryMatcher(std::move(vocabulary)), pattern_(std::move(pattern)), handle_(pattern_->take()) {}
  ~LLGuidanceMatcher() override {
    if (!is_roomy_) pattern_->give_back(std::move(handle_));
  }
  LLGuidanceMatcher(const LLGuidanceMatcher&) = delete;
  LLGuidanceMatcher& operator=(const LLGuidanceMatcher&) = delete;

 protected:
  // Its grammars may refer to special tokens by their ids.
  bool may_take(int32_t token) const override { return token >= 0 && token < vocabulary().size(); }

  // The fuel that a mask leaves is used for the tokens after it. When it is used up the library refuses every token,
  // and only the next mask reports an error. So only a refusal right after a mask is trusted.
  bool take(int32_t token) override {
    if (take_valid(static_cast<uint32_t>(token))) return true;
    if (is_masked_) return false;
    std::vector<int32_t> row(static_cast<size_t>(vocabulary().num_words()));
    write_row(row.data());
    return take_valid(static_cast<uint32_t>(token));
  }

  bool take_all(const int32_t* tokens, size_t num_tokens) override {
    const std::vector<uint32_t> ids(tokens, tokens + num_tokens);
    if (api().consume_tokens(handle_->get(), ids.data(), ids.size()) != 0) {
      revive();
      return false;
    }
    taken_.insert(taken_.end(), ids.begin(), ids.end());
    is_masked_ = false;
    return true;
  }

  void write_row(int32_t* row) override {
    compute(row);
    // After a rollback to another path the library (1.9.1) may return its last mask again, which it finds by position
    // in the text and not by path. Computing the mask of the common prefix is correct in any case, and makes it forget
    // the other one. If only an end may follow, it may remember the mask before that.
    for (const Filled* last : {&last_, &last_of_end_}) {
      const bool elsewhere = last->prefix_len < last->len && last->prefix_len < taken_.size();
      if (!elsewhere || !std::equal(last->row.begin(), last->row.end(), row)) continue;
      compute_again(row, last->prefix_len);
      break;
    }
    Filled& filled = has_text(row) ? last_ : last_of_end_;
    filled.prefix_len = filled.len = taken_.size();
    filled.row.assign(row, row + vocabulary().num_words());
    is_masked_ = true;
    if (pattern_->names_tokens()) clear_early_ends(row);
  }

  void undo(int n) override {
    if (api().rollback(handle_->get(), static_cast<size_t>(n)) != 0) throw std::runtime_error(revive());
    taken_.resize(taken_.size() - static_cast<size_t>(n));
    is_masked_ = false;
    for (Filled* last : {&last_, &last_of_end_}) last->prefix_len = std::min(last->prefix_len, taken_.size());
  }

  bool may_end() override { return api().is_accepting(handle_->get()); }

 private:
  const llg::Api& api() const { return handle_->api(); }

  // A token that the library refuses would put it into a permanent error, so it is asked first.
  bool take_valid(uint32_t token) {
    int32_t num_valid = 0;
    with_room([&] {
      num_valid = api().validate_tokens(handle_->get(), &token, 1);
      return num_valid == 0 || (num_valid > 0 && api().consume_tokens(handle_->get(), &token, 1) == 0);
    });
    if (num_valid <= 0) return false;
    taken_.push_back(token);
    is_masked_ = false;
    return true;
  }

  // Calls the library by `call`, which is false if it failed. After a failure, which may come from a limit, it calls
  // once more from the same state with a roomier matcher, which is used from then on.
  template <typename Call>
  void with_room(Call call) {
    if (call()) return;
    if (!is_roomy_) {
      is_roomy_ = true;
      revive();
      if (call()) return;
    }
    throw std::runtime_error(revive() + kRaised);
  }

  // A grammar may allow any token, as <[*]> does, but an end token must end the text.
  void clear_early_ends(int32_t* row) {
    const std::vector<int32_t>& ends = vocabulary().eos_token_ids;
    const auto is_set = [row](int32_t end) { return has_bit(row, end); };
    if (std::none_of(ends.begin(), ends.end(), is_set) || may_end()) return;
    for (int32_t end : ends) put_bit(row, end, false);
  }

  void compute(int32_t* row) {
    with_room([&] { return try_compute(row); });
  }

  void compute_again(int32_t* row, size_t prefix_len) {
    const size_t num_since = taken_.size() - prefix_len;
    const uint32_t* since = taken_.data() + prefix_len;
    with_room([&] {
      if (api().rollback(handle_->get(), num_since) != 0 || !try_compute(row)) return false;
      return api().consume_tokens(handle_->get(), since, num_since) == 0 && try_compute(row);
    });
  }

  // Whether any token other than an end token may follow.
  bool has_text(const int32_t* row) const {
    for (int word = 0; word < vocabulary().num_words(); ++word) {
      auto bits = static_cast<uint32_t>(row[word]);
      if (bits == 0) continue;
      for (int32_t end : vocabulary().eos_token_ids) {
        if (end / 32 == word) bits &= ~(1u << (end % 32));
      }
      if (bits != 0) return true;
    }
    return false;
  }

  // True, with an empty row, if the grammar allows nothing.
  bool try_compute(int32_t* row) {
    const auto num_words = static_cast<size_t>(vocabulary().num_words());
    if (api().compute_mask_into(handle_->get(), reinterpret_cast<uint32_t*>(row), 4 * num_words) == 0) return true;
    if (handle_->error().compare(0, kDeadEnd.size(), kDeadEnd) != 0) return false;
    revive();
    std::fill_n(row, num_words, 0);
    return true;
  }

  // An error of the library is permanent. So a new matcher walks the accepted tokens, which restores the state before
  // the failed call. Returns the error's message.
  std::string revive() {
    const std::string words = handle_->error();
    handle_ = is_roomy_ ? pattern_->take_roomy() : pattern_->take();
    if (!taken_.empty() && api().consume_tokens(handle_->get(), taken_.data(), taken_.size()) != 0) {
      throw std::runtime_error(handle_->error() + (is_roomy_ ? kRaised : ""));
    }
    return words;
  }

  std::shared_ptr<LLGuidancePattern> pattern_;
  std::unique_ptr<LLGuidanceHandle> handle_;
  bool is_roomy_ = false;
  bool is_masked_ = false;  // a mask was computed after the last accepted token
  std::vector<uint32_t> taken_;
  // A filled row: the number of tokens before it, and how many of them still are accepted.
  struct Filled {
    std::vector<int32_t> row;
    size_t len = 0, prefix_len = 0;
  };
  Filled last_;         // with text
  Filled last_of_end_;  // without text
};

class LLGuidanceGrammar final : public CompiledGrammar {
 public:
  LLGuidanceGrammar(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<LLGuidancePattern> pattern)
      : vocabulary_(std::move(vocabulary)), pattern_(std::move(pattern)) {}

  std::shared_ptr<LibraryMatcher> matcher() override {
    return std::make_shared<LLGuidanceMatcher>(vocabulary_, pattern_);
  }
  int64_t num_learned() const override { return pattern_->num_learned(); }

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<LLGuidancePattern> pattern_;
};

llg::Tokenizer* new_tokenizer(const llg::Api& api, const Vocabulary& vocabulary) {
  std::vector<uint32_t> lengths;
  std::string bytes;
  for (const std::string& token : vocabulary.token_bytes) {
    lengths.push_back(static_cast<uint32_t>(token.size()));
    bytes += token;
  }
  const std::vector<uint32_t> eos(vocabulary.eos_token_ids.begin(), vocabulary.eos_token_ids.end());
  llg::TokenizerInitV2 init{};
  init.struct_size = sizeof(init);
  init.vocab_size = static_cast<uint32_t>(vocabulary.size());
  init.tok_eos = eos[0];
  init.tok_eos_extra = eos.data() + 1;
  init.tok_eos_extra_count = static_cast<uint32_t>(eos.size() - 1);
  init.token_lens = lengths.data();
  init.token_bytes = reinterpret_cast<const uint8_t*>(bytes.data());
  // With its own tokenizer the library would reduce a row to its preferred spelling of forced text; with the greedy one
  // a row has every token that the grammar allows.
  init.use_approximate_greedy_tokenize_fn = true;
  char error[512] = "";
  llg::Tokenizer* tokenizer = api.new_tokenizer_v2(&init, error, sizeof(error));
  if (tokenizer == nullptr) throw std::runtime_error(std::string("llguidance refuses the vocabulary: ") + error);
  return tokenizer;
}

}  // namespace

LLGuidanceTokenizer::LLGuidanceTokenizer(std::shared_ptr<const llg::Api> api,
                                         std::shared_ptr<const Vocabulary> vocabulary)
    : api_(std::move(api)), vocabulary_(std::move(vocabulary)), tokenizer_(new_tokenizer(*api_, *vocabulary_)) {}

LLGuidanceTokenizer::~LLGuidanceTokenizer() { api_->free_tokenizer(tokenizer_); }

std::shared_ptr<CompiledGrammar> LLGuidanceTokenizer::compile(LLGuidanceTokenizerPtr tokenizer, const std::string& lark,
                                                              const LLGuidanceLimits& usual,
                                                              const LLGuidanceLimits& more) {
  auto handle = LLGuidanceHandle::at_start(tokenizer, lark, usual);
  const auto num_bytes = static_cast<size_t>(tokenizer->vocabulary()->num_words()) * 4;
  if (handle->api().mask_byte_size(handle->get()) != num_bytes) {
    throw std::runtime_error("llguidance fills rows of another width than the vocabulary's");
  }
  auto pattern = std::make_shared<LLGuidancePattern>(std::move(handle), lark, more);
  return std::make_shared<LLGuidanceGrammar>(tokenizer->vocabulary(), std::move(pattern));
}

}  // namespace specguide
