"""Owns clients that compare every answer with the right one for its prompt, while processes of the
server are killed."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from benchmarks.services.process import ServiceProcess, wait_for

PROMPTS = [f"Tell me about the number {number}." for number in range(24)]
_NUM_TOKENS = 24
_PAUSE_S = 0.1
_LONGEST_S = 120.0


def asked(prompt: object, **fields: Any) -> dict[str, Any]:
    """A completion's body: greedy, of a length that is known."""
    body = {"model": "small", "prompt": prompt, "max_tokens": _NUM_TOKENS, "temperature": 0}
    return {**body, "ignore_eos": True, **fields}


def complete(url: str, prompt: object, **fields: Any) -> httpx.Response:
    """The answer to `asked`."""
    return httpx.post(f"{url}/v1/completions", json=asked(prompt, **fields), timeout=_LONGEST_S)


def text_of(answer: httpx.Response) -> str:
    """The text of its first choice."""
    text: str = answer.json()["choices"][0]["text"]
    return text


def references(url: str) -> dict[str, str]:
    """The answer to each prompt, asked alone."""
    return {prompt: text_of(complete(url, prompt)) for prompt in PROMPTS}


def is_ready(url: str) -> bool:
    """Whether it takes requests."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/ready", timeout=5).status_code == 200
    return False


class CheckedClients:
    """Clients that ask one prompt after another, while it is entered.

    statuses: of all answers, 0 where a connection broke
    wrong:    what was answered wrongly: another prompt's answer, half an answer, 503 without
              Retry-After
    """

    def __init__(
        self, service: ServiceProcess, expected: dict[str, str], num_clients: int = 6
    ) -> None:
        self._service, self._expected = service, expected
        self.statuses: list[int] = []
        self.wrong: list[str] = []
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(num_clients)
        self._clients = [self._pool.submit(self._run, number) for number in range(num_clients)]

    def go_on(self, num_answers: int) -> None:
        """Waits until so many more good answers have come."""
        before = self.statuses.count(200)
        wait_for(lambda: self.statuses.count(200) >= before + num_answers, _LONGEST_S)

    def __enter__(self) -> CheckedClients:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for client in self._clients:
            client.result()
        self._pool.shutdown()

    def _run(self, number: int) -> None:
        while not self._is_over.is_set():
            prompt = PROMPTS[number % len(PROMPTS)]
            number += 5
            status = 0
            pause_s = _PAUSE_S
            with contextlib.suppress(httpx.HTTPError):
                answer = complete(self._service.url, prompt)
                status = answer.status_code
                pause_s = float(answer.headers.get("Retry-After", _PAUSE_S))
                self._check(prompt, answer)
            if status != 200:
                self._is_over.wait(pause_s)
            self.statuses.append(status)

    def _check(self, prompt: str, answer: httpx.Response) -> None:
        if answer.status_code == 200 and text_of(answer) != self._expected[prompt]:
            self.wrong.append(text_of(answer))
        if answer.status_code == 503 and "Retry-After" not in answer.headers:
            self.wrong.append(answer.text)
