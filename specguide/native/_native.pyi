"""Types of the extension built from csrc/. Times are seconds unless the name says otherwise; slots
count from 0."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

class Answer(Enum):
    """The answer of a matcher to a draft (csrc/matcher.h)."""

    NO = 0
    YES = 1
    NO_BY_GUESS = 2
    YES_BY_GUESS = 3

class Matcher:
    """A request's grammar state (csrc/matcher.h). Native matchers run without the GIL."""

    def accept(self, token: int) -> bool: ...
    def fill(self, row: Any) -> None:
        """row: a writable int32 buffer [ceil(vocab / 32)], or its address as an int"""
    def accept_draft(self, token: int) -> Answer:
        """Like `accept`, but immediately, by a guess if necessary. Tokens accepted by a guess must
        be rolled back before `accept` or `fill` is called."""
    def fill_draft(self, row: Any) -> Answer:
        """Like `fill`, but immediately, by a guess if necessary."""
    def rollback(self, n: int) -> None: ...
    @property
    def is_terminated(self) -> bool: ...
    def forced_tokens(self) -> list[int]: ...
    def forced_drafts(self, row: Any, limit: int) -> list[int]:
        """At most `limit` forced tokens, spelled as a tokenizer would; they may still be refused.

        row: the int32 buffer that `fill` was last given here
        """

class PythonMatcher(Matcher):
    """Makes any Python object with accept/fill/rollback/is_terminated/forced_tokens a Matcher.

    Each call takes the GIL. `fill` gets a writable int32 numpy view of the row, which is valid only
    during the call; `is_terminated` may be a property or a method. Exceptions become errors with
    their type and message.
    """

    def __init__(self, matcher: Any, vocab_size: int) -> None: ...
    @property
    def matcher(self) -> Any: ...

class HostFunction:
    """A callable without arguments that a stream can run; it owns its payload."""

    @property
    def name(self) -> str: ...

def python_host_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> HostFunction: ...

class Event:
    """Marks a point of a stream. An event that was never recorded counts as done; if it is recorded
    again, the last record counts."""

    @property
    def name(self) -> str: ...
    def query(self) -> bool: ...
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until it is done. Raises EngineError after the time-out."""

class HostEvent(Event):
    def __init__(self, name: str = "event") -> None: ...

class CudaEvent(Event):
    """Made by `CudaStream.make_event`."""

class Stream:
    """A FIFO of host functions, event records and event waits."""

    @property
    def name(self) -> str: ...
    def make_event(self, name: str = "event") -> Event: ...
    def launch(self, function: HostFunction) -> None: ...
    def record(self, event: Event) -> None: ...
    def wait(self, event: Event) -> None: ...
    def write_value(self, address: int, value: int) -> None:
        """Write an int32; for a CUDA stream the address is in pinned memory."""
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until everything that was launched is done. Raises EngineError after the time-out,
        or with what a function raised."""
    def check(self) -> None:
        """Raise EngineError if a function raised; this does not wait."""
    @property
    def is_capturing(self) -> bool: ...

class CapturableStream(Stream):
    """What host streams have in common: capture into a HostGraph, with the same meaning as in
    CUDA."""

    def begin_capture(self) -> None: ...
    def end_capture(self) -> HostGraph: ...

class HostStream(CapturableStream):
    """Runs its operations in order on a worker thread. After a wait longer than `timeout` it fails
    for good."""

    def __init__(self, name: str = "host", timeout: float = 60.0) -> None: ...

class CallerStream(CapturableStream):
    """Runs its operations immediately on the calling thread; `wait` blocks without the GIL."""

    def __init__(self, name: str = "caller", timeout: float = 60.0) -> None: ...

class CudaStream(Stream):
    """A CUDA stream that someone else owns, given by its handle (`torch.cuda.Stream.cuda_stream`).

    A function that is launched during capture belongs to the graph and runs at each replay.
    """

    def __init__(self, handle: int, name: str = "cuda", timeout: float = 60.0) -> None: ...
    @property
    def handle(self) -> int: ...

class PollingStream(Stream):
    """A stream whose functions run on a polling thread, which the stream signals by writing words;
    `stream` does everything else.

    words:    address of 2 · capacity int32 zeros, in pinned memory for a CUDA stream
    capacity: maximum launches that are captured or in flight at once
    owner:    keeps the words alive

    If the thread ends, another one replaces it. If none survives, or a function takes longer than
    the stream's timeout, streams continue without functions and `check` raises EngineError.
    """

    def __init__(self, stream: Stream, words: int, capacity: int, owner: Any) -> None: ...
    def hold(self, function: HostFunction) -> HeldWords: ...
    def end_thread(self, times: int = 1, after_running: bool = False) -> None:
        """For tests: end the thread the next `times` that it meets a function, before or after
        running it."""

