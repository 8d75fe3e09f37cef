"""Random prompts, and random schemas for two thirds of them."""

from __future__ import annotations

import random

from specguide import Guide, SamplingParams


def random_schema(rng: random.Random, depth: int = 0) -> dict:
    """A schema whose instances are short, so that a random model ends them."""
    kind = rng.choice(
        ["enum", "boolean", "string", "integer", "array", "object", "object"][
            : 7 if depth < 2 else 4
        ]
    )
    if kind == "enum":
        return {
            "enum": rng.sample(["red", "green", 1, 2.5, None, True, "x y", "é"], rng.randint(1, 4))
        }
    if kind == "string":
        return {"type": "string", "maxLength": rng.randint(0, 6)}
    if kind == "integer":
        return {"type": "integer", "minimum": 0, "maximum": rng.choice([9, 120, 5000])}
    if kind == "array":
        return {"type": "array", "items": random_schema(rng, depth + 1), "maxItems": 2}
    if kind == "object":
        names = rng.sample(
            ["id", "name", "tags", "longer_property_name", "unit price"], rng.randint(1, 3)
        )
        return {
            "type": "object",
            "properties": {name: random_schema(rng, depth + 1) for name in names},
            "required": names[: rng.randint(0, len(names))],
            "additionalProperties": False,
        }
    return {"type": "boolean"}


def cases(seed: int, num: int, **params):
    """Prompts of different lengths, two thirds guided by a random schema, the rest free; what is
    too long is cut off."""
    params = {"allow_truncation": True, **params}
    rng = random.Random(seed)
    prompts, all_params = [], []
    for number in range(num):
        prompts.append("".join(rng.choice("abc {}:\n") for _ in range(rng.randint(1, 60))))
        guide = Guide(json_schema=random_schema(rng)) if number % 3 else None
        all_params.append(SamplingParams(max_tokens=32, seed=number, guide=guide, **params))
    return prompts, all_params
