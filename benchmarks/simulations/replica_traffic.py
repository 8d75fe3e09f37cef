"""Owns the clients of the simulation of replicas: sessions that come, ask turn by turn, and leave.

Lengths and times are of the shapes of `scheduler_traffic`, and of agents, which it lacks. Sessions
belong to applications, few of which have most of the sessions; an application has a system prompt
and a schema of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from benchmarks.simulations.scheduler_traffic import SHAPES, Shape
from specguide.serve_ray.routing import RoutingKey, grammar_hash, prefix_hashes

TOKEN_BYTES = 4
NUM_APPS = 200
AGENT = Shape(0, 1, 0, 0.5, (200, 2_000), (30, 200), num_turns=20)
LONG = Shape(0, 1, 0, 2.0, (4_000, 16_000), (32, 128), num_turns=4)


@dataclass(frozen=True)
class Kind:
    """Sessions of a kind. share: of all sessions; prefix_len: tokens of an application's prompt;
    guided: how many have a schema; question_len: tokens that a turn adds after the first one"""

    shape: Shape
    share: float
    prefix_len: tuple[int, int]
    guided: float
    question_len: tuple[int, int] | None = None


KINDS = (
    Kind(SHAPES["chat"], 0.35, (100, 1_500), 0.2),
    Kind(AGENT, 0.15, (3_000, 8_000), 1.0),
    Kind(LONG, 0.05, (100, 500), 0.5, (20, 100)),
    Kind(SHAPES["steady"], 0.3, (200, 3_000), 1.0),
    Kind(SHAPES["once"], 0.15, (0, 0), 0.0),
)


@dataclass
class Session:
    """One under way. history: tokens behind the application's prompt"""

    number: int
    kind: Kind
    app: int
    prefix_len: int
    grammar: int | None
    num_turns_left: int
    history: int = 0


@dataclass(frozen=True)
class Turn:
    """A request. prompt_len: tokens, of which known_len were said in the session before, output
    included"""

    session: Session
    prompt_len: int
    known_len: int
    output_len: int
    key: RoutingKey


class Sessions:
    """Draws sessions and their turns."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._num_sessions = 0
        self._popularity = list(accumulate(1 / rank for rank in range(1, NUM_APPS + 1)))

    def begin(self) -> Session:
        """Begins one more session."""
        draw = self._random
        kind = draw.choices(KINDS, [kind.share for kind in KINDS])[0]
        app = draw.choices(range(NUM_APPS), cum_weights=self._popularity)[0]
        self._num_sessions += 1
        of_app = Random(app * len(KINDS) + KINDS.index(kind))  # the same for all its sessions
        is_guided = draw.random() < kind.guided
        return Session(
            self._num_sessions,
            kind,
            app * len(KINDS) + KINDS.index(kind),
            of_app.randint(*kind.prefix_len),
            grammar_hash([b"%d" % app]) if is_guided else None,
            draw.randint(1, kind.shape.num_turns),
        )

    def turn(self, session: Session) -> Turn:
        """Its next request."""
        draw, kind = self._random, session.kind
        is_first = session.history == 0
        lens = kind.shape.prompt_len if is_first else kind.question_len or kind.shape.prompt_len
        known_len = session.prefix_len + session.history if session.history else 0
        session.history += draw.randint(*lens)
        session.num_turns_left -= 1
        prompt_len = session.prefix_len + session.history
        output_len = draw.randint(*kind.shape.output_len)
        turn = Turn(session, prompt_len, known_len, output_len, _key(session, prompt_len))
        session.history += output_len
        return turn

    def pause_s(self, session: Session) -> float:
        """Seconds until its next turn."""
        return self._random.expovariate(1 / session.kind.shape.every_s)

    def arrivals(self, per_s: float) -> Iterator[float]:
        """When sessions begin."""
        now_s = 0.0
        while True:
            now_s += self._random.expovariate(per_s)
            yield now_s


def turns_a_session() -> float:
    """Turns of a session, on average."""
    return sum(kind.share * (1 + kind.shape.num_turns) / 2 for kind in KINDS)


def _key(session: Session, prompt_len: int) -> RoutingKey:
    """The key of a text of the application's own and one of the session's own."""
    parts = [
        _text(b"app %5d" % session.app, session.prefix_len),
        _text(b"%9d" % session.number, session.history),
    ]
    prefixes, lengths = prefix_hashes(parts)
    return RoutingKey(prefixes, lengths, prompt_len * TOKEN_BYTES, session.grammar)


def _text(word: bytes, num_tokens: int) -> bytes:
    num_bytes = num_tokens * TOKEN_BYTES
    return (word * (num_bytes // len(word) + 1))[:num_bytes]
