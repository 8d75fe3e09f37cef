"""Templates of clients: they run in a process of their own, which is bounded and knows no secret,
and over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_templates import with_template
from live_server import Server, small_server
from transformers import PreTrainedTokenizerFast

from specguide.errors import InvalidParams
from specguide.tokenizer import ClientTemplate, Tokenizer

USER = [{"role": "user", "content": "hi"}]


LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


HOARD = (
    "{% set ns = namespace(t='x' * 1000000) %}"
    "{% for i in range(9999) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}"
)


def client_template(
    source: str, timeout_s: float = 20.0, max_bytes: int = 256 << 20, max_chars: int = 10_000
) -> ClientTemplate:
    return ClientTemplate(source, timeout_s, max_bytes, max_chars)


def test_a_client_s_template_makes_what_the_model_s_would() -> None:
    source = (
        "{{- bos_token }}{% for m in messages %}\n  {%- if loop.last %}{% break %}{% endif %}"
        "{% generation %}{{ m.role }} {{ m.content | tojson(indent=1) }}{{ m.nothing is defined }}"
        "{% endgeneration %}"
        "{% endfor %}{% set ns = namespace(n=0) %}{% set ns.n = 3 %}{{ ns.n }}{{ dict(a=[style]) | "
        "tojson }}\n"
        "{{ tools | tojson }}{{ strftime_now('%%') }}{% if add_generation_prompt %}<|begin|>é{% "
        "endif %}"
    )
    messages = [
        {"role": "user", "content": "<é>\n", "nothing": None},
        {"role": "assistant", "content": "y"},
    ]
    tools, variables = [{"name": "f<"}], {"style": "terse<|end|>"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=with_template("")._backend, bos_token="<|begin|>"
    )
    fast.chat_template = source
    own = Tokenizer(fast.backend_tokenizer, chat=fast)
    assert own.apply_chat_template(messages, tools, variables=variables) == own.apply_chat_template(
        messages, tools, variables=variables, client_template=client_template(source)
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('no robots') }}", "no robots"),
        ("{% if %}", "Expected an expression"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe|undefined"),
        ("{{ 'x' * 20000 }}", "wrote a prompt of 20000 characters"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{% set ns = namespace(__class__=1) %}", "has no"),
        ("{{ 'x' * 10 ** 12 }}", "memory"),
        (HOARD, "memory|MiB"),
        ("{{ messages.append(1) }}", "unsafe"),
    ],
)
def test_a_client_s_template_that_fails(source: str, words: str) -> None:
    with pytest.raises(
        InvalidParams, match=f"the chat_template cannot be used: .*({words})"
    ) as caught:
        client_template(source).render({"messages": USER})
    assert caught.value.param == "chat_template"


def children(parent: int) -> list[int]:
    """Processes that render templates for a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            about, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if int(about.rsplit(")", 1)[1].split()[1]) == parent and b"template_child" in command:
            found.append(int(folder.name))
    return found


def test_an_endless_template_is_killed() -> None:
    begin = time.monotonic()
    with pytest.raises(InvalidParams, match=r"takes longer than 0\.5 s"):
        client_template(LOOP, timeout_s=0.5).render({"messages": USER})
    assert time.monotonic() - begin < 10
    assert not children(os.getpid())


def test_no_secrets_of_the_server_s_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    started = subprocess.Popen

    def popen(*args: Any, **options: Any) -> Any:
        seen.update(options["env"])
        return started(*args, **options)

    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setattr(subprocess, "Popen", popen)
    assert client_template("{{ messages[0].content }}").render({"messages": USER}) == "hi"
    assert set(seen) == {"PYTHONPATH"}


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
def test_it_ends_with_its_parent() -> None:
    """It ends also where the parent is killed and can tell nobody."""
    code = (
        "from specguide.tokenizer import ClientTemplate\n"
        f"ClientTemplate({LOOP!r}, 60.0, 1 << 28, 100).render({{'messages': []}})"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    child = None
    try:
        deadline = time.monotonic() + 60
        while child is None and time.monotonic() < deadline:
            time.sleep(0.05)
            child = next(iter(children(parent.pid)), None)
    finally:
        parent.kill()
        parent.wait()
    assert child is not None
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


@pytest.fixture(scope="module")
def open_server():
    """A server that takes clients' templates, and special tokens."""
    server = small_server(
        (), allow_client_templates=True, template_timeout_s=1.5, allow_special_tokens=True
    )
    yield server
    server.stop()


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "small", "messages": USER, "max_tokens": 2, **fields}


