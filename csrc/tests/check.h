// Owns the few helpers that the C++ tests need: CHECK, TEST and a main that runs all tests.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

inline void require(bool condition, const std::string& what, const char* file, int line) {
  if (condition) return;
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

// The message of the E that `function` throws.
template <typename E, typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  throw std::logic_error("nothing was thrown");
}

inline void require_part(const std::string& text, const std::string& part, const char* file, int line) {
  require(text.find(part) != std::string::npos, "'" + text + "' lacks '" + part + "'", file, line);
}

}  // namespace check

#define CHECK(condition) check::require((condition), #condition, __FILE__, __LINE__)
#define CHECK_CONTAINS(text, part) \
  check::require_part((text), (part), __FILE__, __LINE__)
#define TEST(name)                                                   \
  static void name();                                                \
  static const check::Registration registration_##name(#name, name); \
  static void name()

int main() {
  int num_failed = 0;
  for (const check::Test& test : check::tests()) {
    try {
      test.run();
      std::printf("ok      %s\n", test.name);
    } catch (const std::exception& error) {
      ++num_failed;
      std::printf("FAILED  %s: %s\n", test.name, error.what());
    }
    std::fflush(stdout);
  }
  return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
