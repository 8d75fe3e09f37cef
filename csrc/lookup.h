// Owns the contract of drafters that find tokens in earlier text: prompt lookup and suffix drafting.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace specguide {

// A proposed token.
//
// token:       -1: nothing is known
// probability: estimated probability that it comes next, 0 … 1
struct LookedUp {
  int32_t token = -1;
  double probability = 0;
};

// Looks up drafts for one request. Calls come one at a time, from any thread.
class Lookup {
 public:
  virtual ~Lookup() = default;

  // Appends one more verified token.
  virtual void append(int32_t token) = 0;

  // The token that follows the verified tokens and then `path`, which is not verified.
  virtual LookedUp next(const std::vector<int32_t>& path) = 0;

  // Called when the request has ended.
  virtual void finish() {}
};

// Makes the lookups of requests; any thread may call it.
class LookupSource {
 public:
  virtual ~LookupSource() = default;

  // Begins the lookups of a request whose verified tokens so far are `text`. Takes constant time, however long the text
  // is.
  virtual std::unique_ptr<Lookup> start(std::vector<int32_t> text) = 0;

  // Tokens are proposed as long as the product of the probabilities of a chain's looked-up tokens is at least this.
  virtual double least_probability() const { return 0; }
};

}  // namespace specguide
