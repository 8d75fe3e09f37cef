#include "endings/builder.h"

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "endings/deeper.h"
#include "endings/free_text.h"
#include "endings/product.h"
#include "endings/utf8_ranges.h"

namespace specguide {

// What all networks of one grammar share.
struct SharedParts {
  const Grammar& grammar;
  const Vocabulary& vocabulary;
  bool is_exact;  // so far
  const bool has_surrogates = !is_exact;  // a library may accept them
  const ByteSet spellable = spellable_bytes(vocabulary);
  size_t num_states_left = kMostStatesOfProducts;  // of products
  int depth = 0;                                   // of nested parts, including those of products
  const std::shared_ptr<AutomatonPool> pool = std::make_shared<AutomatonPool>(SIZE_MAX);
  std::unordered_map<std::string, std::shared_ptr<Automaton>> named{};  // of rules that are factors of products
};

namespace {

using Node = Network::Node;

class Builder {
 public:
  explicit Builder(SharedParts& shared) : shared_(shared) {}

  std::shared_ptr<const Network> whole() {
    settled(named(shared_.grammar.root));
    if (shared_.is_exact) network_->set_exact();
    return network_;
  }

  Product product_of(const Expression& expression) {
    Product found;
    found.is_first = expression.kind == Expression::Kind::kFirst;
    std::vector<const Expression*> parts;
    for (const Expression& part : expression.parts) parts.push_back(&part);
    if (expression.kind == Expression::Kind::kNot) parts = {&expression};
    for (const Expression* part : parts) {
      const bool is_not = part->kind == Expression::Kind::kNot;
      found.factors.push_back({factor(is_not ? part->parts[0] : *part), is_not});
    }
    return found;
  }

 private:
  std::shared_ptr<const Network> settled(int32_t root) {
    while (!waiting_.empty()) {
      const std::string name = std::move(waiting_.back());
      waiting_.pop_back();
      fill(known_[name], shared_.grammar.rules.at(name));
    }
    network_->settle(root);
    return network_;
  }

  int32_t named(const std::string& name) {
    if (shared_.grammar.rules.find(name) == shared_.grammar.rules.end()) {
      throw std::invalid_argument("the grammar has no rule " + name);
    }
    const auto [found, is_new] = known_.try_emplace(name, -1);
    if (is_new) {
      found->second = network_->add_rule();
      waiting_.push_back(name);
    }
    return found->second;
  }

  void fill(int32_t rule, const Expression& expression) {
    const int32_t end = network_->add_node(rule, {});
    network_->set_start(rule, node(expression, end, rule));
  }

  int32_t rule_of(const Expression& expression) {
    if (expression.kind == Expression::Kind::kRule) return named(expression.text);
    const int32_t rule = network_->add_rule();
    fill(rule, expression);
    return rule;
  }

  // The first node of an expression that continues at `next`.
  int32_t node(const Expression& expression, int32_t next, int32_t rule) {
    const Deeper deeper(shared_.depth);
    switch (expression.kind) {
      case Expression::Kind::kLiteral:
        return network_->add_literal(rule, expression.text, next);
      case Expression::Kind::kClass:
        return add_code_ranges(*network_, rule, expression.ranges, next, shared_.has_surrogates);
      case Expression::Kind::kRule:
        return network_->add_call(rule, named(expression.text), 1, 1, next);
      case Expression::Kind::kRepeat:
        if (expression.most == 0) return next;
        return network_->add_call(rule, rule_of(expression.parts[0]), expression.least, expression.most, next);
      case Expression::Kind::kSequence:
        for (auto part = expression.parts.rbegin(); part != expression.parts.rend(); ++part) {
          next = node(*part, next, rule);
        }
        return next;
      case Expression::Kind::kChoice: {
        Node split;
        split.kind = Network::Kind::kSplit;
        for (const Expression& part : expression.parts) split.next.push_back(node(part, next, rule));
        return network_->add_node(rule, std::move(split));
      }
      case Expression::Kind::kBoth:
      case Expression::Kind::kNot:
      case Expression::Kind::kFirst:
        return product(expression, next, rule);
      case Expression::Kind::kFreeText:
        return add_free_text(*network_, rule, *expression.free_text, next,
                             [this](const std::string& name) { return named(name); });
    }
    return next;
  }

  int32_t product(const Expression& expression, int32_t next, int32_t rule) {
    const Product found = product_of(expression);
    const std::optional<int32_t> added = add_product(*network_, rule, found, next, shared_.num_states_left);
    if (added) return *added;
    // The product is too large. Its first part is enough, because the matcher knows the rest.
    if (found.is_first || found.factors[0].is_not) {
      throw std::invalid_argument("a part of the grammar has too many states");
    }
    shared_.is_exact = false;
    return node(expression.parts[0], next, rule);
  }

  // The automaton of a single expression; that of a rule is reused for all products, until it has grown too large.
  std::shared_ptr<Automaton> factor(const Expression& expression) {
    Builder builder(shared_);
    const auto automaton_of = [&](int32_t root) {
      return std::make_shared<Automaton>(builder.settled(root), shared_.pool);
    };
    if (expression.kind != Expression::Kind::kRule) return automaton_of(builder.rule_of(expression));
    std::shared_ptr<Automaton>& known = shared_.named[expression.text];
    if (!known || Automaton::Walk(*known).has_lost_track()) known = automaton_of(builder.named(expression.text));
    return known;
  }

  SharedParts& shared_;
  const std::shared_ptr<Network> network_ = std::make_shared<Network>(shared_.vocabulary, shared_.spellable);
  std::unordered_map<std::string, int32_t> known_;
  std::vector<std::string> waiting_;
};

}  // namespace

std::shared_ptr<const Network> build_network(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact) {
  SharedParts shared{grammar, vocabulary, is_exact};
  return Builder(shared).whole();
}

Products::Products(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact)
    : parts_(new SharedParts{grammar, vocabulary, is_exact}) {}

Products::~Products() = default;

Product Products::of(const Expression& expression) { return Builder(*parts_).product_of(expression); }

}  // namespace specguide
