"""Owns the settings of an API server."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_letters, digits

from specguide.config.guide import MOST_BYTES
from specguide.errors import InvalidParams
from specguide.inputs.field_values import check_types

METRICS_NAMES = ("specguide", "vllm")
SAMPLING_DEFAULTS = ("model", "openai")
API_KEYS_VARIABLE = "SPECGUIDE_API_KEY"
"""Environment variable with API keys, separated by spaces, for a server that is given none."""
COUNTS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of fronts that makes prometheus_client count over several processes. It
names a folder in which each process keeps its counts, and which outlives the process. The library
reads it when it is imported."""
SERVED_ENGINE = {"max_batch_size": 64}
SERVED_GUIDES = {"isolate_compiles": True}
"""Defaults of an engine that serves which differ from the engine's own: its guides come from
strangers."""
_CHOICES = {"metrics_names": METRICS_NAMES, "sampling_defaults": SAMPLING_DEFAULTS}
_OF_HEADER_NAMES = frozenset(ascii_letters + digits + "!#$%&'*+-.^_`|~")
_AT_LEAST_ONE = ("api_servers", "max_connections")
"""Numbers that must be at least 1, or nobody could be served; others may be 0."""
_AT_MOST = {"api_servers": 1024, "template_timeout_s": 86_400, "template_max_bytes": MOST_BYTES}
"""Most processes that a machine has room for, and the largest limits of a process that the system
accepts."""


def model_name(model: str | Path | None) -> str:
    """The model's default name in the API: its folder's name."""
    return "specguide-small" if model is None else Path(model).resolve().name


def _is_origin(text: str) -> bool:
    """Whether a text is an origin as browsers send it, or "*" for all."""
    scheme, _, host = text.partition("://")
    is_written = bool(scheme and host) and "/" not in host and text == text.lower()
    return text in ("*", "null") or (is_written and text.split() == [text])


