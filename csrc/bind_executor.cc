// Owns the bindings of the grammar executor.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
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

// Python buffers by the names of GrammarBuffers' fields; `kept` keeps them alive.
class Arrays {
 public:
  explicit Arrays(py::kwargs arrays) : arrays_(std::move(arrays)) {}

  // The memory of an array that must have this type and shape. Throws std::invalid_argument if it does not, or is
  // missing.
  template <typename T>
  T* take(const char* name, const std::vector<py::ssize_t>& shape) {
    if (!arrays_.contains(name)) throw std::invalid_argument(std::string("GrammarBuffers needs ") + name);
    const py::object array = arrays_.attr("pop")(name);
    const py::buffer_info info = py::cast<py::buffer>(array).request(/*writable=*/true);
    if (!info.item_type_is_equivalent_to<T>() || info.shape != shape || !is_contiguous(info)) {
      throw std::invalid_argument(std::string(name) + " must be a contiguous array of " + described<T>(shape));
    }
    kept_.append(array);
    return static_cast<T*>(info.ptr);
  }

  py::ssize_t len(const char* name) const {
    return arrays_.contains(name) ? py::cast<py::buffer>(arrays_[name]).request().size : 0;
  }

  // The owner of the arrays, all of which must have been used. Throws std::invalid_argument if one was not.
  py::object finish() const {
    for (const auto& left : arrays_) {
      throw std::invalid_argument("GrammarBuffers has no place for " + py::cast<std::string>(left.first));
    }
    return kept_;
  }

 private:
  static bool is_contiguous(const py::buffer_info& info) {
    py::ssize_t stride = info.itemsize;
    for (py::ssize_t axis = info.ndim - 1; axis >= 0; --axis) {
      if (info.shape[axis] > 1 && info.strides[axis] != stride) return false;
      stride *= info.shape[axis];
    }
    return true;
  }

  template <typename T>
  static std::string described(const std::vector<py::ssize_t>& shape) {
    std::string text = sizeof(T) == 1 ? "uint8 [" : "int" + std::to_string(8 * sizeof(T)) + " [";
    for (const py::ssize_t size : shape) text += std::to_string(size) + ", ";
    return text.substr(0, text.size() - 2) + "]";
  }

  py::kwargs arrays_;
  py::list kept_;
};

GrammarBuffers make_buffers(const DraftLimits& limits, int vocab_size, std::vector<int> stage_begins, int num_kept_rows,
                            py::kwargs given) {
  Arrays arrays(std::move(given));
  const py::ssize_t num_slots = arrays.len("held");
  GrammarBuffers buffers{static_cast<int>(num_slots), limits.num_draft_tokens, vocab_size};
  buffers.num_forced_tokens = limits.num_forced_tokens;
  buffers.num_lookup_tokens = limits.num_lookup_tokens;
  buffers.stage_begins = std::move(stage_begins);
  buffers.num_kept_rows = num_kept_rows;
  const py::ssize_t num_nodes = buffers.num_nodes(), num_words = static_cast<py::ssize_t>(buffers.num_words());
  buffers.bitmask = arrays.take<int32_t>("bitmask", {num_nodes, num_slots, num_words});
  buffers.fill_ids = arrays.take<int64_t>("fill_ids", {num_nodes, num_slots});
  buffers.held = arrays.take<uint8_t>("held", {num_slots});
  buffers.needed = arrays.take<int32_t>("needed", {1});
  buffers.tokens = arrays.take<int32_t>("tokens", {num_slots, num_nodes});
  buffers.num_accepted = arrays.take<int32_t>("num_accepted", {num_slots});
  if (buffers.is_tree()) {
    buffers.parents = arrays.take<int32_t>("parents", {num_slots, num_nodes});
    buffers.accepted_path = arrays.take<int32_t>("accepted_path", {num_slots, limits.num_draft_tokens});
  }
  if (buffers.has_proposals()) {
    buffers.chain_len = arrays.take<int32_t>("chain_len", {num_slots});
    buffers.origins = arrays.take<uint8_t>("origins", {num_slots, num_nodes});
  }
  buffers.owner = share(arrays.finish());
  return buffers;
}

std::shared_ptr<GrammarExecutor> make_executor(const GrammarBuffers& buffers, const ExecutorOptions& options,
                                               std::shared_ptr<LookupSource> lookup) {
  return destroyed_without_gil(new GrammarExecutor(buffers, options, std::move(lookup)));
}

