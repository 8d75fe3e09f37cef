"""What each iteration of a request drafted and accepted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace


def asking(params):
    return [replace(one, return_drafts=True) for one in params]


def iterations_of(llm, prompts, params):
    outs = llm.generate(prompts, asking(params))
    for out in outs:
        check(out.iterations, out.token_ids, out.metrics)
    llm._engine.check_integrity()
    llm.close()
    return [
        [(one.drafts, one.num_accepted, one.tokens) for one in out.iterations if not one.is_held]
        for out in outs
    ]


def check(iterations, token_ids, metrics):
    """Check that the tokens are the accepted drafts and the golden token, and that the golden token
    is no rejected draft."""
    assert tuple(token for one in iterations for token in one.tokens) == tuple(token_ids)
    for one in iterations:
        accepted, rejected = one.drafts[: one.num_accepted], one.drafts[one.num_accepted :]
        assert one.tokens[: one.num_accepted] == accepted[: len(one.tokens)]
        if len(one.tokens) > one.num_accepted:
            assert len(one.tokens) == one.num_accepted + 1 and one.tokens[-1] not in rejected[:1]
        assert not (one.is_prefill and one.drafts)
        assert (
            one.times.begin_s <= one.times.end_s
            and 0 <= one.times.wait_s <= one.times.end_s - one.times.begin_s
        )
    given = Counter(
        len(one.tokens) - 1 for one in iterations if not one.is_prefill and not one.is_held
    )
    assert {
        number: count for number, count in enumerate(metrics.accepted_histogram) if count
    } == given
    assert sum(one.is_held for one in iterations) == metrics.num_held
    verified = [one for one in iterations if not one.is_held]
    accepted = sum(min(one.num_accepted, len(one.tokens)) for one in verified)
    assert sum(metrics.drafts_proposed.values()) == sum(len(one.drafts) for one in verified)
    assert sum(metrics.drafts_accepted.values()) == accepted
