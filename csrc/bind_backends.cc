// Owns the Python face of the grammar backends' native adapters.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "backends/call_matcher.h"
#include "backends/distinct_matcher.h"
#include "backends/key_matcher.h"
#include "backends/llguidance.h"
#include "backends/reasoning.h"
#include "backends/xgrammar.h"
#include "bind_python.h"
#include "bindings.h"

namespace py = pybind11;

namespace specguide {

namespace {

using unlocked = py::call_guard<WithoutGil>;

std::shared_ptr<Vocabulary> make_vocabulary(const py::sequence& token_bytes, std::vector<int32_t> eos_token_ids) {
  std::vector<std::string> bytes;
  bytes.reserve(py::len(token_bytes));
  for (const auto& token : token_bytes) bytes.push_back(token.cast<py::bytes>());
  return std::make_shared<Vocabulary>(std::move(bytes), std::move(eos_token_ids));
}

// Checks the row's width, which the matcher contract does not.
void fill_row(LibraryMatcher& matcher, const py::buffer& row) {
  const py::buffer_info info = row.request(/*writable=*/true);
  const auto num_words = matcher.vocabulary().num_words();
  if (info.itemsize != 4 || info.ndim != 1 || info.strides[0] != 4 || info.shape[0] != num_words) {
    throw py::value_error("a row must be a contiguous int32 buffer of " + std::to_string(num_words) + " words");
  }
  auto* words = static_cast<int32_t*>(info.ptr);
  WithoutGil unlocked;
  matcher.fill(words);
}

// The guard for objects whose keys may come in any order.
void bind_keys(py::module_& m) {
  py::class_<KeyTokens, std::shared_ptr<KeyTokens>>(m, "KeyTokens")
      .def(py::init([](std::shared_ptr<Vocabulary> vocabulary) {
             return std::make_shared<KeyTokens>(std::move(vocabulary));
           }),
           py::arg("vocabulary"));
  using Unnamed = KeyOption::Unnamed;
  py::enum_<Unnamed>(m, "UnnamedKeys")
      .value("NONE", Unnamed::kNone)
      .value("SOME", Unnamed::kSome)
      .value("ANY", Unnamed::kAny);
  py::class_<KeyOption>(m, "KeyOption")
      .def(py::init([](std::vector<std::string> allowed, std::vector<std::string> required, size_t least,
                       std::optional<size_t> most, Unnamed unnamed) {
             return KeyOption{std::move(allowed), std::move(required), least, most.value_or(SIZE_MAX), unnamed};
           }),
           py::kw_only(), py::arg("allowed"), py::arg("required"), py::arg("least"), py::arg("most"),
           py::arg("unnamed"));
  py::class_<KeyPlace>(m, "KeyPlace")
      .def(py::init([](std::vector<KeyOption> options, std::unordered_map<std::string, int> names, int other,
                       std::vector<int> prefix, int rest) {
             return KeyPlace{std::move(options), std::move(names), other, std::move(prefix), rest};
           }),
           py::kw_only(), py::arg("options"), py::arg("names"), py::arg("other"), py::arg("prefix"), py::arg("rest"));
  py::class_<KeyPlaces, std::shared_ptr<KeyPlaces>>(m, "KeyPlaces")
      .def(py::init([](const std::vector<KeyPlace>& places) { return std::make_shared<KeyPlaces>(places); }),
           py::arg("places"));
  py::class_<KeyStarts, std::shared_ptr<KeyStarts>>(m, "KeyStarts")
      .def(py::init([](const std::vector<std::pair<std::string, int>>& starts) {
             return std::make_shared<KeyStarts>(starts);
           }),
           py::arg("starts"));
  py::class_<KeyMatcher, Matcher, std::shared_ptr<KeyMatcher>>(m, "KeyMatcher")
      .def(py::init([](std::shared_ptr<Matcher> inner, std::shared_ptr<KeyTokens> tokens,
                       std::shared_ptr<KeyPlaces> places, std::shared_ptr<KeyStarts> starts) {
             KeyWalk walk(std::move(places), std::move(starts));
             return std::make_shared<KeyMatcher>(std::move(inner), std::move(tokens), std::move(walk));
           }),
           py::arg("inner"), py::arg("tokens"), py::arg("places"), py::arg("starts"));
}

// Makes matchers by calling a Python function, which may have to wait for a compile.
auto parts_of(py::object make) {
  return [shared = share(std::move(make))](int call, const std::string& before) {
    PythonCall python;
    try {
      return py::handle(shared.get())(call, py::bytes(before)).cast<std::shared_ptr<Matcher>>();
    } catch (py::error_already_set& error) {
      throw std::runtime_error(describe(error, /*with_traceback=*/false));
    }
  };
}

// Messages with tool calls whose arguments are compiled when a call begins.
void bind_calls(py::module_& m) {
  py::enum_<CallArguments>(m, "CallArguments")
      .value("SEARCHED", CallArguments::kSearched)
      .value("JSON", CallArguments::kJson)
      .value("BRACKETED", CallArguments::kBracketed);
  py::class_<HeldTexts>(m, "HeldTexts")
      .def(py::init([](std::vector<std::string> before, std::string behind_name, std::string begin, std::string end,
                       std::string after) {
             if (before.empty() || behind_name.empty() || begin.empty() || end.empty() || after.empty()) {
               throw std::invalid_argument("a mark of texts that may hold calls must not be empty");
             }
             return HeldTexts{std::move(before), std::move(behind_name), std::move(begin), std::move(end),
                              std::move(after)};
           }),
           py::kw_only(), py::arg("before"), py::arg("behind_name"), py::arg("begin"), py::arg("end"),
           py::arg("after"));
  py::class_<Calls, std::shared_ptr<Calls>>(m, "Calls")
      .def(py::init([](const CallWalk::Texts& before, const CallWalk::Names& names, const std::string& gate,
                       const std::optional<std::string>& lead, CallArguments arguments,
                       const std::optional<HeldTexts>& held, std::vector<bool> has_part,
                       std::shared_ptr<Vocabulary> vocabulary, const std::vector<int32_t>& reaching, py::object part) {
             for (const auto& [name, call] : names) {
               if (call < 0 || static_cast<size_t>(call) >= has_part.size()) {
                 throw std::invalid_argument("the number of a call's tool is out of range");
               }
             }
             const int lead_len = lead ? static_cast<int>(lead->size()) : -1;
             CallWalk walk(before, names, gate, lead_len, arguments, held.value_or(HeldTexts{}));
             return std::make_shared<Calls>(std::move(walk), lead.value_or(""), std::move(has_part),
                                            std::move(vocabulary), reaching, parts_of(std::move(part)));
           }),
           py::kw_only(), py::arg("before"), py::arg("names"), py::arg("gate"), py::arg("lead"), py::arg("arguments"),
           py::arg("held") = py::none(), py::arg("has_part"), py::arg("vocabulary"), py::arg("reaching"),
           py::arg("part"));
  py::class_<CallMatcher, Matcher, std::shared_ptr<CallMatcher>>(m, "CallMatcher")
      .def(py::init([](std::shared_ptr<Calls> calls) { return std::make_shared<CallMatcher>(std::move(calls)); }),
           py::arg("calls"));
}

void bind_reasoning(py::module_& m) {
  py::class_<ReasoningMark, std::shared_ptr<ReasoningMark>>(m, "ReasoningMark")
      .def(py::init([](std::shared_ptr<Vocabulary> vocabulary, const py::bytes& text) {
             return std::make_shared<ReasoningMark>(std::move(vocabulary), std::string(text));
           }),
           py::arg("vocabulary"), py::arg("mark"))
      .def(py::init([](std::shared_ptr<Vocabulary> vocabulary, int32_t token) {
             return std::make_shared<ReasoningMark>(std::move(vocabulary), token);
           }),
           py::arg("vocabulary"), py::arg("mark"));
  py::class_<ReasoningMatcher, Matcher, std::shared_ptr<ReasoningMatcher>>(m, "ReasoningMatcher")
      .def(py::init([](std::shared_ptr<Matcher> answer, const std::vector<std::shared_ptr<ReasoningMark>>& end,
                       const std::vector<std::shared_ptr<ReasoningMark>>& begin, std::optional<int64_t> max_tokens,
                       const std::optional<std::vector<std::shared_ptr<ReasoningMark>>>& instead,
                       std::vector<int32_t> cut_by) {
             ReasoningSection section{{begin.begin(), begin.end()}, {end.begin(), end.end()}, max_tokens};
             if (instead) section.instead = ReasoningMarks(instead->begin(), instead->end());
             section.cut_by = std::move(cut_by);
             return std::make_shared<ReasoningMatcher>(std::move(section), std::move(answer));
           }),
           py::arg("answer"), py::arg("end"), py::arg("begin") = py::tuple(), py::arg("max_tokens") = std::nullopt,
           py::arg("instead") = std::nullopt, py::arg("cut_by") = py::tuple());
}

void bind_distinct(py::module_& m) {
  py::class_<DistinctTokens, std::shared_ptr<DistinctTokens>>(m, "DistinctTokens")
      .def(py::init([](std::shared_ptr<Vocabulary> vocabulary) {
             return std::make_shared<DistinctTokens>(std::move(vocabulary));
           }),
           py::arg("vocabulary"));
  using Place = DistinctPlace;
  py::enum_<Place::Room>(m, "DistinctRoom")
      .value("FREE", Place::Room::kFree)
      .value("ENDLESS", Place::Room::kEndless)
      .value("FEW", Place::Room::kFew);
  py::class_<Place>(m, "DistinctPlace")
      .def(py::init([](bool is_distinct, Place::Room room, std::vector<int> prefix, int rest,
                       std::unordered_map<std::string, int> properties, int other, bool is_even, std::string endless) {
             return Place{is_distinct, room, std::move(prefix), rest, std::move(properties),
                          other,       is_even, std::move(endless)};
           }),
           py::kw_only(), py::arg("is_distinct"), py::arg("room"), py::arg("prefix"), py::arg("rest"),
           py::arg("properties"), py::arg("other"), py::arg("is_even") = true,
           py::arg("endless") = "");
  py::class_<DistinctPlaces, std::shared_ptr<DistinctPlaces>>(m, "DistinctPlaces")
      .def(py::init([](std::vector<Place> places) { return std::make_shared<DistinctPlaces>(std::move(places)); }),
           py::arg("places"));
  py::class_<DistinctMatcher, Matcher, std::shared_ptr<DistinctMatcher>>(m, "DistinctMatcher")
      .def(py::init([](std::shared_ptr<Matcher> inner, std::shared_ptr<DistinctTokens> tokens,
                       std::shared_ptr<DistinctPlaces> places, std::shared_ptr<KeyStarts> starts, bool in_any_order) {
             DistinctWalk walk(std::move(places), std::move(starts), in_any_order);
             return std::make_shared<DistinctMatcher>(std::move(inner), std::move(tokens), std::move(walk));
           }),
           py::arg("inner"), py::arg("tokens"), py::arg("places"), py::arg("starts"), py::arg("in_any_order") = false);
}

void bind_libraries(py::module_& m) {
  py::class_<XGrammarLibrary, std::shared_ptr<XGrammarLibrary>>(m, "XGrammarLibrary")
      .def(py::init<const std::string&>(), py::arg("tvm_ffi_path"))
      .def("grammar",
           [](std::shared_ptr<XGrammarLibrary> self, std::shared_ptr<Vocabulary> vocabulary, uintptr_t handle) {
             return XGrammarLibrary::grammar(std::move(self), std::move(vocabulary), reinterpret_cast<void*>(handle));
           },
           py::arg("vocabulary"), py::arg("handle"));
  py::class_<llg::Api, std::shared_ptr<llg::Api>>(m, "LLGuidanceLibrary")
      .def(py::init<const std::string&>(), py::arg("path"));
  py::class_<LLGuidanceLimits>(m, "LLGuidanceLimits")
      .def(py::init([](size_t max_items_in_row, size_t step_max_items, uint64_t initial_lexer_fuel,
                       uint64_t step_lexer_fuel, size_t max_lexer_states) {
             return LLGuidanceLimits{max_items_in_row, step_max_items, initial_lexer_fuel, step_lexer_fuel,
                                     max_lexer_states};
           }),
           py::kw_only(), py::arg("max_items_in_row"), py::arg("step_max_items"), py::arg("initial_lexer_fuel"),
           py::arg("step_lexer_fuel"), py::arg("max_lexer_states"))
      .def_readonly("max_items_in_row", &LLGuidanceLimits::max_items_in_row)
      .def_readonly("step_max_items", &LLGuidanceLimits::step_max_items)
      .def_readonly("initial_lexer_fuel", &LLGuidanceLimits::initial_lexer_fuel)
      .def_readonly("step_lexer_fuel", &LLGuidanceLimits::step_lexer_fuel)
      .def_readonly("max_lexer_states", &LLGuidanceLimits::max_lexer_states);
  py::class_<LLGuidanceTokenizer, std::shared_ptr<LLGuidanceTokenizer>>(m, "LLGuidanceTokenizer")
      .def(py::init([](std::shared_ptr<llg::Api> library, std::shared_ptr<Vocabulary> vocabulary) {
             WithoutGil unlocked;
             return std::make_shared<LLGuidanceTokenizer>(std::move(library), std::move(vocabulary));
           }),
           py::arg("library"), py::arg("vocabulary"))
      .def("compile",
           [](std::shared_ptr<LLGuidanceTokenizer> self, const std::string& lark, const LLGuidanceLimits& usual,
              const LLGuidanceLimits& more) {
             return LLGuidanceTokenizer::compile(std::move(self), lark, usual, more);
           },
           py::arg("lark"), py::arg("usual"), py::arg("more"), unlocked());
}

}  // namespace

void bind_backends(py::module_& m) {
  py::class_<Vocabulary, std::shared_ptr<Vocabulary>>(m, "NativeVocabulary")
      .def(py::init(&make_vocabulary), py::arg("token_bytes"), py::arg("eos_token_ids"))
      .def("__len__", &Vocabulary::size);
  py::class_<LibraryMatcher, Matcher, std::shared_ptr<LibraryMatcher>>(m, "LibraryMatcher")
      .def("fill", &fill_row, py::arg("row"))
      .def("fill", [](LibraryMatcher& self, uintptr_t row) { self.fill(reinterpret_cast<int32_t*>(row)); },
           py::arg("row"), unlocked());
  py::class_<CompiledGrammar, std::shared_ptr<CompiledGrammar>>(m, "NativeGrammar")
      .def("matcher", &CompiledGrammar::matcher, unlocked())
      .def_property_readonly("num_learned", &CompiledGrammar::num_learned);
  bind_reasoning(m);
  bind_keys(m);
  bind_distinct(m);
  bind_calls(m);
  bind_libraries(m);
}

}  // namespace specguide