void bind_structs(py::module_& m) {
  py::class_<DraftLimits>(m, "DraftLimits")
      .def(py::init([](int num_draft_tokens, int num_forced_tokens, int num_lookup_tokens) {
             return DraftLimits{num_draft_tokens, num_forced_tokens, num_lookup_tokens};
           }),
           py::kw_only(), py::arg("num_draft_tokens") = 0, py::arg("num_forced_tokens") = 0,
           py::arg("num_lookup_tokens") = 0)
      .def_readonly("num_draft_tokens", &DraftLimits::num_draft_tokens)
      .def_readonly("num_forced_tokens", &DraftLimits::num_forced_tokens)
      .def_readonly("num_lookup_tokens", &DraftLimits::num_lookup_tokens)
      .def("__eq__", [](const DraftLimits& one, const DraftLimits& other) { return one == other; },
           py::is_operator());
  using Waits = std::optional<int64_t>;
  py::class_<ExecutorOptions>(m, "ExecutorOptions")
      .def(py::init([](int num_threads, int64_t deadline_us, Waits draft_wait_us, Waits target_wait_us) {
             return ExecutorOptions{num_threads, deadline_us, draft_wait_us, target_wait_us};
           }),
           py::kw_only(), py::arg("num_threads"), py::arg("deadline_us"), py::arg("draft_wait_us") = py::none(),
           py::arg("target_wait_us") = py::none())
      .def_readonly("num_threads", &ExecutorOptions::num_threads)
      .def_readonly("deadline_us", &ExecutorOptions::deadline_us)
      .def_readonly("draft_wait_us", &ExecutorOptions::draft_wait_us)
      .def_readonly("target_wait_us", &ExecutorOptions::target_wait_us);
  py::class_<GrammarBuffers>(m, "GrammarBuffers")
      .def(py::init([](const DraftLimits& limits, int vocab_size, std::vector<int> stage_begins,
                       int num_kept_rows, const py::kwargs& arrays) {
             return make_buffers(limits, vocab_size, std::move(stage_begins), num_kept_rows, arrays);
           }),
           py::kw_only(), py::arg("limits"), py::arg("vocab_size"), py::arg("stage_begins") = std::vector<int>{},
           py::arg("num_kept_rows") = 0);
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
      .def_readonly("guessed_draft_rows", &C::guessed_draft_rows)
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

std::vector<BoundHostFunction> bound(std::vector<HostFunctionRef> functions) {
  std::vector<BoundHostFunction> bound;
  for (HostFunctionRef& function : functions) bound.push_back({std::move(function)});
  return bound;
}

using Texts = std::map<int, std::vector<int32_t>>;  // by slot
using SlotLimits = std::map<int, DraftLimits>;

std::optional<DraftLimits> limits_of(const SlotLimits& limits, int slot) {
  const auto found = limits.find(slot);
  return found == limits.end() ? std::nullopt : std::optional(found->second);
}

using Restarts = std::map<int, py::object>;

// A function that calls Python's from any thread; null if the slot has none.
Walk::Restart restart_of(const Restarts& restarts, int slot) {
  const auto found = restarts.find(slot);
  if (found == restarts.end()) return nullptr;
  return [function = share(found->second)](const std::vector<int32_t>& tokens) {
    PythonCall python;
    try {
      return py::handle(function.get())(tokens).cast<std::shared_ptr<Matcher>>();
    } catch (py::error_already_set& error) {
      throw std::runtime_error(describe(error, /*with_traceback=*/false));
    }
  };
}

void submit(GrammarExecutor& executor, const std::vector<std::pair<int, std::shared_ptr<Matcher>>>& started,
            const std::vector<int>& continued, Texts texts, const SlotLimits& limits,
            std::optional<DraftLimits> iteration_limits, const Restarts& restarts) {
  std::vector<GrammarExecutor::Start> starts;
  for (const auto& [slot, matcher] : started) {
    starts.emplace_back(slot, matcher, std::move(texts[slot]), limits_of(limits, slot), restart_of(restarts, slot));
  }
  WithoutGil released;
  executor.submit(std::move(starts), continued, iteration_limits);
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
  bind_structs(m);
  py::class_<LookupSource, std::shared_ptr<LookupSource>>(m, "LookupSource");
  py::class_<NgramSource, LookupSource, std::shared_ptr<NgramSource>>(m, "NgramSource")
      .def(py::init<int, int>(), py::kw_only(), py::arg("min_n"), py::arg("max_n"));
  py::class_<SuffixSource, LookupSource, std::shared_ptr<SuffixSource>>(m, "SuffixSource")
      .def(py::init<int, size_t, double>(), py::kw_only(), py::arg("max_depth"), py::arg("max_nodes"),
           py::arg("least_probability"))
      .def_property_readonly("num_nodes", &SuffixSource::num_nodes);
  py::class_<GrammarExecutor, std::shared_ptr<GrammarExecutor>>(m, "GrammarExecutor")
      .def(py::init(&make_executor), py::arg("buffers"), py::arg("options"), py::arg("lookup") = nullptr)
      .def("submit", &submit, py::arg("started"), py::arg("continued"), py::arg("texts") = Texts{},
           py::arg("limits") = SlotLimits{}, py::arg("iteration_limits") = py::none(),
           py::arg("restarts") = Restarts{})
      .def("discard_snapshots", &GrammarExecutor::discard_snapshots)
      .def("detach", &detach, py::arg("slot"))
      .def("is_idle", &GrammarExecutor::is_idle, py::arg("slot"))
      .def("error", &GrammarExecutor::error, py::arg("slot"))
      .def("check", &GrammarExecutor::check)
      .def("callbacks", [](GrammarExecutor& executor) { return bound(executor.callbacks()); })
      .def("counters", &GrammarExecutor::counters)
      .def("log_callbacks", [](GrammarExecutor& executor, size_t n) { executor.callback_log().start(n); },
           py::arg("capacity"))
      .def("take_callback_spans", &take_callback_spans);
}

}  // namespace specguide
