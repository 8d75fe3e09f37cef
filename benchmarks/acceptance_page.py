"""Makes docs/acceptance.md from the records benchmarks/results/acceptance_real_*.json.

    python -m benchmarks.acceptance_page [--check]

With --check nothing is written: it exits with 1 if the page does not agree with the records.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS_DIR, argument_parser

ROOT = RESULTS_DIR.parent.parent
PAGE = "docs/acceptance.md"
RECORDS = "acceptance_real_*.json"
Figures = Mapping[str, Any]

_HOW = ("drafter", "guided_drafts", "num_draft_tokens", "num_forced")
_BEGIN = """\
# Acceptance with real models

How many tokens an iteration gains, golden token included, when published models write JSON, call
tools and chat, greedily. Made by `python -m benchmarks.acceptance_page` from the records
`benchmarks/results/acceptance_real_*.json`; a test sees to it that the page is what they give.

- *K*: drafts an iteration; *F*: forced drafts, where the grammar allows one token only.
- *unguided drafts*: a draft head's, chosen among all tokens instead of what the grammar allows.
- *ended*: answers that ended before `--max-tokens`; *valid*: of all answers, those that ended and
  match the schema, as `jsonschema` judges it with formats; *right*: of calls of which the set
  accepts one only, those with its name and accepted values.
- *differ*: of the answers with drafts, all drafters together, those that are not plain decoding's;
  a task that was refused has none.
- Answers that were cut count too: where a small model repeats itself without an end, lookups gain
  more than they would in text that ends.
