// Owns the bindings of the CPU kernels. A tensor is passed as its address, 0 for none; the caller has checked its shape
// and type. The kernels keep the GIL, because releasing it would take as long as their work; only a choice among many
// logits releases it.
#include <pybind11/pybind11.h>

#include <optional>

#include "bind_python.h"
#include "bindings.h"
#include "cpu/attention.h"
#include "cpu/rows.h"

namespace py = pybind11;

namespace specguide {

namespace {

using Address = uintptr_t;

constexpr int64_t kMany = 1 << 18;  // logits; they take a tenth of a millisecond or more

template <typename T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// Strides of a table count elements, as in torch.
void bind_attention(py::module_& m) {
  const auto make = [](Address position_ids, Address block_table, Address query_start_loc, Address seq_lens,
                       Address ancestors, Address node_positions, int64_t num_seqs, int64_t max_pages,
                       int64_t table_stride, int64_t page_size, int64_t num_nodes) {
    return AttentionPass{at<int64_t>(position_ids), at<int32_t>(block_table),  at<int32_t>(query_start_loc),
                         at<int32_t>(seq_lens),     at<uint8_t>(ancestors),    at<int64_t>(node_positions),
                         num_seqs,                  max_pages,                 table_stride,
                         page_size,                 num_nodes};
  };
  const auto run = [](const AttentionPass& pass, Address query, Address key_cache, Address value_cache, Address sinks,
                      Address output, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, int64_t window,
                      float scale, float softcap) {
    attend(pass, {at<float>(query), at<float>(key_cache), at<float>(value_cache), at<float>(sinks), at<float>(output),
                  num_heads, num_kv_heads, head_dim, window, scale, softcap});
  };
  py::class_<AttentionPass>(m, "AttentionPass")
      .def(py::init(make), py::kw_only(), py::arg("position_ids"), py::arg("block_table"), py::arg("query_start_loc"),
           py::arg("seq_lens"), py::arg("ancestors"), py::arg("node_positions"), py::arg("num_seqs"),
           py::arg("max_pages"), py::arg("table_stride"), py::arg("page_size"), py::arg("num_nodes"))
      .def_property_readonly("num_pairs", &AttentionPass::num_pairs)
      .def("run", run, py::kw_only(), py::arg("query"), py::arg("key_cache"), py::arg("value_cache"), py::arg("sinks"),
           py::arg("output"), py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"), py::arg("window"),
           py::arg("scale"), py::arg("softcap"));
}

void bind_rows(py::module_& m) {
  const auto norm_rows = [](Address input, Address residual, Address weight, Address total, Address output,
                            int64_t rows, int64_t size, int64_t weight_rows, int64_t output_stride, double eps) {
    norm({at<float>(input), at<float>(residual), at<float>(weight), at<float>(total), at<float>(output), rows, size,
          weight_rows, output_stride, eps});
  };
  m.def("norm_rows", norm_rows, py::kw_only(), py::arg("input"), py::arg("residual"), py::arg("weight"),
        py::arg("total"), py::arg("output"), py::arg("rows"), py::arg("size"), py::arg("weight_rows"),
        py::arg("output_stride"), py::arg("eps"));
  const auto rotate = [](Address query_key, Address value, Address rotary, Address slot_mapping, Address key_cache,
                         Address value_cache, Address query, int64_t rows, int64_t num_heads, int64_t num_kv_heads,
                         int64_t head_dim, int64_t query_key_stride, int64_t value_stride) {
    rotate_and_store({at<float>(query_key), at<float>(value), at<float>(rotary), at<int64_t>(slot_mapping),
                      at<float>(key_cache), at<float>(value_cache), at<float>(query), rows, num_heads, num_kv_heads,
                      head_dim, query_key_stride, value_stride});
  };
  m.def("rotate_and_store_rows", rotate, py::kw_only(), py::arg("query_key"), py::arg("value"), py::arg("rotary"),
        py::arg("slot_mapping"), py::arg("key_cache"), py::arg("value_cache"), py::arg("query"), py::arg("rows"),
        py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"), py::arg("query_key_stride"),
        py::arg("value_stride"));
  const auto choose_tokens = [](Address logits, Address bitmask, Address guided, Address row_ids, Address target_ids,
                                Address tokens, int64_t rows, int64_t size, int64_t words) {
    std::optional<WithoutGil> released;
    if (rows * size > kMany) released.emplace();
    choose({at<float>(logits), at<int32_t>(bitmask), at<uint8_t>(guided), at<int64_t>(row_ids),
            at<int32_t>(target_ids), at<int32_t>(tokens), rows, size, words});
  };
  m.def("choose_tokens", choose_tokens, py::kw_only(), py::arg("logits"), py::arg("bitmask"), py::arg("guided"),
        py::arg("row_ids"), py::arg("target_ids"), py::arg("tokens"), py::arg("rows"), py::arg("size"),
        py::arg("words"));
}

}  // namespace

void bind_cpu(py::module_& m) {
  bind_attention(m);
  bind_rows(m);
}

}  // namespace specguide