class HeldWords:
    """The words of a function of a polling stream, as indices into the stream's words; they are
    reserved as long as this object lives. Writing a number other than 0 to `due` makes the function
    run; `done` has that number when the function has finished. If several functions are due, the
    one that was held first runs first."""

    @property
    def due(self) -> int: ...
    @property
    def done(self) -> int: ...

class HostGraph:
    """Captured operations of one or more host streams; keeps their payloads alive."""

    @property
    def num_nodes(self) -> int: ...
    @property
    def num_streams(self) -> int: ...
    def replay(self, *streams: CapturableStream) -> None:
        """streams: one, or as many as were captured (the origin first)"""

class ExecutorCounters:
    """Totals since construction; `*_ns` in nanoseconds, `max_*` per iteration and guided
    request."""

    accepts: int
    fills: int
    rollbacks: int
    iterations: int
    held: int
    late_draft_rows: int
    guessed_draft_rows: int
    callback_ns: int
    busy_ns: int
    max_accepts: int
    max_fills: int
    max_rollbacks: int

class LookupSource:
    """Searches earlier text for drafts."""

class NgramSource(LookupSource):
    """Looks for the most recent occurrence of the last max_n tokens, or fewer down to min_n, in the
    request's text, and proposes what followed it.

    ValueError unless 1 <= min_n <= max_n <= 16.
    """

    def __init__(self, *, min_n: int, max_n: int) -> None: ...

class SuffixSource(LookupSource):
    """Looks for the longest suffix of the text that occurs in the request's text or in earlier
    outputs, and proposes what followed it most often.

    max_depth:         maximum tokens of a suffix and what follows it together, 2 to 64
    max_nodes:         maximum nodes, of some 40 bytes, that are kept of outputs
    least_probability: lower bound for the estimated probability of a chain's looked-up drafts
                       together, 0 to 1
    ValueError for values outside.
    """

    def __init__(self, *, max_depth: int, max_nodes: int, least_probability: float) -> None: ...
    @property
    def num_nodes(self) -> int: ...

class DraftLimits:
    """Maximum drafts in one chain from each proposer; for the grammar, also of consecutive forced
    tokens."""

    num_draft_tokens: int
    num_forced_tokens: int
    num_lookup_tokens: int
    def __init__(
        self,
        *,
        num_draft_tokens: int = 0,
        num_forced_tokens: int = 0,
        num_lookup_tokens: int = 0,
    ) -> None: ...

class ExecutorOptions:
    """How callbacks wait, and how many workers walk.

    Callbacks wait at most deadline_us. Once `needed` reaches them, callback 0 and callback K + 1
    wait no longer than target_wait_us (None: an iteration's time divided by the number of its
    requests), the others no longer than draft_wait_us (None: deadline_us).
    """

    num_threads: int
    deadline_us: int
    draft_wait_us: int | None
    target_wait_us: int | None
    def __init__(
        self,
        *,
        num_threads: int,
        deadline_us: int,
        draft_wait_us: int | None = None,
        target_wait_us: int | None = None,
    ) -> None: ...

