"""Owns the clients of the scheduler's simulation: what they ask, and when.

No trace of real traffic is at hand, so these are shapes that services see: a batch job that comes
in bursts, long documents, conversations whose turns share all that was said before, steady calls,
and clients that ask once. Prompts are tokens of the request's or conversation's own, outputs end
where the model would end them, which nobody is told in advance.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec

MAX_TOKENS = 512
SYSTEM_PROMPT_LEN = 400
LARGEST_COST = 16_000 + MAX_TOKENS
_PARAMS = SamplingParams(max_tokens=MAX_TOKENS)


@dataclass(frozen=True)
class Shape:
    """How a client asks. Lengths are drawn between the two numbers, evenly.

    num_clients:  of this shape; 0: each request is a client of its own
    burst:        requests that come at once
    refill_at:    requests under way at which it asks again; 0: it asks by time
    every_s:      seconds between two bursts, or between an answer and the next question, on average
    prompt_len:   tokens; of a conversation those that a turn adds
    output_len:   tokens
    num_turns:    most turns of a conversation; 1: there are none
    """

    num_clients: int
    burst: int
    refill_at: int
    every_s: float
    prompt_len: tuple[int, int]
    output_len: tuple[int, int]
    num_turns: int = 1


SHAPES = {
    "batch": Shape(2, 500, 250, 0.0, (300, 700), (64, 192)),
    "long": Shape(2, 12, 6, 0.0, (4_000, 16_000), (32, 128)),
    "chat": Shape(24, 1, 0, 1.0, (40, 400), (40, 300), num_turns=12),
    "steady": Shape(4, 1, 0, 0.5, (100, 1_000), (16, 128)),
    "once": Shape(0, 2, 0, 0.5, (100, 2_000), (16, 256)),
}


@dataclass
class Client:
    """A client under way. session: number of its conversation; history: tokens of it so far"""

    name: str
    shape: Shape
    session: int = 0
    history: int = 0
    num_turns: int = 0
    num_open: int = 0


@dataclass
class Traffic:
    """All clients. They ask for requests as time goes on, and hear which have ended.

    output_lens: tokens that the output of each request under way comes to
    """

    seed: int
    output_lens: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._num_requests = 0
        self._num_sessions = 1
        self._at: list[tuple[float, int, Client]] = []
        self._clients: dict[str, Client] = {}
        for kind, shape in SHAPES.items():
            for number in range(max(1, shape.num_clients)):
                client = Client(f"{kind} {number}", shape)
                self._clients[client.name] = client
                self._ask_at(client, self._random.uniform(0, shape.every_s))

    @property
    def next_s(self) -> float:
        """When somebody asks next."""
        return self._at[0][0]

    def due(self, now_s: float) -> Iterator[Request]:
        """Requests that have come by now."""
        while self._at and self._at[0][0] <= now_s:
            at_s, _, client = heapq.heappop(self._at)
            for _ in range(client.shape.burst):
                yield self._request(client, at_s)
            if not client.shape.refill_at and client.shape.num_turns == 1:
                self._ask_at(client, at_s + self._random.expovariate(1 / client.shape.every_s))

    def end(self, request: Request, now_s: float) -> None:
        """A request has ended; its client may go on."""
        del self.output_lens[request.request_id]
        client = self._clients.get(request.spec.client)
        if client is None:
            return
        client.num_open -= 1
        if client.shape.num_turns > 1:
            self._ask_at(client, now_s + self._random.expovariate(1 / client.shape.every_s))
        elif client.shape.refill_at and client.num_open == client.shape.refill_at:
            self._ask_at(client, now_s)

    def _ask_at(self, client: Client, at_s: float) -> None:
        heapq.heappush(self._at, (at_s, self._random.getrandbits(40), client))

    def _request(self, client: Client, at_s: float) -> Request:
        number, shape = self._num_requests, client.shape
        self._num_requests += 1
        client.num_open += 1
        self.output_lens[number] = self._random.randint(*shape.output_len)
        spec = RequestSpec(
            number,
            self._prompt(client, self._random.randint(*shape.prompt_len)),
            _PARAMS,
            arrival_s=at_s,
            client=client.name if shape.num_clients else f"once {number}",
        )
        return Request(spec)

    def _prompt(self, client: Client, num_new: int) -> tuple[int, ...]:
        if client.shape.num_turns == 1 or client.num_turns == client.shape.num_turns:
            client.num_turns = client.history = 0
        if client.num_turns == 0:
            self._num_sessions += 1
            client.session = self._num_sessions
        client.num_turns += 1
        client.history += num_new
        own = (client.session,) * client.history
        return own if client.shape.num_turns == 1 else (1,) * SYSTEM_PROMPT_LEN + own


def max_min_shares(demands: Mapping[str, float], capacity: float) -> dict[str, float]:
    """What each client is to get: who wants less than an equal part gets all, and the others share
    the rest equally."""
    shares: dict[str, float] = {}
    left = capacity
    for client in sorted(demands, key=lambda client: demands[client]):
        shares[client] = min(demands[client], left / (len(demands) - len(shares)))
        left -= shares[client]
    return shares
