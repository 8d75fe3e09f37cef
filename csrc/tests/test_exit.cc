// Threads may go on compiling while their process exits and its static objects are gone.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "endings/endings.h"
#include "endings/lark.h"

using namespace specguide;

TEST(grammars_are_compiled_until_the_process_is_over) {
  using std::chrono::milliseconds;
  std::atexit([] { std::this_thread::sleep_for(milliseconds(200)); });  // registered first, so it runs last
  std::thread([] {
    const std::vector<std::string> tokens{"a", "b", ""};
    const auto vocabulary = std::make_shared<const Vocabulary>(tokens, std::vector<int32_t>{2});
    const auto trie = std::make_shared<TokenTrie>(vocabulary);
    const auto pool = std::make_shared<AutomatonPool>(1 << 20);
    const std::string grammar = "%import common.INT\nstart: INT | A\nA: /[a-z]{1,9}/ & /[^q]*/\n";
    while (true) Endings(read_lark(grammar), trie, pool, /*is_exact=*/false, /*may_wait=*/true);
  }).detach();
  std::this_thread::sleep_for(milliseconds(50));
}