class GrammarBuffers:
    """Contiguous host arrays (numpy) that the callbacks and the step share; they are kept alive as
    long as anything may touch them. ValueError names an array with another dtype or shape than
    listed here. S slots, words = ceil(vocab_size / 32). A chain has at most W drafts: K =
    limits.num_draft_tokens of the step, num_forced_tokens that the grammar forces,
    num_lookup_tokens that a lookup finds. N = W + 1.

    bitmask       int32 [N, S, words]  written by workers
    fill_ids      int64 [N, S]         0: the row is free; else its number: rows with equal
                                       numbers are equal, negative numbers are used only once
    held          uint8 [S]            1: this iteration accepts nothing for the slot
    needed        int32 [1]            read: callbacks of the iteration whose rows the step waits
                                       for, or soon will; must be 0 before callback 0
    tokens        int32 [S, N]         golden token, then the drafts (-1: no draft); the callbacks
                                       write their own proposals
    num_accepted  int32 [S]            read: drafts accepted at the last verification; -1: held

    and if W > K

    chain_len     int32 [S]            number of drafts; the step's next draft follows the last of
                                       them; W: no more may follow
    origins       uint8 [S, N]         of each draft: 1 the step, 2 the grammar, 3 the lookup; 0:
                                       none

    With stage_begins, int [K + 2], the drafts are a tree of depth K, and its nodes are numbered by
    stages: stage j, 0 … K, is node stage_begins[j] … stage_begins[j + 1] - 1, stage 0 is only the
    golden token, and N = stage_begins[K + 1]. Stage j becomes known when draft j of a chain would;
    a node's parent is in any earlier stage. W = K, and there are

    parents        int32 [S, N]        read: the node that each node is behind; arbitrary if there
                                       is no token
    accepted_path  int32 [S, K]        read: the nodes that the last verification accepted, from the
                                       root on; the first num_accepted of them are valid

    K = 0 is plain decoding. num_kept_rows: number of rows that the step keeps, the last ones with
    positive numbers, number n at place n modulo num_kept_rows; 0: all numbers are negative. It must
    be at least 4 · N · S, so that no two rows that the step is given at once share a place.
    """

    def __init__(
        self,
        *,
        limits: DraftLimits,
        vocab_size: int,
        stage_begins: Sequence[int] = ...,
        num_kept_rows: int = 0,
        **arrays: Any,
    ) -> None: ...

class GrammarExecutor:
    """Owns the walks of all slots."""

    def __init__(
        self,
        buffers: GrammarBuffers,
        options: ExecutorOptions,
        lookup: LookupSource | None = None,
    ) -> None: ...
    def submit(
        self,
        started: Sequence[tuple[int, Matcher | None]],
        continued: Sequence[int],
        texts: Mapping[int, Sequence[int]] = ...,
        limits: Mapping[int, DraftLimits] = ...,
        iteration_limits: DraftLimits | None = None,
        restarts: Mapping[int, Callable[[list[int]], Matcher]] = ...,
    ) -> None:
        """texts:  tokens so far of slots that start, for `lookup`
        limits: maximum drafts of slots that start, if fewer than the executor's
        iteration_limits: maximum drafts of all slots in this iteration
        restarts: make a new matcher for a slot that starts, behind given tokens. With it a matcher
                  that fails at a draft ends its request only if the target takes that draft
        """
    def discard_snapshots(self) -> None:
        """Drop the snapshots of iterations that will not run; only while no callback runs."""
    def detach(self, slot: int) -> None: ...
    def is_idle(self, slot: int) -> bool: ...
    def error(self, slot: int) -> str | None: ...
    def check(self) -> None:
        """Raise EngineError if the executor itself failed, such as for a callback 0 without a
        snapshot."""
    def callbacks(self) -> list[HostFunction]:
        """K + 1 functions, or K + 2 if W > K, to be launched in order, once each per iteration."""
    def counters(self) -> ExecutorCounters: ...
    def log_callbacks(self, capacity: int) -> None:
        """From now on keep the times of the last `capacity` callbacks."""
    def take_callback_spans(self) -> list[tuple[int, int, int, int]]:
        """Iteration (from 1), index, begin and end in nanoseconds of time.perf_counter_ns, of the
        callbacks since the last call, oldest first."""

class LibraryMatcher(Matcher):
    """A matcher of a grammar library, called without Python. `fill` checks the width of a
    buffer."""

class NativeVocabulary:
    """The bytes of each token id, and the end tokens."""

    def __init__(self, token_bytes: Sequence[bytes], eos_token_ids: Sequence[int]) -> None: ...
    def __len__(self) -> int: ...

class NativeGrammar:
    """A compiled grammar; its matchers start at its beginning.

    num_learned: how many matchers it keeps that have walked it, for later requests to use
    """

    @property
    def num_learned(self) -> int: ...
    def matcher(self) -> LibraryMatcher: ...

class ReasoningMark:
    """The text (bytes) or the special token (id) by which reasoning begins or ends.

    ValueError if the vocabulary has no such token, or cannot spell the text.
    """

    def __init__(self, vocabulary: NativeVocabulary, mark: bytes | int) -> None: ...

class ReasoningMatcher(Matcher):
    """`begin`, free text of at most `max_tokens`, `end`, and then what `answer` allows. The marks
    in `begin`, and those in `end`, follow one another; the first mark of `end` ends the free text.

    instead: what may replace everything before the answer; empty: nothing needs to come; None: it
             cannot be replaced
    cut_by:  special tokens that also end the free text, if the answer begins with one

    ValueError if `begin`, or `instead`, must begin with a special token and does not.
    """

    def __init__(
        self,
        answer: Matcher,
        end: Sequence[ReasoningMark],
        begin: Sequence[ReasoningMark] = (),
        max_tokens: int | None = None,
        instead: Sequence[ReasoningMark] | None = None,
        cut_by: Sequence[int] = (),
    ) -> None: ...

