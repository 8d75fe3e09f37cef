// Owns the destruction of linked chains in which each link shares ownership of the one before.
#pragma once

#include <memory>
#include <utility>

namespace specguide {

// Releases the links from `last` on one after another: nested destructors, one per link, could overflow the stack.
// `before` is the member by which a link owns the one before it.
template <typename Link, typename Owner>
void release_chain(std::shared_ptr<Link>& last, std::shared_ptr<Link> Owner::* before) {
  while (last != nullptr && last.use_count() == 1) {
    last = std::shared_ptr<Link>(std::move(const_cast<Owner&>(*last).*before));
  }
}

}  // namespace specguide
