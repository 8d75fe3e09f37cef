"""Owns the seam between the engine's loop and the transfer of pages."""

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

    caches:      the target's and the drafter's
    forward:     the stream on which iterations run, and copies with them in order
    prompt_keys: as in BlockTables
    add:         takes a prompt as a request that ends with its keys in the cache
    cancel:      ends such a request as aborted
    wake:        the loop is to look for news
    """

    config: ResolvedConfig
    vocab_size: int
    pages: PageAllocator
    caches: Sequence[KVCache]
    forward: ForwardStream
    prompt_keys: Callable[[Sequence[int]], list[bytes]]
    add: Callable[[Sequence[int]], Request]
    cancel: Callable[[Request], None]
    wake: Callable[[], None]

    @property
    def page_bytes(self) -> int:
        """Bytes of one page in all caches."""
        return sum(cache.page_bytes for cache in self.caches)

    @property
    def pages_a_block(self) -> int:
        """Pages that are sent, and copied into a cache, at once."""
        return max(1, _BLOCK_BYTES // self.page_bytes)


_BLOCK_BYTES = 16 << 20


class Transfer(Protocol):
    """A transfer of pages, called on the loop's thread alone.

    counts:   by the names of `stats.TRANSFERS`
    has_news: `take_up` has work
    refusal:  why requests are not taken here; None where they are
    """

    @property
    def counts(self) -> Mapping[str, float]: ...

    @property
    def has_news(self) -> bool: ...

    @property
    def refusal(self) -> str | None: ...

    def take_up(self) -> list[Request]:
        """See to what has come. Returns the requests that wait for pages no longer."""

    def begin(self, request: Request) -> None:
        """A request has come; its pages may be asked for."""

    def holds(self, request: Request) -> bool:
        """Whether the request waits for pages."""

    def end(self, request: Request) -> None:
        """A request has ended."""

    def close(self) -> None:
        """Nothing is sent or taken any more."""


class NoTransfer:
    """All prompts are computed here, for requests of this engine."""

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