- Only tokens that are output count. vLLM counts the drafts that were accepted before it looks where
  an answer ends: where an answer ends within accepted drafts, its last iteration has there one
  token more (the target's own, behind the last draft) and those of the drafts behind the end. It is
  one iteration an answer, so figures here are the lower ones, most where answers are short.
- A model whose chat template shows no tools and no schema is told them in a system message. An
  unguided answer counts as the JSON in its first code fence.
"""
_END = """\
## Add your model

```sh
export SPECGUIDE_DATA=FOLDER    # json_mode_eval.jsonl, jsonschemabench.jsonl, bfcl.jsonl
specguide bench acceptance --model FOLDER_OR_GGUF --sets json_mode_eval,jsonschemabench,bfcl \\
    --samples 64 --max-tokens 256 --closed-objects --concurrency 16 --dtype float32 \\
    --drafters unguided,ngram,suffix,grammar --num-draft-tokens 3,7 --forced 0,8 --output OUT
cp OUT/acceptance.json benchmarks/results/acceptance_real_NAME.json
python -m benchmarks.acceptance_page
```

A draft head is measured with `--head eagle3=FOLDER --drafters eagle3,eagle3_tree,eagle3_small_tree
--drafts guided,unguided`, a multi-token-prediction head with `--head mtp=FOLDER`; `python -m
training.train.published` makes one for a model that has none. Free text is `--sets chat,free_text`.
In float32 drafts change no answer; in bfloat16 they may where two tokens are equally likely. JSON
Mode Eval and JSONSchemaBench come from the Hugging Face hub where the folder has no such file (`pip
install "specguide[hub]"`). `--max-chars` leaves out long prompts; `--closed-objects` lets guides
write only the properties that a schema names, else small models make up more without an end. A run
that was broken off goes on where it was. Measure from a commit: a record of
changed files is refused.
"""


def page(records: Sequence[Figures]) -> str:
    """The whole page."""
    return "\n".join([_BEGIN, *(_part(record) for record in records), _END])


def _part(record: Figures) -> str:
    """The section of one record."""
    asked, found = record["config"], record["result"]
    hardware = record["hardware"]
    lines = [
        f"## {asked['model']}{_heads(asked.get('heads') or {})}",
        "",
        f"At most {asked['samples']} tasks of each set, spread over all of it, of at most "
        f"{asked['max_chars'] or 'any number of'} characters; {asked['max_tokens']} tokens an "
        f"answer; {_whitespace(asked['max_whitespace'])}{_objects(asked)}{_dtype(asked)}. Made on "
        f"{record['date']} on {_hardware(hardware)}, {_release(record)}, by",
        "",
        f"```sh\n{record['command']}\n```",
        "",
        "Acceptance length:",
        "",
        *_table(_acceptance(found)),
        "",
        "Answers, guided by the schema beside unguided:",
        "",
        *_table(_answers(found)),
        "",
    ]
    return "\n".join(lines)


def _heads(folders: Mapping[str, str]) -> str:
    """The names of the heads, for a title."""
    return "".join(f", {method} from {folder}" for method, folder in folders.items())


def _whitespace(most: int) -> str:
    return f"at most {most} spaces between JSON tokens" if most else "compact JSON"


def _objects(asked: Figures) -> str:
    return "; no properties that the schema does not name" if asked["closed_objects"] else ""


def _dtype(asked: Figures) -> str:
    return f"; {asked['dtype']}" if asked.get("dtype") else ""


def _release(record: Figures) -> str:
    """The installed release, if there is one, and the commits. Exits if files differed from their
    commit."""
    commits = dict.fromkeys(one.get("commit", record["commit"]) for one in record["result"])
    for commit in commits:
        if not commit or commit.endswith("+"):
            sys.exit(f"a record of {record['config']['model']} is of no commit, but of {commit}")
    told = ", ".join(commits)
    return f"version {record['version']} ({told})" if record["version"] else f"commit {told}"


def _hardware(stated: Figures) -> str:
    return stated.get("gpu") or f"{stated['num_cores']} cores of an {stated['cpu']}"


def _acceptance(found: Sequence[Figures]) -> Iterator[Sequence[str]]:
    sets = list(dict.fromkeys(one["set_name"] for one in found))
    yield ("drafter", "drafts", "K", "F", *sets)
    by_place = {(*(one[axis] for axis in _HOW), one["set_name"]): one for one in found}
    if len(by_place) < len(found):
        sys.exit("a record has several backends or loads, and the page has room for one")
    for how in dict.fromkeys(tuple(one[axis] for axis in _HOW) for one in found):
        drafter, is_guided, num_drafts, num_forced = how
        if drafter not in ("plain", "unguided"):
            cells = (by_place.get((*how, name)) for name in sets)
            shown = (f"{one['acceptance_length']:.2f}" if one else "–" for one in cells)
            drafts = "guided" if is_guided else "unguided"
            yield (drafter, drafts, str(num_drafts), str(num_forced), *shown)


def _answers(found: Sequence[Figures]) -> Iterator[Sequence[str]]:
    yield ("set", "guided", "tasks", "ended", "valid", "right", "differ")
    for one in found:
        if one["drafter"] in ("plain", "unguided"):
            is_guided = one["drafter"] == "plain" and one["guided"] > 0
            differ = _differ(found, one) if one["drafter"] == "plain" else "–"
            yield (one["set_name"], "yes" if is_guided else "no", *_counts(one), differ)


def _counts(one: Figures) -> Iterator[str]:
    yield str(one["requests"])
    yield str(one["whole"]) if one["guided"] else "–"
    doubted = len(one["invalid"]) + len(one.get("unjudged", ()))
    yield str(one["whole"] - doubted) if one["guided"] else "–"
    yield f"{one['right']} of {one['judged']}" if one["judged"] else "–"


def _differ(found: Sequence[Figures], plain: Figures) -> str:
    """How many answers of all drafters differ from those of plain decoding, and of how many
    answers."""
    drafted = [
        one
        for one in found
        if one["set_name"] == plain["set_name"] and one["drafter"] not in ("plain", "unguided")
    ]
    differing = sum(one["differ_from_plain"] for one in drafted)
    num_answers = sum(one["requests"] - sum(one["errors"].values()) for one in drafted)
    return f"{differing} of {num_answers}"


def _table(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield "|" + "---|" * len(row)


def main(argv: Sequence[str] | None = None, *, root: Path = ROOT) -> None:
    """Write the page of the records under `root`, or check it."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 where the page is stale"
    )
    args = parser.parse_args(argv)
    files = sorted((root / "benchmarks" / "results").glob(RECORDS))
    new = page([json.loads(file.read_text()) for file in files])
    if not args.check:
        (root / PAGE).write_text(new)
    elif (root / PAGE).read_text() != new:
        sys.exit(f"{PAGE}: not what the records give; run python -m benchmarks.acceptance_page")


if __name__ == "__main__":
    main()
