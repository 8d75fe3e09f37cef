"""Owns the arguments of vLLM's LLM, of its calls and of its SamplingParams, by their names in vLLM
and in SGLang."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.other_engines.option import (
    EMPTY,
    NO_ADAPTERS,
    NOTHING,
    OFF,
    OWN_TOKENIZER,
    TEXT_ONLY,
    OtherOption,
    called,
)
from specguide.other_engines.options import OTHER_OPTIONS

OTHER_LLM_OPTIONS: Mapping[str, OtherOption] = {
    **OTHER_OPTIONS,
    "served_model_name": NOTHING,
    "generation_config": OtherOption("requests say how they are sampled", ("vllm",)),
    "override_generation_config": OtherOption("requests say how they are sampled", EMPTY),
    **dict.fromkeys(("override_pooler_config", "pooler_config"), OtherOption(TEXT_ONLY)),
    "logits_processors": OtherOption("requests have them, as SamplingParams(logits_processors=…)"),
    "kv_transfer_config": OtherOption("take LLM.of(EngineConfig(transfer=TransferConfig(…)))"),
    "structured_outputs_config": OtherOption(
        "take {guide_backend} or guide=GuideConfig(max_whitespace=…)", EMPTY
    ),
    "guided_decoding_disable_any_whitespace": OtherOption(
        "take guide=GuideConfig(max_whitespace=0)", OFF
    ),
    "guided_decoding_disable_additional_properties": OtherOption(
        "write additionalProperties: false into the schema", OFF
    ),
}
"""Arguments of LLM, which have no command line."""

OTHER_CALL_OPTIONS: Mapping[str, OtherOption] = {
    "sampling_params": called("params"),
    **dict.fromkeys(("use_tqdm", "mm_processor_kwargs", "chat_template_content_format"), NOTHING),
    "lora_request": OtherOption(NO_ADAPTERS),
    "prompt_token_ids": OtherOption("give them as {prompts}"),
    "priority": OtherOption("the prompts of a call run alike", ("0", *EMPTY)),
    "tokenization_kwargs": OtherOption("a prompt may be token ids of your own", EMPTY),
    "chat_template": OtherOption(OWN_TOKENIZER),
    "chat_template_kwargs": OtherOption(
        "generate from llm.tokenizer.apply_chat_template(messages, variables={…})", EMPTY
    ),
    "add_generation_prompt": OtherOption(
        "the chat template begins an answer: take continue_final_message to go on with one",
        ("true",),
    ),
}
"""Arguments of LLM.generate and LLM.chat."""

_IDLE_SAMPLING = (
    *("detokenize", "spaces_between_special_tokens", "output_kind", "skip_clone"),
    *("skip_reading_prefix_cache", "output_text_buffer_length", "length_penalty", "early_stopping"),
)

OTHER_SAMPLING: Mapping[str, OtherOption] = {
    **dict.fromkeys(_IDLE_SAMPLING, NOTHING),
    "skip_special_tokens": OtherOption(
        "special tokens are never part of a text: read token_ids", ("true",)
    ),
    "best_of": OtherOption("ask for {n} samples", ("1",)),
    "use_beam_search": OtherOption("there are no beams: ask for {n} samples", OFF),
    "truncate_prompt_tokens": OtherOption("a prompt is never cut: give a shorter one"),
    "flat_logprobs": OtherOption("logprobs are in one form: leave it out", OFF),
    "logprob_token_ids": OtherOption("likeliest tokens are told: take {logprobs}", EMPTY),
    "thinking_token_budget": OtherOption("take reasoning=Reasoning(max_tokens=…)"),
    "repetition_detection": OtherOption(
        "take {repetition_penalty}, {frequency_penalty} or {max_tokens}"
    ),
    **dict.fromkeys(
        ("extra_args", "custom_params"),
        OtherOption("nothing here would read it: leave it out", EMPTY),
    ),
    "max_new_tokens": called("max_tokens"),
    "min_new_tokens": called("min_tokens"),
    "no_stop_trim": OtherOption("take {include_stop_str_in_output}", OFF),
    "stop_regex": OtherOption("take {stop}, or a regex that the whole output matches", EMPTY),
    **dict.fromkeys(("logits_processor", "custom_logit_processor"), called("logits_processors")),
    **dict.fromkeys(
        ("json_schema", "regex", "ebnf", "structural_tag"),
        OtherOption("take guide=Guide(…), which has it"),
    ),
}
"""Arguments of SamplingParams."""
