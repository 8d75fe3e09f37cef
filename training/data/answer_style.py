"""Owns the two ways in which an answer's JSON is written: with `", "` and `": "` as a rule, compact
now and then.

A prompt never tells which. The first separator does, and the rest of the answer keeps to it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from training.data.chat import CALL_START, Task

COMPACT_SHARE = 0.3  # below a half, so that the likelier first separator is the spaced one
ARGUMENTS_ONLY_SHARE = 0.5  # of compact calls
ARGUMENTS = '"arguments": '
_STRING_OR_SEPARATOR = re.compile(r'("(?:[^"\\]|\\.)*")|([,:]) ')


def compact(text: str) -> str:
    """JSON text of one line without the spaces behind its separators; strings stay as they are."""
    return _STRING_OR_SEPARATOR.sub(lambda match: match[1] or match[2], text)


def is_json(answer: str) -> bool:
    """Whether an answer is an object, an array or a tool call; free text is not."""
    return answer.startswith(("{", "[", CALL_START))


def restyled(r: Random, task: Task, compact_share: float) -> Task:
    """The task, with that chance of a compact answer where the answer is JSON.

    Half of the compact calls are so in their arguments only: the chat template writes the rest of a
    call in the spaced way, and so does a grammar that takes a call's frame from the template.
    """
    if not is_json(task.answer) or r.random() >= compact_share:
        return task
    frame, mark, arguments = task.answer.partition(ARGUMENTS)
    if task.answer.startswith(CALL_START) and r.random() < ARGUMENTS_ONLY_SHARE:
        return replace(task, answer=frame + mark + compact(arguments))
    return replace(task, answer=compact(task.answer))
