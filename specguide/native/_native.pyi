"""Types of the extension built from csrc/. Times are seconds unless the name says otherwise; slots
count from 0."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

class Answer(Enum):
    """The answer of a matcher on a draft (csrc/matcher.h)."""

    NO = 0
    YES = 1
    NO_BY_GUESS = 2
    YES_BY_GUESS = 3

class Matcher:
    """A request's grammar state (csrc/matcher.h). The GIL is not held inside native ones."""

    def accept(self, token: int) -> bool: ...
    def fill(self, row: Any) -> None:
        """row: a writable int32 buffer [ceil(vocab / 32)], or its address as an int"""
    def accept_draft(self, token: int) -> Answer:
        """`accept` at once, if need be by a guess. Tokens accepted by a guess are to be rolled back
        before `accept` or `fill` is called."""
    def fill_draft(self, row: Any) -> Answer:
        """`fill` at once, if need be by a guess."""
    def rollback(self, n: int) -> None: ...
    @property
    def is_terminated(self) -> bool: ...
    def forced_tokens(self) -> list[int]: ...
    def forced_drafts(self, row: Any, limit: int) -> list[int]:
        """At most `limit` forced tokens, spelled as a tokenizer would; they may be refused.

        row: the int32 buffer that `fill` was given here last
        """

class PythonMatcher(Matcher):
    """Any Python object with accept/fill/rollback/is_terminated/forced_tokens as a Matcher.

    Each call takes the GIL. `fill` is given a writable int32 numpy view of the row, valid during
    the call only; `is_terminated` may be a property or a method. Exceptions become errors with
    their type and message.
    """

    def __init__(self, matcher: Any, vocab_size: int) -> None: ...
    @property
    def matcher(self) -> Any: ...

class HostFunction:
    """A callable without arguments that a stream can run, owning its payload."""

    @property
    def name(self) -> str: ...

def python_host_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> HostFunction: ...

class Event:
    """A mark at a point of a stream. One that was never recorded counts as done. It may be recorded
    again; the last record counts."""

    @property
    def name(self) -> str: ...
    def query(self) -> bool: ...
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until it is done. Raises EngineError on a time-out."""

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
        """Write an int32; on a CUDA stream to pinned memory."""
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for all that was launched. Raises EngineError on a time-out, or with what a function
        raised."""
    def check(self) -> None:
        """Raise EngineError if a function raised; this does not wait."""
    @property
    def is_capturing(self) -> bool: ...

class CapturableStream(Stream):
    """What host streams have in common: capturing into a HostGraph, with the meaning of CUDA's
    stream capture."""

    def begin_capture(self) -> None: ...
    def end_capture(self) -> HostGraph: ...

class HostStream(CapturableStream):
    """Runs its operations in order on a worker thread. A wait that takes longer than `timeout`
    fails it for good."""

    def __init__(self, name: str = "host", timeout: float = 60.0) -> None: ...

class CallerStream(CapturableStream):
    """Runs its operations at once on the calling thread; `wait` blocks with the GIL released."""

    def __init__(self, name: str = "caller", timeout: float = 60.0) -> None: ...

class CudaStream(Stream):
    """A CUDA stream that someone else owns, by its handle (`torch.cuda.Stream.cuda_stream`).

    A function launched while the stream captures belongs to the graph and runs at each replay.
    """

    def __init__(self, handle: int, name: str = "cuda", timeout: float = 60.0) -> None: ...
    @property
    def handle(self) -> int: ...

class PollingStream(Stream):
    """A stream whose functions run on a polling thread, told by writes of words; all else is done
    by `stream`.

    words:    address of 2 · capacity int32 zeros, in pinned memory for a CUDA stream
    capacity: most launches that are captured or under way at once
    owner:    keeps the words

    When the thread ends another takes over; when none lasts, or a function takes longer than the
    stream's timeout, streams go on without functions and `check` raises EngineError.
    """

    def __init__(self, stream: Stream, words: int, capacity: int, owner: Any) -> None: ...
    def hold(self, function: HostFunction) -> HeldWords: ...
    def end_thread(self, times: int = 1, after_running: bool = False) -> None:
        """For tests: end the thread the next `times` that it comes across a function, before or
        after running it."""

class HeldWords:
    """The words of a function of a polling stream, as places among the stream's, kept as long as
    this lives. Whoever writes a number other than 0 to `due` has the function run; once that is
    over, `done` has the number. Of functions that are due at once the one held first runs first.
    """

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
        """streams: one, or as many as captured (the origin first)"""

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
    """A search that finds drafts in text that was there before."""

