"""lm-eval: likelihoods (as structured) and generation (as streaming)."""

import os

from client_case import KEY, MODEL, SENTENCE, URL, run
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI


def model():
    os.environ["OPENAI_API_KEY"] = KEY
    return LocalCompletionsAPI(
        model=MODEL,
        base_url=f"{URL}/v1/completions",
        tokenizer_backend="huggingface",
        tokenizer=os.environ["SPECGUIDE_TOKENIZER"],
        max_retries=1,
        num_concurrent=1,
    )


def ask(kind, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def structured():
    """Likelihoods: of a continuation, and of a whole text."""
    likely = model().loglikelihood([ask("loglikelihood", "My name is", " Anna")])
    assert likely[0][0] < 0
    rolling = model().loglikelihood_rolling([ask("loglikelihood_rolling", SENTENCE)])
    assert rolling


def streaming():
    """Generation until a text; lm-eval does not stream."""
    until = {"until": ["\n"], "max_gen_toks": 8}
    assert model().generate_until([ask("generate_until", SENTENCE, until)])[0] is not None


if __name__ == "__main__":
    run(globals())
