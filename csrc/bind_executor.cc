// Owns the bindings of the grammar executor.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <tuple>

#include "bind_python.h"
#include "bindings.h"
#include "grammar_executor.h"
#include "ngram_lookup.h"
#include "suffix_lookup.h"

namespace py = pybind11;

namespace specguide {

namespace {

using unlocked = py::call_guard<WithoutGil>;

template <typename T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

std::shared_ptr<GrammarExecutor> make_executor(int max_batch_size, int num_draft_tokens, int vocab_size,
                                               int num_threads, int64_t deadline_us, uintptr_t rows, uintptr_t guided,
                                               uintptr_t held, uintptr_t tokens, uintptr_t num_accepted,
                                               uintptr_t needed, py::object owner,
                                               std::optional<int64_t> draft_wait_us,
                                               std::optional<int64_t> target_wait_us, int num_forced_tokens,
                                               int num_lookup_tokens, std::shared_ptr<LookupSource> lookup,
                                               uintptr_t chain_len, uintptr_t origins, uintptr_t draft_rows,
                                               uintptr_t draft_guided, std::vector<int> stage_begins,
                                               uintptr_t parents, uintptr_t accepted_path) {
  using std::chrono::microseconds;
  GuideBuffers buffers{max_batch_size,           num_draft_tokens,
                       vocab_size,               at<int32_t>(rows),
                       at<uint8_t>(guided),      at<uint8_t>(held),
                       at<int32_t>(tokens),      at<int32_t>(num_accepted),
                       at<int32_t>(needed),      share(std::move(owner)),
                       num_forced_tokens,        num_lookup_tokens,
                       at<int32_t>(chain_len),   at<uint8_t>(origins),
                       at<int32_t>(draft_rows),  at<uint8_t>(draft_guided),
                       std::move(stage_begins),  at<int32_t>(parents),
                       at<int32_t>(accepted_path)};
  GrammarExecutor::Waits waits{microseconds(deadline_us), microseconds(draft_wait_us.value_or(deadline_us)), {}};
  if (target_wait_us) waits.target = microseconds(*target_wait_us);
  return destroyed_without_gil(new GrammarExecutor(std::move(buffers), num_threads, waits, std::move(lookup)));
}

void bind_counters(py::module_& m) {
  using C = ExecutorCounters;
  py::class_<C>(m, "ExecutorCounters")
      .def_readonly("accepts", &C::accepts)
      .def_readonly("fills", &C::fills)
      .def_readonly("rollbacks", &C::rollbacks)
      .def_readonly("iterations", &C::iterations)
      .def_readonly("held", &C::held)
      .def_readonly("late_draft_rows", &C::late_draft_rows)
      .def_readonly("callback_ns", &C::callback_ns)
      .def_readonly("busy_ns", &C::busy_ns)
      .def_readonly("max_accepts", &C::max_accepts)
      .def_readonly("max_fills", &C::max_fills)
      .def_readonly("max_rollbacks", &C::max_rollbacks);
}

std::vector<std::tuple<int64_t, int, int64_t, int64_t>> take_callback_spans(GrammarExecutor& executor) {
  std::vector<std::tuple<int64_t, int, int64_t, int64_t>> spans;
  for (const CallbackSpan& span : executor.callback_log().take()) {
    spans.emplace_back(span.iteration, span.index, span.begin_ns, span.end_ns);
  }
  return spans;
}

std::vector<BoundHostFunction> callbacks(GrammarExecutor& executor) {
  std::vector<BoundHostFunction> bound;
  for (HostFunctionRef& function : executor.callbacks()) bound.push_back({std::move(function)});
  return bound;
}

using Texts = std::map<int, std::vector<int32_t>>;  // by slot
using Limits = std::tuple<int, int, int>;
using SlotLimits = std::map<int, Limits>;

DraftLimits to_limits(const Limits& limits) {
  return {std::get<0>(limits), std::get<1>(limits), std::get<2>(limits)};
}

std::optional<DraftLimits> limits_of(const SlotLimits& limits, int slot) {
  const auto found = limits.find(slot);
  return found == limits.end() ? std::nullopt : std::optional(to_limits(found->second));
}

void submit(GrammarExecutor& executor, const std::vector<std::pair<int, std::shared_ptr<Matcher>>>& started,
            const std::vector<int>& continued, Texts texts, const SlotLimits& limits,
            std::optional<Limits> iteration_limits) {
  std::vector<GrammarExecutor::Start> starts;
  for (const auto& [slot, matcher] : started) {
    starts.emplace_back(slot, matcher, std::move(texts[slot]), limits_of(limits, slot));
  }
  executor.submit(std::move(starts), continued,
                  iteration_limits ? std::optional(to_limits(*iteration_limits)) : std::nullopt);
}

void detach(GrammarExecutor& executor, int slot) {
  {
    WithoutGil released;
    executor.detach(slot);
  }
  drain_python_releases();
}

}  // namespace

void bind_executor(py::module_& m) {
  bind_counters(m);
  py::class_<LookupSource, std::shared_ptr<LookupSource>>(m, "LookupSource");
  py::class_<NgramSource, LookupSource, std::shared_ptr<NgramSource>>(m, "NgramSource")
      .def(py::init<int, int>(), py::kw_only(), py::arg("min_n"), py::arg("max_n"));
  py::class_<SuffixSource, LookupSource, std::shared_ptr<SuffixSource>>(m, "SuffixSource")
      .def(py::init<int, size_t, double>(), py::kw_only(), py::arg("max_depth"), py::arg("max_nodes"),
           py::arg("least_probability"))
      .def_property_readonly("num_nodes", &SuffixSource::num_nodes);
  py::class_<GrammarExecutor, std::shared_ptr<GrammarExecutor>>(m, "GrammarExecutor")
      .def(py::init(&make_executor), py::kw_only(), py::arg("max_batch_size"), py::arg("num_draft_tokens"),
           py::arg("vocab_size"), py::arg("num_threads"), py::arg("deadline_us"), py::arg("rows"), py::arg("guided"),
           py::arg("held"), py::arg("tokens"), py::arg("num_accepted"), py::arg("needed"),
           py::arg("owner") = py::none(), py::arg("draft_wait_us") = py::none(),
           py::arg("target_wait_us") = py::none(), py::arg("num_forced_tokens") = 0,
           py::arg("num_lookup_tokens") = 0, py::arg("lookup") = nullptr, py::arg("chain_len") = 0,
           py::arg("origins") = 0, py::arg("draft_rows") = 0, py::arg("draft_guided") = 0,
           py::arg("stage_begins") = std::vector<int>{}, py::arg("parents") = 0, py::arg("accepted_path") = 0)
      .def("submit", &submit, py::arg("started"), py::arg("continued"), py::arg("texts") = Texts{},
           py::arg("limits") = SlotLimits{}, py::arg("iteration_limits") = py::none(), unlocked())
      .def("discard_snapshots", &GrammarExecutor::discard_snapshots)
      .def("detach", &detach, py::arg("slot"))
      .def("is_idle", &GrammarExecutor::is_idle, py::arg("slot"))
      .def("error", &GrammarExecutor::error, py::arg("slot"))
      .def("check", &GrammarExecutor::check)
      .def("callbacks", &callbacks)
      .def("counters", &GrammarExecutor::counters)
      .def("log_callbacks", [](GrammarExecutor& executor, size_t n) { executor.callback_log().start(n); },
           py::arg("capacity"))
      .def("take_callback_spans", &take_callback_spans);
}

}  // namespace specguide