class NgramSource(LookupSource):
    """A search for what followed the last max_n tokens, or fewer down to min_n, when they were in
    the request's text most recently.

    ValueError unless 1 <= min_n <= max_n <= 16.
    """

    def __init__(self, *, min_n: int, max_n: int) -> None: ...

class SuffixSource(LookupSource):
    """A search for what most often followed the longest end of the text that is in the request's
    text or in earlier outputs.

    max_depth:         most tokens of an end and what follows it together, 2 to 64
    max_nodes:         most nodes, of some 60 bytes, that are kept of outputs
    least_probability: estimated probability of a chain's looked-up drafts together, 0 to 1
    ValueError for values outside.
    """

    def __init__(self, *, max_depth: int, max_nodes: int, least_probability: float) -> None: ...
    @property
    def num_nodes(self) -> int: ...

class DraftLimits:
    """Most drafts in one chain from each who proposes them; so many of the grammar's may follow one
    another."""

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

    Callbacks wait deadline_us at most, and from when `needed` comes up to them callback 0 no longer
    than target_wait_us (None: an iteration's time shared among its requests), the others than
    draft_wait_us (None: deadline_us), but callback K + 1 as callback 0.
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
    """Contiguous host arrays (numpy) that the callbacks and the step share, kept alive as long as
    anything may touch them. ValueError names one whose type or shape is not this. S slots, words =
    ceil(vocab_size / 32). A chain has at most W drafts: K = limits.num_draft_tokens of the step's,
    num_forced_tokens that the grammar forces, num_lookup_tokens that a lookup finds. N = W + 1.

    bitmask       int32 [N, S, words]  written by workers
    fill_ids      int64 [N, S]         0: the row is free; else its number: rows of the same one are
                                       equal, one below 0 does not come again
    held          uint8 [S]            1: this iteration accepts nothing for the slot
    needed        int32 [1]            read: callbacks of the iteration whose rows the step stands
                                       waiting for, or soon will; to be 0 before callback 0
    tokens        int32 [S, N]         golden token, then the drafts (-1: no draft); the callbacks
                                       write those that are theirs
    num_accepted  int32 [S]            read: drafts accepted at the last verification; -1: held

    and where W > K

    chain_len     int32 [S]            drafts that there are: the step's next one is that of the
                                       node behind them; W: none may come
    origins       uint8 [S, N]         of each draft: 1 the step, 2 the grammar, 3 the lookup; 0:
                                       none

    With stage_begins, int [K + 2], the drafts are a tree of depth K, its nodes numbered by stages:
    stage j, 0 … K, is node stage_begins[j] … stage_begins[j + 1] - 1, stage 0 the golden token
    alone, and N = stage_begins[K + 1]. Stage j becomes known where draft j of a chain would; a
    node's parent belongs to any earlier stage. W = K, and there are

    parents        int32 [S, N]        read: the node that each node is behind; anything where there
                                       is no token
    accepted_path  int32 [S, K]        read: the nodes that the last verification accepted, from the
                                       root on; the first num_accepted of them count

    K = 0 is plain decoding. num_kept_rows: the step keeps so many of the last rows with numbers
    above 0, number n at place n modulo num_kept_rows; 0: all numbers are below 0. At least four
    times N · S rows, so that no two that it is told at once have one place.
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
        limits: most drafts of slots that start, where these are fewer than the executor's
        iteration_limits: most drafts of all slots in this iteration
        restarts: make a new matcher of a slot that starts, behind tokens that it had taken: one
                  that fails at a draft ends no request then that does not take the draft
        """
    def discard_snapshots(self) -> None:
        """Drop those of iterations that will not run; only while no callback runs."""
    def detach(self, slot: int) -> None: ...
    def is_idle(self, slot: int) -> bool: ...
    def error(self, slot: int) -> str | None: ...
    def check(self) -> None:
        """Raise EngineError if the executor itself failed, say a callback 0 without a snapshot."""
    def callbacks(self) -> list[HostFunction]:
        """K + 1 functions, K + 2 where W > K, to be launched in order, once each per iteration."""
    def counters(self) -> ExecutorCounters: ...
    def log_callbacks(self, capacity: int) -> None:
        """Keep the times of the last `capacity` callbacks from now on."""
    def take_callback_spans(self) -> list[tuple[int, int, int, int]]:
        """Iteration (from 1), index, begin and end in nanoseconds of time.perf_counter_ns of the
        callbacks since the last call, oldest first."""

class LibraryMatcher(Matcher):
    """A matcher of a grammar library, driven without Python. `fill` checks the width of a
    buffer."""

class NativeVocabulary:
    """The bytes of each token id, and the ids that end a text."""

    def __init__(self, token_bytes: Sequence[bytes], eos_token_ids: Sequence[int]) -> None: ...
    def __len__(self) -> int: ...

class NativeGrammar:
    """A compiled grammar; matchers of it start at its beginning.

    num_learned: how many matchers that have walked it keeps for those to come
    """

    @property
    def num_learned(self) -> int: ...
    def matcher(self) -> LibraryMatcher: ...

class ReasoningMark:
    """The text (bytes) or the special token (id) by which reasoning begins or ends.

    ValueError where the vocabulary has no such token, or cannot spell the text.
    """

    def __init__(self, vocabulary: NativeVocabulary, mark: bytes | int) -> None: ...

class ReasoningMatcher(Matcher):
    """`begin`, free text of at most `max_tokens`, `end`, and then what `answer` allows. The marks
    of either follow each other; the first of `end` ends the free text.

    instead: what may stand in the place of all that is before the answer; empty: nothing; None:
             that must come
    cut_by:  special tokens that end the free text, too, where the answer begins with one

    ValueError where `begin`, or `instead`, does not begin with a special token, and must.
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
    """Which tokens of a vocabulary may end items; made once for each vocabulary."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class DistinctRoom:
    """How many values an array's items may have: so many that whatever was begun can be ended
    anew; so many that there are always more; or few."""

    FREE: DistinctRoom
    ENDLESS: DistinctRoom
    FEW: DistinctRoom

class DistinctPlace:
    """What is known of the values at a place of a schema.

    is_distinct: an array's items must differ
    room:        how many values its items may have
    prefix, rest, properties, other: the places, by number, of an array's items and of an object's
                 values by their names as JSON strings; -1: nothing within must differ
    is_even:     the items behind the prefix are all of one kind; else what may follow depends on
                 the items before
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
    ) -> None: ...

class DistinctPlaces:
    """All places of a text's schemas, the first that of the whole text where it is JSON. ValueError
    for numbers of places that do not exist."""

    def __init__(self, places: Sequence[DistinctPlace]) -> None: ...

class TokenTrie:
    """The tokens of a vocabulary as a tree of their bytes."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class AutomatonPool:
    """Bounds the memory of several grammars' states together: the states of those used longest ago
    are forgotten, and found again where they are needed."""

    def __init__(self, most_bytes: int) -> None: ...
    @property
    def num_bytes(self) -> int:
        """Bytes that the states take now."""

class Endings:
    """How the texts of a grammar end; see csrc/endings/. Raises ValueError for what it cannot read.

    form:     "lark" or "ebnf", the language of the text
    is_exact: the text has what its matchers take and nothing else, so that they share rows where
              their texts go on alike
    may_wait: the ends are found only when they are asked for, where what the grammar says plainly
              is enough till then
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
        """Find the ends, if nobody has. Whatever else is asked here does so, too, if it must."""
    @property
    def is_built(self) -> bool:
        """Whether they have been found."""
    @property
    def is_endless(self) -> bool:
        """Whether no text ends; False where that is not known yet."""
    @property
    def most_least(self) -> int:
        """A bound of the shortest text's tokens, its end token included; told at once."""
    @property
    def is_exact(self) -> bool:
        """As it was given, unless a part was too large to be told in full."""
    @property
    def num_shared(self) -> int:
        """Number of rows that were copied from another place where the text goes on alike."""
    @property
    def num_least(self) -> int:
        """Number of tokens of the shortest text, its end token included; -1: no text ends."""
    def num_missing(self, text: bytes) -> int:
        """The `num_least` behind the beginning of a text; -1 also where no text begins so."""

class EndingMatcher(Matcher):
    """What a matcher allows, so that the end token is among the first `max_tokens`.

    num_spare: tokens by which ends may be farther than `endings` say
    may_go_on: the last token may be any behind which the text may end
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
        """Number of tokens of an end from here on that is found in time, the end token included; -1
        where none is."""

class DistinctMatcher(Matcher):
    """What `inner` allows, a matcher of texts with JSON in them, without items that repeat one of
    their array where they must differ.

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
    """Which tokens of a vocabulary may hold or end keys; made once for each vocabulary."""

    def __init__(self, vocabulary: NativeVocabulary) -> None: ...

class UnnamedKeys:
    """Which keys an object takes that its place does not name: none, some, or any."""

    NONE: UnnamedKeys
    SOME: UnnamedKeys
    ANY: UnnamedKeys

class KeyOption:
    """One of the objects that a place allows. Names are JSON strings, as the grammar spells them.

    allowed:     the names of its place that it may have
    required:    the names that it must have
    least, most: bounds of its number of keys; None: there is none
    unnamed:     which other keys it takes
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
    """What is known of the values at a place of a schema.

    options: the objects that may stand there, 64 at most
    names, other, prefix, rest: the places, by number, of an object's values by their names, and of
                                an array's items; -1: anything may stand there
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
    """What `inner` allows, a matcher of texts whose objects take each key any number of times in
    any order, with no key twice and all that are required."""

    def __init__(
        self, inner: Matcher, tokens: KeyTokens, places: KeyPlaces, starts: KeyStarts
    ) -> None: ...

class HeldTexts:
    """Marks of arguments that are written one by one, of which some are texts that may have what
    begins a call.

    before:      the texts in front of an argument's name, in the bytes of KeyStarts
    behind_name: what stands between the name and the value
    begin, end:  stand around such a text, and around no other value
    after:       what stands behind each value

    ValueError where one of them is empty.
    """

    def __init__(
        self, *, before: Sequence[bytes], behind_name: bytes, begin: bytes, end: bytes, after: bytes
    ) -> None: ...

class CallArguments:
    """How the end of a call's arguments is found. SEARCHED: it is not, for what begins a call is in
    no arguments, or in held texts alone; JSON: they are one JSON value; BRACKETED: a closing
    bracket ends them, and those within are in pairs, or in JSON's strings or single quotes."""

    SEARCHED: CallArguments
    JSON: CallArguments
    BRACKETED: CallArguments

class Calls:
    """What matchers share of messages with tool calls whose arguments have grammars of their own.

    before:    the texts in front of the names of tools, and of nothing else, in the bytes of
               KeyStarts
    names:     the names, each up to the first byte of what is between it and the arguments, or the
               special token; and the number of the tool
    gate:      before it has come no call begins; b"": calls may begin at once
    lead:      what is between name and arguments behind that; None: nothing is between these, and
               arguments begin with a special token, which `names` have
    arguments: how their end is found
    held:      marks of texts that may have what begins a call; None: there are none
    has_part:  by the number of a tool, whether its arguments have a grammar of their own
    reaching:  all tokens that may reach from a tool's name into its arguments
    part:      given a tool's number and what is to come before its arguments, makes a native
               matcher of the rest of a message; given -1, one of a whole message

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
    """Messages with tool calls; a part is asked for when a call has come as far as its tool's
    name."""

    def __init__(self, calls: Calls) -> None: ...

class XGrammarLibrary:
    """xgrammar's functions in the TVM-FFI type table; `tvm_ffi_path` is the shared library of
    tvm_ffi."""

    def __init__(self, tvm_ffi_path: str) -> None: ...
    def grammar(self, vocabulary: NativeVocabulary, handle: int) -> NativeGrammar: ...

class LLGuidanceLibrary:
    """llguidance's C interface, found in the extension module at `path`."""

    def __init__(self, path: str) -> None: ...

class LLGuidanceLimits:
    """How much of llguidance's work a grammar may take, by the library's own names.

    max_items_in_row:   items of its Earley parser at one place in the text
    step_max_items:     items made for one row of what may follow
    initial_lexer_fuel: steps of its lexer to compile a grammar, and to walk a text without asking
                        for rows
    step_lexer_fuel:    steps of its lexer for one row
    max_lexer_states:   states of the lexer of a matcher and those that were cloned from it
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
    """A vocabulary as llguidance wants it."""

    def __init__(self, library: LLGuidanceLibrary, vocabulary: NativeVocabulary) -> None: ...
    def compile(self, lark: str, usual: LLGuidanceLimits, more: LLGuidanceLimits) -> NativeGrammar:
        """A grammar whose matchers go on with `more` where they meet one of the `usual` limits."""

def cuda_unavailable_reason() -> str | None:
    """Why there is no CUDA, in words; None: its entry points were found."""

def drain_releases() -> None:
    """Wait until payloads that streams have let go of are released."""

def set_num_cores(count: int) -> None:
    """Say how many cores this process may keep busy. With up to 4, threads that wait sleep soon."""

class AttentionPass:
    """Where the tokens of a pass stand (csrc/cpu/attention.h). Tensors are given by their address,
    which must stay good.

    position_ids:    int64 [T]
    block_table:     int32 [num_seqs, max_pages], rows `table_stride` apart
    query_start_loc: int32 [num_seqs + 1]
    seq_lens:        int32 [num_seqs]
    ancestors:       of a tree, uint8 [num_seqs, Q, num_nodes]; else 0, as are the next two
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
    ) -> None:
        """Attend, given the addresses of float32 tensors as AttentionPlan.run has them. sinks: 0:
        there are none; window: 0: there is none"""

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
    """add_rms_norm, or rms_norm where residual and total are 0, given addresses of float32 rows
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
    """rope_and_store, given addresses of float32 rows, and of slot_mapping int64; strides count
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