def _is_http_url(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    return scheme in ("http", "https") and rest[:1] not in ("", "/") and text.split() == [text]


_BODY_BYTES, _BODY_BYTES_WITH_IMAGES = 4 << 20, 64 << 20


@dataclass(frozen=True)
class Exposure:
    """The server's settings for access from outside.

    allowed_origins: origins whose web pages may send requests (CORS), such as https://example.org;
                     "*": all. May be repeated on the command line
    allow_credentials: these web pages may send cookies
    root_path:       path under which a proxy serves this server, such as /llm; the proxy may strip
                     it or not
    ssl_certfile:    file with the server's certificate and its certificate chain: HTTPS instead of
                     HTTP
    ssl_keyfile:     file with the certificate's key, if it is not in ssl_certfile
    ssl_ca_certs:    file with certificates of authorities: each client must then show a certificate
                     that one of them has signed
    protect_metrics: /metrics and /load need an API key too
    otlp_traces_endpoint: URL to which trace spans are sent, such as
                          http://127.0.0.1:4318/v1/traces; OTLP over HTTP
    """

    allowed_origins: tuple[str, ...] = ()
    allow_credentials: bool = False
    root_path: str = ""
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_ca_certs: Path | None = None
    protect_metrics: bool = False
    otlp_traces_endpoint: str | None = None

    def __post_init__(self) -> None:
        check_types(self)
        path = self.root_path
        if path and (path[0] != "/" or path[-1] == "/"):
            raise InvalidParams(
                f"root_path {self.root_path!r} must begin with / and not end with it",
                param="root_path",
            )
        for origin in self.allowed_origins:
            if not _is_origin(origin):
                raise InvalidParams(
                    "allowed_origins must be * or as browsers send them, in lower case and "
                    "without a path, as https://example.org or http://localhost:3000; found "
                    f"{origin!r}",
                    param="allowed_origins",
                )
        if self.allow_credentials and not self.allowed_origins:
            raise InvalidParams(
                "allow_credentials needs allowed_origins beside it", param="allow_credentials"
            )
        endpoint = self.otlp_traces_endpoint
        if endpoint is not None and not _is_http_url(endpoint):
            raise InvalidParams(
                f"otlp_traces_endpoint must be a URL, as http://127.0.0.1:4318/v1/traces; found "
                f"{endpoint!r}",
                param="otlp_traces_endpoint",
            )
        for name in ("ssl_keyfile", "ssl_ca_certs"):
            if getattr(self, name) is not None and self.ssl_certfile is None:
                raise InvalidParams(f"{name} needs ssl_certfile beside it", param=name)

    @property
    def open_metrics(self) -> tuple[str, ...]:
        """The paths of figures that need no API key."""
        return () if self.protect_metrics else ("/metrics", "/load")

    @property
    def scheme(self) -> str:
        """The scheme of the server's URLs."""
        return "http" if self.ssl_certfile is None else "https"


@dataclass(frozen=True)
class ServerConfig:
    """Address, names and limits of an API server.

    model_name:     the model's name in requests and answers; on the command line, left out: the
                    folder's name. Further names may follow it there, which are aliases
    model_aliases:  further names of the model. May be repeated on the command line
    host:           address to listen on; 0.0.0.0 for all of IPv4, :: for all
    port:           port to listen on; 0: a free one, which is printed
    max_waiting:    requests that may wait in addition to the max_batch_size that run; further ones
                    are answered with 429
    max_wait_s:     longest time for which a request may wait until it runs, seconds; one that would
                    probably wait longer is answered with 429, which says when to try again; left
                    out: no limit
    client_header:  header that names the client, which a proxy sets; clients that wait take turns.
                    Left out, or where a request lacks it: its API key names the client
    api_keys:       keys of which a request must have one; none: anybody may send requests. May be
                    repeated on the command line; in the variable several are separated by spaces
    tool_format:    how the model writes tool calls: a name under grammars/tool_calls; left out: the
                    chat template determines it
    exclude_uncallable_tools: where tool_choice is none, tools are left out of the prompt; else they
                              stay in it, so that a conversation's beginning stays the same
    reasoning_format: how the model writes its reasoning: a name under grammars/reasoning, "none"
                      for a model that does not reason; left out: the chat template determines it
    max_body_bytes: largest request body, bytes; left out: 4 MiB, or 64 MiB where the model reads
                    images
    max_tools:      most tools of a request
    allow_special_tokens: special tokens that users' messages spell become these tokens; else they
                          are text. A request may override it; in the prompt of a completion they
                          are always tokens
    drain_s:        longest time that requests under way get to finish when the server is stopped,
                    seconds
    api_servers:    front processes, which serve HTTP beside the engine's own process
    restart:        start the engine's process again where it ends; else the command ends with it
    log_requests:   write a line of JSON on standard error for each request that has ended, or was
                    refused
    disable_uvicorn_access_log: leave out the access log, which has a line for each answer
    strict_fields:  unknown fields of requests are refused; else they are accepted, and the header
                    x-specguide-ignored names them
    openai_strict:  schemas with strict: true are refused where they are outside OpenAI's subset of
                    JSON Schema; else strict has no effect, since schemas are always enforced
    closed_objects: objects of JSON schemas have no properties except those that are named, unless
                    additionalProperties says otherwise
    sampling_defaults: sampling parameters that requests leave out: "model", as its
                       generation_config.json recommends; "openai", with temperature 1 and top_p 1.
                       Values missing in that file are OpenAI's, too
    metrics_names:  names in /metrics: "specguide"; "vllm": vLLM's as well, where they mean the same

    Of one request, all answered with a 400 that names the field:

    max_body_values:  most commas and texts in a body's JSON, counted before it is parsed; a value
                      has about one of them
    max_samples:      most answers to a request: prompts times n
    max_messages:     most messages of a request
    max_entries:      most entries of each of logit_bias, metadata and stop_token_ids
    max_stop_strings: most stop strings, and most bad words
    max_stop_chars:   longest stop string or bad word, characters

    Of all requests:

    max_bodies_bytes: most bytes of all bodies whose answers have not begun, beyond the first 64 KiB
                      of each; where there is no room, the largest body that is still being sent is
                      answered with 503

    Of chat templates in requests, each of which is rendered in its own process:

    allow_client_templates: requests may have a chat template, as chat_template; else such requests
                            are answered with 400
    template_timeout_s:     longest time to render a request's chat template, seconds; it includes
                            the start of the process that renders it
    template_max_bytes:     most memory of the process that renders a request's chat template, bytes

    Of connections:

    max_connections:  most connections that are open at once, fewer where the process may have fewer
                      files open; a further one is answered with 503 and closed
    header_timeout_s: longest time until a request's header is there, from the start of the
                      connection or the end of the last answer; and for a client's part of the TLS
                      handshake
    body_timeout_s:   longest time from a request's header to its body's end; then 408
    write_timeout_s:  longest time that a client may leave an answer unread, once the socket's
                      buffers are full; then the connection is cut and its request cancelled
    exposure:         the settings for access from outside
    """

    model_name: str
    model_aliases: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    max_waiting: int = 1024
    max_wait_s: float | None = None
    client_header: str | None = None
    api_keys: tuple[str, ...] = ()
    tool_format: str | None = None
    exclude_uncallable_tools: bool = False
    reasoning_format: str | None = None
    max_body_bytes: int | None = None
    max_tools: int = 1024
    allow_special_tokens: bool = False
    drain_s: float = 30.0
    api_servers: int = 1
    restart: bool = False
    log_requests: bool = False
    disable_uvicorn_access_log: bool = False
    strict_fields: bool = False
    openai_strict: bool = False
    closed_objects: bool = False
    sampling_defaults: str = "model"
    metrics_names: str = "specguide"
    max_body_values: int = 500_000
    max_samples: int = 128
    max_messages: int = 4096
    max_entries: int = 512
    max_stop_strings: int = 64
    max_stop_chars: int = 1024
    max_bodies_bytes: int = 256 << 20
    allow_client_templates: bool = False
    template_timeout_s: float = 5.0
    template_max_bytes: int = 256 << 20
    max_connections: int = 4096
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    write_timeout_s: float = 30.0
    exposure: Exposure = field(default_factory=Exposure)

    def __post_init__(self) -> None:
        check_types(self)
        if "" in self.api_keys:
            raise InvalidParams(
                "an API key is empty, so requests without a key would be let in; to need no key, "
                "leave api_keys out",
                param="api_keys",
            )
        header = self.client_header
        if header is not None and not (header and _OF_HEADER_NAMES.issuperset(header)):
            raise InvalidParams(
                f"client_header must be the name of a header, as x-user; found {header!r}",
                param="client_header",
            )
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InvalidParams(
                    f"{name} must be one of {', '.join(known)}; found {getattr(self, name)!r}",
                    param=name,
                )
        if not 0 <= self.port <= 65535:
            raise InvalidParams(f"port must be 0 to 65535, found {self.port}", param="port")
        for name, value in vars(self).items():
            least = int(name in _AT_LEAST_ONE)
            if isinstance(value, int | float) and not value >= least:
                raise InvalidParams(f"{name} must be ≥ {least}, found {value}", param=name)
        for name, most in _AT_MOST.items():
            if getattr(self, name) > most:
                raise InvalidParams(
                    f"{name} must be ≤ {most}, found {getattr(self, name)}", param=name
                )

    def body_limit(self, *, reads_images: bool) -> int:
        """Largest request body, bytes."""
        default = _BODY_BYTES_WITH_IMAGES if reads_images else _BODY_BYTES
        return default if self.max_body_bytes is None else self.max_body_bytes

    @property
    def model_names(self) -> tuple[str, ...]:
        """All names of the model that clients may use."""
        return tuple(dict.fromkeys((self.model_name, *self.model_aliases)))

    def url(self, port: int) -> str:
        """The URL of a server that listens on `host` and this port."""
        host = f"[{self.host}]" if ":" in self.host else self.host  # an address of IPv6
        return f"{self.exposure.scheme}://{host}:{port}"

    @property
    def longest_wait_s(self) -> float:
        """max_wait_s, infinite where it is left out."""
        return math.inf if self.max_wait_s is None else self.max_wait_s
