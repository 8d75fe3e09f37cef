// Owns the bindings of the matcher contract, and matchers written in Python.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <variant>

#include "bind_python.h"
#include "bindings.h"
#include "matcher.h"

namespace py = pybind11;

namespace specguide {

namespace {

using unlocked = py::call_guard<WithoutGil>;

// Makes any Python object that keeps the contract a matcher; each call takes the GIL.
class PythonMatcher final : public Matcher {
 private:
  template <typename Function>
  auto call(Function function) const {
    PythonCall python;
    try {
      return function(py::handle(matcher_.get()));
    } catch (py::error_already_set& error) {
      throw std::runtime_error(describe(error, /*with_traceback=*/false));
    }
  }

 public:
  PythonMatcher(py::object matcher, int vocab_size)
      : matcher_(share(std::move(matcher))), num_words_((static_cast<py::ssize_t>(vocab_size) + 31) / 32) {
    if (vocab_size < 1) throw std::invalid_argument("vocab_size must be at least 1");
  }

  bool accept(int32_t token) override {
    return call([&](py::handle matcher) { return py::bool_(matcher.attr("accept")(token)).cast<bool>(); });
  }

  void fill(int32_t* row) override {
    call([&](py::handle matcher) {
      auto* words = new int32_t[static_cast<size_t>(num_words_)]();  // words that `fill` does not write allow nothing
      const py::capsule owner(words, [](void* memory) { delete[] static_cast<int32_t*>(memory); });
      matcher.attr("fill")(py::array_t<int32_t>(num_words_, words, owner));  // not resizable, as it has an owner
      std::copy_n(words, num_words_, row);
    });
  }

  void rollback(int n) override {
    call([&](py::handle matcher) { matcher.attr("rollback")(n); });
  }

  bool is_terminated() const override {
    return call([&](py::handle matcher) {
      py::object value = matcher.attr("is_terminated");
      if (PyCallable_Check(value.ptr())) value = value();
      return py::bool_(value).cast<bool>();
    });
  }

  std::vector<int32_t> forced_tokens() override {
    return call([&](py::handle matcher) {
      std::vector<int32_t> tokens;
      for (const py::handle& token : matcher.attr("forced_tokens")()) tokens.push_back(token.cast<int32_t>());
      return tokens;
    });
  }

  // Asks Python for all forced tokens if the row does not have just one, because only Python knows the grammar.
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t, const Spelling&) override {
    std::vector<SpeltToken> drafts = only_draft(row, num_words);
    if (!drafts.empty()) return drafts;
    for (const int32_t token : forced_tokens()) drafts.push_back({token, -1});
    return drafts;
  }

  py::object matcher() const { return py::reinterpret_borrow<py::object>(matcher_.get()); }

 private:
  std::shared_ptr<PyObject> matcher_;
  py::ssize_t num_words_;
};

using RowArgument = std::variant<uintptr_t, py::buffer>;

int32_t* address_of(const RowArgument& row) {
  if (const auto* address = std::get_if<uintptr_t>(&row)) return reinterpret_cast<int32_t*>(*address);
  const py::buffer_info info = std::get<py::buffer>(row).request(/*writable=*/true);
  const bool fits = info.ndim == 1 && info.itemsize == sizeof(int32_t) && info.strides[0] == sizeof(int32_t);
  if (!fits) throw std::invalid_argument("a row must be a contiguous one-dimensional int32 buffer");
  return static_cast<int32_t*>(info.ptr);
}

void fill(Matcher& matcher, const RowArgument& row) {
  int32_t* address = address_of(row);
  WithoutGil released;
  matcher.fill(address);
}

Matcher::Answer fill_draft(Matcher& matcher, const RowArgument& row) {
  FilledRow filled{address_of(row)};
  WithoutGil released;
  return matcher.refill_draft(filled);
}

std::vector<int32_t> forced_drafts(Matcher& matcher, const py::buffer& row, size_t limit) {
  const py::buffer_info info = row.request();
  const bool fits = info.ndim == 1 && info.itemsize == sizeof(int32_t) && info.strides[0] == sizeof(int32_t);
  if (!fits) throw std::invalid_argument("a row must be a contiguous one-dimensional int32 buffer");
  WithoutGil released;
  std::vector<int32_t> tokens;
  for (const SpeltToken& draft : matcher.forced_drafts(static_cast<const int32_t*>(info.ptr),
                                                       static_cast<size_t>(info.shape[0]), limit, Spelling(0))) {
    tokens.push_back(draft.token);
  }
  return tokens;
}

bool is_terminated(const Matcher& matcher) {
  WithoutGil released;
  return matcher.is_terminated();
}

}  // namespace

void bind_matcher(py::module_& m) {
  py::enum_<Matcher::Answer>(m, "Answer")
      .value("NO", Matcher::Answer::kNo)
      .value("YES", Matcher::Answer::kYes)
      .value("NO_BY_GUESS", Matcher::Answer::kNoByGuess)
      .value("YES_BY_GUESS", Matcher::Answer::kYesByGuess);
  py::class_<Matcher, std::shared_ptr<Matcher>>(m, "Matcher")
      .def("accept", &Matcher::accept, py::arg("token"), unlocked())
      .def("fill", &fill, py::arg("row"))
      .def("accept_draft", &Matcher::accept_draft, py::arg("token"), unlocked())
      .def("fill_draft", &fill_draft, py::arg("row"))
      .def("rollback", &Matcher::rollback, py::arg("n"), unlocked())
      .def_property_readonly("is_terminated", &is_terminated)
      .def("forced_tokens", &Matcher::forced_tokens, unlocked())
      .def("forced_drafts", &forced_drafts, py::arg("row"), py::arg("limit"));
  py::class_<PythonMatcher, Matcher, std::shared_ptr<PythonMatcher>>(m, "PythonMatcher")
      .def(py::init<py::object, int>(), py::arg("matcher"), py::arg("vocab_size"))
      .def_property_readonly("matcher", &PythonMatcher::matcher);
}

}  // namespace specguide
