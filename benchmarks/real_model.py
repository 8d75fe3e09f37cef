"""A published model through the ordinary commands: chat, extraction and tools; every guided output
is validated, and every speculative output compared with plain decoding's.

    make real
    python -m benchmarks.real_model FILE.gguf [--head FOLDER]

Exits with 1 where an output is invalid or differs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from benchmarks.common import argument_parser
from benchmarks.services.process import ServiceProcess
from specguide import LLM, SamplingParams
from specguide.bench.data_sets import load_tasks
from specguide.bench.prompts import messages_of
from specguide.bench.tasks import Task
from specguide.bench.validation import violation
from specguide.config import GuideConfig, SpecConfig

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMAND = (sys.executable, "-m", "specguide")
PARIS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}},
    "required": ["city"],
    "additionalProperties": False,
}
QUESTION = "What is the capital of France?"


def chat(model: str) -> None:
    """One question to `specguide chat`; the seconds from the command to its first letter."""
    command = [*COMMAND, "chat", "--model", model, "--max-tokens", "32"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(f"{QUESTION}\n".encode())
        running.stdin.flush()
        first = running.stdout.read(1)
        seconds = time.monotonic() - begin
        running.stdin.close()
        answer = first + running.stdout.read()
    print(f"chat: {seconds:.1f} s to the first letter of {answer.decode().strip()!r}")


def extraction(model: str) -> None:
    """examples/person.txt through `specguide generate`."""
    schema = EXAMPLES / "person.json"
    command = [*COMMAND, "generate", "--model", model, "--schema", str(schema)]
    text = (EXAMPLES / "person.txt").read_text()
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    check(json.loads(schema.read_text()), answer)
    print(f"extraction: {' '.join(answer.split())}")


def tools(model: str) -> None:
    """One call that `specguide serve` must make."""
    function = {"name": "get_weather", "description": "Weather of a city", "parameters": PARIS}
    body = {
        "model": "real",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "temperature": 0,
        "max_completion_tokens": 64,
    }
    with ServiceProcess(model, "--tool-format", "hermes", "--served-model-name", "real") as service:
        answer = httpx.post(f"{service.url}/v1/chat/completions", json=body, timeout=300).json()
    (choice,) = answer["choices"]
    for call in choice["message"]["tool_calls"]:
        check(PARIS, call["function"]["arguments"])
        print(f"tools: {call['function']['name']}({call['function']['arguments']})")


def speculation(model: str, num_tasks: int, head: Path | None) -> None:
    """Tasks of built-in sets: n-gram and suffix drafts, and those of an EAGLE-3 head where there is
    one, against plain decoding."""
    tasks = [t for name in ("extraction", "tools", "chat") for t in some(name, num_tasks)]
    plain = outputs(model, tasks, None)
    for task, output in zip(tasks, plain, strict=True):
        if task.schema is not None and output.finish_reason == "stop":
            check(task.schema, output.text)
    specs = [SpecConfig("ngram"), SpecConfig("suffix")]
    if head is not None:
        specs.append(SpecConfig("eagle3", model=head, num_draft_tokens=3))
    for spec in specs:
        drafted = outputs(model, tasks, spec)
        pairs = zip(plain, drafted, strict=True)
        differing = sum(one.token_ids != other.token_ids for one, other in pairs)
        num_iterations = sum(output.metrics.num_iterations for output in drafted)
        num_tokens = sum(len(output.token_ids) for output in drafted)
        print(
            f"{spec.method}: {differing} of {len(tasks)} outputs differ from plain decoding's; "
            f"acceptance length {num_tokens / num_iterations:.2f}"
        )
        if differing:
            raise SystemExit(1)


def some(name: str, num_tasks: int) -> list[Task]:
    return load_tasks(name, None, num_tasks)


def outputs(model: str, tasks: list[Task], spec: SpecConfig | None) -> Any:
    llm = LLM(model, spec=spec, guide=GuideConfig(max_whitespace=0), max_batch_size=8)
    template = llm.tokenizer.apply_chat_template
    prompts = [template(messages_of(task, llm.tokenizer.chat_template)) for task in tasks]
    params = [SamplingParams(max_tokens=64, temperature=0.0, guide=task.guide) for task in tasks]
    try:
        return llm.generate(prompts, params)
    finally:
        llm.close()


def check(schema: Any, text: str) -> None:
    """Exit with 1 where the text is invalid."""
    jsonschema.validators.validator_for(schema).check_schema(schema)
    if (problem := violation(schema, text)) is not None:
        print(f"INVALID: {text!r}: {problem}")
        raise SystemExit(1)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("model", help="GGUF file, or folder of a checkpoint")
    parser.add_argument("--head", type=Path, help="folder of an EAGLE-3 head")
    parser.add_argument("--tasks", type=int, default=3, help="of each built-in set")
    args = parser.parse_args()
    chat(args.model)
    extraction(args.model)
    tools(args.model)
    speculation(args.model, args.tasks, args.head)


if __name__ == "__main__":
    main()