def test_what_a_server_refuses(http: httpx.Client) -> None:
    for fields, param in [
        ({"chat_template": LOOP}, "chat_template"),
        ({"chat_template_kwargs": {"chat_template": LOOP}}, "chat_template_kwargs.chat_template"),
        (
            {"chat_template_kwargs": {"tokenizer_kwargs": {"padding": "max_length"}}},
            "chat_template_kwargs.tokenizer_kwargs",
        ),
        (
            {"chat_template_kwargs": {"padding": "max_length", "max_length": 9}},
            "chat_template_kwargs.padding",
        ),
        ({"chat_template_kwargs": {"self": 1}}, "chat_template_kwargs.self"),
        (
            {"chat_template_kwargs": {"allow_special_tokens": 10**9}},
            "chat_template_kwargs.allow_special_tokens",
        ),
    ]:
        for path, more in (("/v1/chat/completions", {}), ("/tokenize", {"max_tokens": None})):
            body = {
                name: value for name, value in (asked(**fields) | more).items() if value is not None
            }
            answer = http.post(path, json=body)
            assert answer.status_code == 400 and answer.json()["error"]["param"] == param, (
                answer.text
            )
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert (
        http.post(
            "/v1/chat/completions", json=asked(chat_template_kwargs={"unread": 1})
        ).status_code
        == 200
    )


def num_tokens(http: httpx.Client, content: str, **fields: Any) -> int:
    answer = http.post(
        "/tokenize", json={"messages": [{"role": "user", "content": content}], **fields}
    )
    assert answer.status_code == 200, answer.text
    return int(answer.json()["count"])


def test_special_tokens_over_http(http: httpx.Client, open_server: Server) -> None:
    with httpx.Client(base_url=open_server.url, timeout=60) as taking:
        assert num_tokens(http, "<|end|>") == num_tokens(
            taking, "<|end|>", allow_special_tokens=False
        )
        assert num_tokens(taking, "<|end|>") == num_tokens(
            http, "<|end|>", allow_special_tokens=True
        )
        assert (
            num_tokens(taking, "<|end|>")
            == num_tokens(taking, "") + 1
            < num_tokens(http, "<|end|>")
        )


def test_a_client_s_template_over_http(open_server: Server) -> None:
    with httpx.Client(base_url=open_server.url, timeout=60) as http:
        own = {
            "chat_template": "{{ style }} {{ messages[0].content }}",
            "chat_template_kwargs": {"style": "so"},
        }
        answer = http.post("/tokenize", json={"messages": USER, **own})
        assert http.post("/detokenize", json={"tokens": answer.json()["tokens"]}).json() == {
            "prompt": "so hi"
        }
        assert http.post("/v1/chat/completions", json=asked(**own)).status_code == 200
        failed = http.post(
            "/v1/chat/completions", json=asked(chat_template="{{ raise_exception('no') }}")
        )
        assert failed.status_code == 400 and failed.json()["error"]["param"] == "chat_template"


def test_neighbours_of_endless_templates_are_served(open_server: Server) -> None:
    """However many there are: they wait for each other, not for the threads that others need."""
    with httpx.Client(
        base_url=open_server.url, timeout=120, limits=httpx.Limits(max_connections=20)
    ) as http:
        answers: list[httpx.Response] = []
        attack = [
            threading.Thread(
                target=lambda: answers.append(
                    http.post("/v1/chat/completions", json=asked(chat_template=LOOP))
                )
            )
            for _ in range(6)
        ]
        for thread in attack:
            thread.start()
        time.sleep(0.3)
        for _ in range(4):
            assert http.post("/v1/chat/completions", json=asked()).status_code == 200
        assert len(answers) < 6
        for thread in attack:
            thread.join()
    assert [answer.status_code for answer in answers] == [400] * 6
    assert all("takes longer than 1.5 s" in answer.text for answer in answers)
    assert not children(os.getpid())
