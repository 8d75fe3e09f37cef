"""Owns Transfer, the interface between the engine's loop and the transfer of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from specguide.cache import KVCache, PageAllocator
from specguide.config.resolved import ResolvedConfig
from specguide.engine.stats import no_transfers
from specguide.kernels.forward_stream import ForwardStream
from specguide.request import Request


@dataclass(frozen=True, eq=False)
class EngineSide:
    """What a transfer needs of its engine. `wake` may be called from any thread.

    caches:      the target's cache, and the drafter's if it has one
    forward:     the stream on which iterations run; copies run on it in order with them
    prompt_keys: see BlockTables
    add:         adds a prompt as a request of an adapter, which ends when its keys are in the cache
    cancel:      ends such a request as aborted
    wake:        makes the loop call `take_up`
    """

    config: ResolvedConfig
    vocab_size: int
    pages: PageAllocator
    caches: Sequence[KVCache]
    forward: ForwardStream
    prompt_keys: Callable[[Sequence[int], int], list[bytes]]
    add: Callable[[Sequence[int], int], Request]
    cancel: Callable[[Request], None]
    wake: Callable[[], None]

    @property
    def page_bytes(self) -> int:
        """Bytes of one page in all caches."""
        return sum(cache.page_bytes for cache in self.caches)

    @property
    def pages_a_block(self) -> int:
        """Number of pages that are sent, and copied into a cache, at once."""
        return max(1, _BLOCK_BYTES // self.page_bytes)


_BLOCK_BYTES = 16 << 20


class Transfer(Protocol):
    """A transfer of pages. Only the loop's thread calls it.

    counts:   counts by the names of `stats.TRANSFERS`
    has_news: `take_up` has work
    refusal:  why this engine takes no requests; None: it does
    """

    @property
    def counts(self) -> Mapping[str, float]: ...

    @property
    def has_news(self) -> bool: ...

    @property
    def refusal(self) -> str | None: ...

    def take_up(self) -> list[Request]:
        """Handle the messages that have come. Returns the requests that no longer wait for
        pages."""

    def begin(self, request: Request) -> None:
        """Take a new request; its pages may be asked for."""

    def holds(self, request: Request) -> bool:
        """Whether the request waits for pages."""

    def end(self, request: Request) -> None:
        """Take a request that has ended."""

    def close(self) -> None:
        """Stop sending and receiving."""


class NoTransfer:
    """The null object: this engine computes all its prompts, and none for others."""

    counts: Mapping[str, float] = no_transfers()
    has_news = False
    refusal: str | None = None

    def take_up(self) -> list[Request]:
        return []

    def begin(self, request: Request) -> None: ...

    def holds(self, request: Request) -> bool:
        return False

    def end(self, request: Request) -> None: ...

    def close(self) -> None: ...