class DistinctTokens:
    """Which tokens of a vocabulary may end items; made once per vocabulary."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class DistinctRoom:
    """How many values an array's items may have: FREE: enough that whatever was begun can be ended
    with a new value; ENDLESS: always more; FEW: few."""

    FREE: DistinctRoom
    ENDLESS: DistinctRoom
    FEW: DistinctRoom

class DistinctPlace:
    """What is known about the values at a place of a schema.

    is_distinct: an array's items must differ
    room:        how many values its items may have
    prefix, rest, properties, other: numbers of the places of an array's items, and of an object's
                                     values by their names as JSON strings; -1: nothing inside must
                                     differ
    is_even:     the items behind the prefix are all of one kind; otherwise what may follow depends
                 on the items before
    endless:     the quotes and brackets that begin infinitely many of the items behind the prefix
    """

    def __init__(
        self,
        *,
        is_distinct: bool,
        room: DistinctRoom,
        prefix: Sequence[int],
        rest: int,
        properties: Mapping[str, int],
        other: int,
        is_even: bool = True,
        endless: str = "",
    ) -> None: ...

class DistinctPlaces:
    """All places of a text's schemas; the first one is the whole text's if that is JSON. ValueError
    for numbers of places that do not exist."""

    def __init__(self, places: Sequence[DistinctPlace]) -> None: ...

class TokenTrie:
    """The tokens of a vocabulary as a tree of their bytes."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class AutomatonPool:
    """Bounds the memory of several grammars' states together: the least recently used states are
    dropped, and computed again when they are needed."""

    def __init__(self, most_bytes: int) -> None: ...
    @property
    def num_bytes(self) -> int:
        """Bytes that the states use now."""

class Endings:
    """How the texts of a grammar end; see csrc/endings/. Raises ValueError for what it cannot read.

    form:     "lark" or "ebnf", the language of the text
    is_exact: the text allows exactly what its matchers accept, so that these share rows where their
              texts continue alike
    may_wait: the ends are computed only when they are asked for, if what the grammar shows at once
              is enough until then
    """

    def __init__(
        self,
        form: str,
        text: str,
        trie: TokenTrie,
        pool: AutomatonPool,
        is_exact: bool = False,
        may_wait: bool = False,
    ) -> None: ...
    def build(self) -> None:
        """Compute the ends, unless that has been done. Other calls here do so, too, if they
        must."""
    @property
    def is_built(self) -> bool:
        """Whether the ends have been computed."""
    @property
    def is_endless(self) -> bool:
        """Whether no text ends; False if that is not known yet."""
    @property
    def most_least(self) -> int:
        """An upper bound of the shortest text's tokens, its end token included; known
        immediately."""
    @property
    def is_exact(self) -> bool:
        """As given, unless a part was too large to be represented fully."""
    @property
    def num_shared(self) -> int:
        """Number of rows that were copied from another place where the text continues alike."""
    @property
    def num_least(self) -> int:
        """Number of tokens of the shortest text, its end token included; -1: no text ends."""
    def num_missing(self, text: bytes) -> int:
        """`num_least` behind the beginning of a text; -1 also if no text begins so."""

class EndingMatcher(Matcher):
    """What a matcher allows, restricted so that the end token is among the first `max_tokens`.

    num_spare: tokens by which ends may be farther than `endings` says
    may_go_on: the last token may be any token behind which the text may end
    """

    def __init__(
        self,
        inner: Matcher,
        endings: Endings,
        max_tokens: int,
        num_spare: int = 0,
        may_go_on: bool = False,
    ) -> None: ...
    def found_end(self) -> int:
        """Number of tokens to an end from here that was found in time, the end token included; -1
        if none was."""

class DistinctMatcher(Matcher):
    """What `inner`, a matcher of texts with JSON in them, allows, without items that repeat an
    earlier one of their array where items must differ.

    starts:       the texts behind which JSON begins, each with the number of its place
    in_any_order: `inner` allows an object's keys in any order
    """

    def __init__(
        self,
        inner: Matcher,
        tokens: DistinctTokens,
        places: DistinctPlaces,
        starts: KeyStarts,
        in_any_order: bool = False,
    ) -> None: ...

