// Owns free text with triggers: any text, up to one of some texts that are followed by a rule.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "endings/expression.h"
#include "endings/network.h"

namespace specguide {

// Adds nodes for free text before `next` and returns the first. The text may end anywhere except inside a trigger's
// rule.
int32_t add_free_text(Network& network, int32_t rule, const FreeText& text, int32_t next,
                      const std::function<int32_t(const std::string&)>& rule_named);

}  // namespace specguide
