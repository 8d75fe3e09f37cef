// Owns the end of chains whose links share ownership of the one before.
#pragma once

#include <memory>
#include <utility>

namespace specguide {

// Lets go of the links from `last` on, one after the other: a destructor within a destructor for each link may take
// more than the stack has. `before` is the member by which a link owns the one before it.
template <typename Link, typename Owner>
void release_chain(std::shared_ptr<Link>& last, std::shared_ptr<Link> Owner::* before) {
  while (last != nullptr && last.use_count() == 1) {
    last = std::shared_ptr<Link>(std::move(const_cast<Owner&>(*last).*before));
  }
}

}  // namespace specguide