class KeyTokens:
    """Which tokens of a vocabulary may hold or end keys; made once per vocabulary."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class UnnamedKeys:
    """Which keys an object accepts besides those that its place names: none, some, or any."""

    NONE: UnnamedKeys
    SOME: UnnamedKeys
    ANY: UnnamedKeys

class KeyOption:
    """One of the objects that a place allows. Names are JSON strings, as the grammar spells them.

    allowed:     names of the place that it may have
    required:    names that it must have
    least, most: bounds of its number of keys; None: no bound
    unnamed:     which other keys it accepts
    """

    def __init__(
        self,
        *,
        allowed: Sequence[str],
        required: Sequence[str],
        least: int,
        most: int | None,
        unnamed: UnnamedKeys,
    ) -> None: ...

class KeyPlace:
    """What is known about the values at a place of a schema.

    options: the objects that may be there, at most 64
    names, other, prefix, rest: numbers of the places of an object's values by their names, and of
                                an array's items; -1: anything may be there
    """

    def __init__(
        self,
        *,
        options: Sequence[KeyOption],
        names: Mapping[str, int],
        other: int,
        prefix: Sequence[int],
        rest: int,
    ) -> None: ...

class KeyPlaces:
    """All places of a grammar's schemas. ValueError for numbers of places that do not exist."""

    def __init__(self, places: Sequence[KeyPlace]) -> None: ...

class KeyStarts:
    """The texts behind which JSON begins, each with the number of its place; none: the whole text
    is JSON, of the first place. ValueError for an empty text."""

    def __init__(self, starts: Sequence[tuple[bytes, int]]) -> None: ...

class KeyMatcher(Matcher):
    """What `inner`, a matcher of texts whose objects allow any keys any number of times in any
    order, allows, restricted to objects without duplicate keys and with all required ones."""

    def __init__(
        self, inner: Matcher, tokens: KeyTokens, places: KeyPlaces, starts: KeyStarts
    ) -> None: ...

class HeldTexts:
    """Marks of arguments that are written one by one, some of which are texts that may contain the
    beginning of a call.

    before:      the texts before an argument's name, in the bytes of KeyStarts
    behind_name: what separates the name from the value
    begin, end:  enclose such a text, and no other value
    after:       what follows each value

    ValueError if one of them is empty.
    """

    def __init__(
        self, *, before: Sequence[bytes], behind_name: bytes, begin: bytes, end: bytes, after: bytes
    ) -> None: ...

class CallArguments:
    """How the end of a call's arguments is found. SEARCHED: it is not looked for, because the
    beginning of a call occurs in no arguments, or only in held texts; JSON: the arguments are one
    JSON value; BRACKETED: a closing bracket ends them, and brackets inside are in pairs, in JSON
    strings or in single quotes."""

    SEARCHED: CallArguments
    JSON: CallArguments
    BRACKETED: CallArguments

class Calls:
    """What matchers share of messages with tool calls whose arguments have their own grammars.

    before:    the texts before the names of tools, and before nothing else, in the bytes of
               KeyStarts
    names:     the names, each up to the first byte of what separates it from the arguments, or to
               the special token; and the number of the tool
    gate:      no call begins before this text; b"": calls may begin at once
    lead:      the rest of what separates name and arguments; None: nothing separates them, and
               arguments begin with a special token, which is part of `names`
    arguments: how their end is found
    held:      marks of texts that may contain the beginning of a call; None: there are none
    has_part:  by the number of a tool, whether its arguments have their own grammar
    reaching:  all tokens that may reach from a tool's name into its arguments
    part:      given a tool's number and what must come before its arguments, makes a native matcher
               of the rest of a message; given -1, one of a whole message

    ValueError for an empty text, and for a tool's number or a token that does not exist.
    """

    def __init__(
        self,
        *,
        before: Sequence[bytes],
        names: Sequence[tuple[bytes, int]],
        gate: bytes,
        lead: bytes | None,
        arguments: CallArguments,
        held: HeldTexts | None = None,
        has_part: Sequence[bool],
        vocabulary: NativeVocabulary,
        reaching: Sequence[int],
        part: Callable[[int, bytes], Matcher],
    ) -> None: ...

class CallMatcher(Matcher):
    """A matcher of messages with tool calls. It asks for a part when a call has reached its tool's
    name."""

    def __init__(self, calls: Calls) -> None: ...

