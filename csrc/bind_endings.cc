// Owns the bindings of the guard that makes outputs end in time.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bind_python.h"
#include "bindings.h"
#include "endings/ebnf.h"
#include "endings/ending_matcher.h"
#include "endings/lark.h"

namespace py = pybind11;

namespace specguide {

void bind_endings(py::module_& m) {
  using release = py::call_guard<WithoutGil>;
  py::class_<TokenTrie, std::shared_ptr<TokenTrie>>(m, "TokenTrie")
      .def(py::init([](std::shared_ptr<Vocabulary> vocabulary) {
             WithoutGil unlocked;
             return std::make_shared<TokenTrie>(std::move(vocabulary));
           }),
           py::arg("vocabulary"));
  py::class_<AutomatonPool, std::shared_ptr<AutomatonPool>>(m, "AutomatonPool")
      .def(py::init<size_t>(), py::arg("most_bytes"))
      .def_property_readonly("num_bytes", &AutomatonPool::num_bytes);
  py::class_<Endings, std::shared_ptr<Endings>>(m, "Endings")
      .def(py::init([](const std::string& form, const std::string& text, std::shared_ptr<TokenTrie> trie,
                       std::shared_ptr<AutomatonPool> pool, bool is_exact, bool may_wait) {
             WithoutGil unlocked;
             return std::make_shared<Endings>(form == "lark" ? read_lark(text) : read_ebnf(text), std::move(trie),
                                              std::move(pool), is_exact, may_wait);
           }),
           py::arg("form"), py::arg("text"), py::arg("trie"), py::arg("pool"),
           py::arg("is_exact") = false, py::arg("may_wait") = false)
      .def("build", &Endings::build, release())
      .def_property_readonly("is_built", &Endings::is_built)
      .def_property_readonly("is_endless", &Endings::is_endless)
      .def_property_readonly("is_exact", py::cpp_function(&Endings::is_exact, release()))
      .def_property_readonly("most_least", py::cpp_function(&Endings::most_least, release()))
      .def_property_readonly("num_shared", [](const Endings& self) { return self.num_shared.load(); })
      .def_property_readonly("num_least", py::cpp_function(&Endings::num_least, release()))
      .def("num_missing", [](Endings& self, const py::bytes& text) { return self.num_missing(std::string(text)); },
           py::arg("text"));
  py::class_<EndingMatcher, Matcher, std::shared_ptr<EndingMatcher>>(m, "EndingMatcher")
      .def(py::init([](std::shared_ptr<Matcher> inner, std::shared_ptr<Endings> endings, int64_t max_tokens,
                       int64_t num_spare, bool may_go_on) {
             return std::make_shared<EndingMatcher>(std::move(inner), std::move(endings), max_tokens, num_spare,
                                                    may_go_on);
           }),
           py::arg("inner"), py::arg("endings"), py::arg("max_tokens"), py::arg("num_spare") = 0,
           py::arg("may_go_on") = false)
      .def("found_end", py::overload_cast<>(&EndingMatcher::found_end), release());
}

}  // namespace specguide