class XGrammarLibrary:
    """xgrammar's functions in the TVM-FFI type table; `tvm_ffi_path` is the shared library of
    tvm_ffi."""

    def __init__(self, tvm_ffi_path: str) -> None: ...
    def grammar(self, vocabulary: NativeVocabulary, handle: int) -> NativeGrammar: ...

class LLGuidanceLibrary:
    """llguidance's C interface, in the extension module at `path`."""

    def __init__(self, path: str) -> None: ...

class LLGuidanceLimits:
    """How much work llguidance may do for a grammar; the names are the library's.

    max_items_in_row:   items of its Earley parser at one place in the text
    step_max_items:     items made for one row of what may follow
    initial_lexer_fuel: steps of its lexer to compile a grammar, and to walk a text without asking
                        for rows
    step_lexer_fuel:    steps of its lexer for one row
    max_lexer_states:   states of the lexer, over a matcher and its clones
    """

    max_items_in_row: int
    step_max_items: int
    initial_lexer_fuel: int
    step_lexer_fuel: int
    max_lexer_states: int
    def __init__(
        self,
        *,
        max_items_in_row: int,
        step_max_items: int,
        initial_lexer_fuel: int,
        step_lexer_fuel: int,
        max_lexer_states: int,
    ) -> None: ...

class LLGuidanceTokenizer:
    """A vocabulary in the form that llguidance wants."""

    def __init__(self, library: LLGuidanceLibrary, vocabulary: NativeVocabulary) -> None: ...
    def compile(self, lark: str, usual: LLGuidanceLimits, more: LLGuidanceLimits) -> NativeGrammar:
        """A grammar whose matchers go on with the limits `more` when they reach one of the `usual`
        limits."""

def cuda_unavailable_reason() -> str | None:
    """Why there is no CUDA, as text; None: its entry points were found."""

def drain_releases() -> None:
    """Wait until the payloads that streams gave up have been released."""

def set_num_cores(count: int) -> None:
    """Set how many cores this process may keep busy. With up to 4, waiting threads soon sleep."""

class AttentionPass:
    """The tokens and sequences of a pass (csrc/cpu/attention.h). Tensors are given by their
    addresses, which must stay valid.

    position_ids:    int64 [T]
    block_table:     int32 [num_seqs, max_pages], rows `table_stride` apart
    query_start_loc: int32 [num_seqs + 1]
    seq_lens:        int32 [num_seqs]
    ancestors:       for a tree, uint8 [num_seqs, Q, num_nodes]; else 0, as are the next two
    node_positions:  int64 [num_seqs, num_nodes]
    """

    def __init__(
        self,
        *,
        position_ids: int,
        block_table: int,
        query_start_loc: int,
        seq_lens: int,
        ancestors: int,
        node_positions: int,
        num_seqs: int,
        max_pages: int,
        table_stride: int,
        page_size: int,
        num_nodes: int,
    ) -> None: ...
    @property
    def num_pairs(self) -> int:
        """Number of pairs of a token and a key of its sequence."""
    def run(
        self,
        *,
        query: int,
        key_cache: int,
        value_cache: int,
        sinks: int,
        output: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        window: int,
        scale: float,
        softcap: float,
    ) -> None:
        """Attend, given the addresses of float32 tensors; see AttentionPlan.run. sinks: 0: there
        are none; window, softcap: 0: there is none"""

def norm_rows(
    *,
    input: int,
    residual: int,
    weight: int,
    total: int,
    output: int,
    rows: int,
    size: int,
    weight_rows: int,
    output_stride: int,
    eps: float,
) -> None:
    """add_rms_norm, or rms_norm if residual and total are 0, given the addresses of float32 rows
    (csrc/cpu/rows.h)."""

def rotate_and_store_rows(
    *,
    query_key: int,
    value: int,
    rotary: int,
    slot_mapping: int,
    key_cache: int,
    value_cache: int,
    query: int,
    rows: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    query_key_stride: int,
    value_stride: int,
) -> None:
    """rope_and_store, given the addresses of float32 rows, and of slot_mapping int64; strides count
    numbers."""

def choose_tokens(
    *,
    logits: int,
    bitmask: int,
    guided: int,
    row_ids: int,
    target_ids: int,
    tokens: int,
    rows: int,
    size: int,
    words: int,
) -> None:
    """masked_argmax, given addresses: logits float32, target_ids int32 or 0, tokens int32 [rows],
    which are written; bitmask, guided and row_ids as in BitmaskRows, or 0."""
