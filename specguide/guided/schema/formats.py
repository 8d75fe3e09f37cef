"""Owns the string formats of JSON Schema as regular expressions, and the bounds of their lengths.

An expression matches well-formed strings only, so generated strings always have their format. Left
out is what no regular expression can check: host names with `--` as third and fourth characters
(they are encoded, and some decode to nothing), letters whose place in an international name depends
on others (joiners, most combining marks), deeply nested groups of a regular expression. Left out,
too, is what most programs refuse: leap seconds, numbers of more than six digits in durations.
Sources: RFC 3339 (dates and times, durations), 5321 and 6531 (email), 1123 and 5890 to 5893 (host
names), 4291 (IPv6), 4122 (UUID), 3986 and 3987 (URI, IRI), 6570 (URI template), 6901 (JSON
pointer), 4648 (base64), ECMA-262 (regular expressions); pydantic for formats that only it has.
"""

from __future__ import annotations

from specguide.guided.schema.regex_format import REGEX

_NOT_YEAR_0 = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = (
    r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|"
    r"(?:0[48]|[2468][048]|[13579][26])00)"
)
_DATE = (
    rf"(?:{_NOT_YEAR_0}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    rf"02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,9}})?(?:[Zz]|[+-]{_HOUR_MINUTE})"
_N = "[0-9]{1,6}"
_CLOCK = rf"(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S)"
_CALENDAR = rf"(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)"
_DURATION = rf"P(?:{_CALENDAR}(?:T{_CLOCK})?|T{_CLOCK}|{_N}W)"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_GROUP = r"[0-9a-fA-F]{1,4}"


def _ipv6() -> str:
    """Eight groups, of which the last two may be IPv4; or fewer around a `::`, which stands for at
    least one group."""
    forms = [rf"(?:{_GROUP}:){{6}}(?:{_GROUP}:{_GROUP}|{_IPV4})"]
    for left in range(8):
        before = rf"{_GROUP}(?::{_GROUP}){{{left - 1}}}" if left else ""
        after = [rf"(?:{_GROUP}:){{0,{6 - left}}}{_GROUP}"] if left < 7 else []
        after += [rf"(?:{_GROUP}:){{0,{5 - left}}}{_IPV4}"] if left < 6 else []
        forms.append(rf"{before}::" + (f"(?:{'|'.join(after)})?" if after else ""))
    return "|".join(forms)


_IPV6 = _ipv6()

_SIGN = r"[a-zA-Z0-9]"


def _label(most: int) -> str:
    """A label of a host name: up to `most` characters, of which the third and fourth are not both
    hyphens."""
    return (
        rf"{_SIGN}(?:[a-zA-Z0-9-]?{_SIGN}"
        rf"|[a-zA-Z0-9-](?:{_SIGN}[a-zA-Z0-9-]{{0,{most - 4}}}{_SIGN}|"
        rf"-{_SIGN}(?:[a-zA-Z0-9-]{{0,{most - 5}}}{_SIGN})?))?"
    )


_HOSTNAME = rf"{_label(63)}(?:\.{_label(63)})*"

# Letters that need no neighbours and are written left to right; such a name, encoded, has at most
# 63 bytes.
_LETTER = "ß-öø-ÿά-ώа-џա-ֆა-ჺऄ-हก-ะሀ-ቈ々ぁ-ゖァ-ヺー㐀-䶿一-鿿가-힣"
_RIGHT_TO_LEFT = r"א-תؠ-ؿف-ي"
_IDN_LABEL = rf"(?:{_label(56)}|[a-z0-9{_LETTER}]{{1,12}})"
_RTL_LABEL = rf"(?:[{_RIGHT_TO_LEFT}]{{1,12}}|[a-z][a-z0-9]{{0,12}})"
_DOT = r"[.。．｡]"
_IDN_HOSTNAME = (
    rf"{_HOSTNAME}|{_IDN_LABEL}(?:{_DOT}{_IDN_LABEL}){{0,3}}"
    rf"|{_RTL_LABEL}(?:{_DOT}{_RTL_LABEL}){{0,3}}"
)

_ATOM = r"a-zA-Z0-9!#$%&'*+/=?^_`{|}~\-"
_QUOTED = r"""\"(?:[ !#-\[\]-~]{0,62}|(?:[ !#-\[\]-~]|\\[ -~]){0,31})\""""
_LITERAL = rf"\[(?:{_IPV4}|IPv6:(?:{_IPV6}))\]"
_EMAIL = rf"(?:[{_ATOM}]+(?:\.[{_ATOM}]+)*|{_QUOTED})@(?:{_HOSTNAME}|{_LITERAL})"
_SHORT_LOCAL = r'(?:[^"@]{1,64}|".*")@.*'
# For the email formats without a separate length bound: the part before the @ has at most 64 bytes,
# up to four a character.
_LOCAL = rf"[{_ATOM}]{{1,64}}|[{_ATOM}](?:\.?[{_ATOM}]){{0,31}}"
_IDN_ATOM = rf"[{_ATOM}\x80-\u{{10FFFF}}]"
_IDN_LOCAL = rf"{_IDN_ATOM}{{1,16}}|{_IDN_ATOM}(?:\.?{_IDN_ATOM}){{0,7}}"
_IDN_EMAIL = (
    rf"(?:{_LOCAL}|{_IDN_LOCAL}|{_QUOTED})@(?:{_IDN_LABEL}(?:{_DOT}{_IDN_LABEL}){{0,3}}|{_LITERAL})"
)

_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"


def _uuid(version: int) -> str:
    """A UUID of a version, in the variant of RFC 4122."""
    return rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}"


def _ipv4_network() -> str:
    """An address with a prefix length, in which all bits after the prefix are 0."""
    forms = [rf"{_IPV4}(?:/32)?"]
    for length in range(32):
        num_whole, num_bits = divmod(length, 8)
        step = 256 >> num_bits
        byte = "|".join(str(value) for value in range(0, 256, step))
        before = rf"(?:{_BYTE}\.){{{num_whole}}}" if num_whole else ""
        forms.append(rf"{before}(?:{byte})(?:\.0){{{3 - num_whole}}}/{length}")
    return "|".join(forms)


def _ipv6_network() -> str:
    """An address with a prefix length: the groups of the prefix, then zeros."""
    forms = [rf"(?:{_IPV6})(?:/128)?", "::/0"]
    for length in range(1, 128):
        num_whole, num_bits = divmod(length - 1, 16)
        num_digits, num_bits = divmod(num_bits + 1, 4)
        values = "".join(f"{value:x}" for value in range(0, 16, 16 >> num_bits))
        digit = f"[{values}{values[10:].upper()}]" if num_bits else ""
        zeros = "0" * (4 - num_digits - bool(digit))
        group = rf"{_HEX}{{0,{num_digits}}}{digit}{zeros}" if zeros or digit else _GROUP
        before = rf"(?:{_GROUP}:){{{num_whole}}}" if num_whole else ""
        behind = "(?:::|:0)" if num_whole == 6 else "::" if num_whole < 6 else ""
        forms.append(rf"{before}{group}{behind}/{length}")
    return "|".join(forms)


_LENGTH_4 = "(?:3[0-2]|[12]?[0-9])"
_LENGTH_6 = "(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"
_IPV4_INTERFACE = rf"{_IPV4}(?:/{_LENGTH_4})?"
_IPV6_INTERFACE = rf"(?:{_IPV6})(?:/{_LENGTH_6})?"
_IPV4_NETWORK, _IPV6_NETWORK = _ipv4_network(), _ipv6_network()

_ENCODED = r"%[0-9a-fA-F]{2}"
_UCS = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
)
_UNRESERVED = r"a-zA-Z0-9._~\-"
_PRIVATE = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"


def _uri(more: str = "", more_in_query: str = "") -> tuple[str, str]:
    """Returns the expressions of a URI and of a relative reference.

    more:          non-ASCII characters that are allowed everywhere, as part of a character class
    more_in_query: the same, in queries only
    """
    plain = rf"a-zA-Z0-9._~!$&'()*+,;=\-{more}"
    char = rf"(?:[{plain}:@]|{_ENCODED})"
    first = rf"(?:[{plain}@]|{_ENCODED})"
    in_brackets = rf"(?:{_IPV6}|[vV][0-9a-fA-F]+\.[{_UNRESERVED}!$&'()*+,;=:]+)"
    host = rf"(?:\[{in_brackets}\]|(?:[{plain}]|{_ENCODED})*)"
    authority = rf"//(?:(?:[{plain}:]|{_ENCODED})*@)?{host}(?::[0-9]*)?(?:/{char}*)*"
    rootless = rf"{char}+(?:/{char}*)*"
    tail = (
        rf"(?:\?(?:[{plain}:@/?{more_in_query}]|{_ENCODED})*)?"
        rf"(?:#(?:[{plain}:@/?]|{_ENCODED})*)?"
    )
    return (
        rf"[a-zA-Z][a-zA-Z0-9+.-]*:(?:{authority}|/(?:{rootless})?|{rootless})?{tail}",
        rf"(?:{authority}|/(?:{rootless})?|{first}+(?:/{char}*)*)?{tail}",
    )


_URI, _RELATIVE = _uri()
_IRI, _IRI_RELATIVE = _uri(_UCS, _PRIVATE)
_VARIABLE_CHAR = rf"(?:[a-zA-Z0-9_]|{_ENCODED})"
_VARIABLE = rf"{_VARIABLE_CHAR}+(?:\.{_VARIABLE_CHAR}+)*(?:\*|:[1-9][0-9]{{0,3}})?"
_TEMPLATE = (
    rf"(?:[!#$&'()*+,./0-9:;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}-]|{_ENCODED}|"
    rf"\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
_POINTER = r"(?:/(?:[^/~]|~[01])*)*"

# What the URI grammar calls an authority, but with several hosts, each with a port.
_PORT = "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
_HOST = rf"(?:{_label(63)}(?:\.{_label(63)})*)"
_USER = rf"(?:[{_UNRESERVED}]|{_ENCODED})+"
_MULTI_HOST = (
    rf"[a-zA-Z][a-zA-Z0-9+.-]*://(?:{_USER}(?::{_USER})?@)?{_HOST}{_PORT}(?:,{_HOST}{_PORT})*"
    rf"(?:/(?:[{_UNRESERVED}/]|{_ENCODED})*)?(?:\?(?:[{_UNRESERVED}=&]|{_ENCODED})*)?"
)
_NAME = r"[a-zA-Z]+\.?(?:[ -][a-zA-Z]+\.?)*"
_TOP = "(?:[a-zA-Z]{2,3}|info|name|mobi|tech|shop|cloud|store|online)"
_PLAIN_EMAIL = rf"(?:{_LOCAL})@(?:{_label(60)}\.){{1,3}}{_TOP}"
_BASE64 = "(?:{0}{{4}})*(?:{0}[AQgw]==|{0}{{2}}[AEIMQUYcgkosw048]=)?"
_WHOLE = "[1-9][0-9]{0,17}"

PYDANTIC_FORMATS = {
    **{f"uuid{version}": _uuid(version) for version in (1, 3, 4, 5, 6, 7, 8)},
    "ipvanyaddress": f"{_IPV4}|{_IPV6}",
    "ipv4interface": _IPV4_INTERFACE,
    "ipv6interface": _IPV6_INTERFACE,
    "ipvanyinterface": f"{_IPV4_INTERFACE}|{_IPV6_INTERFACE}",
    "ipv4network": _IPV4_NETWORK,
    "ipv6network": _IPV6_NETWORK,
    "ipvanynetwork": f"{_IPV4_NETWORK}|{_IPV6_NETWORK}",
    "name-email": rf"{_PLAIN_EMAIL}|{_NAME} <{_PLAIN_EMAIL}>",
    "multi-host-uri": _MULTI_HOST,
    "base64": _BASE64.format("[A-Za-z0-9+/]"),
    "base64url": _BASE64.format("[A-Za-z0-9_-]"),
    "fraction": rf"-?(?:0|{_WHOLE})(?:/{_WHOLE})?",
}
"""Formats that pydantic writes and no draft of JSON Schema defines, as pydantic reads them."""

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "idn-email": _IDN_EMAIL,
    "hostname": _HOSTNAME,
    "idn-hostname": _IDN_HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": _UUID,
    "uri": _URI,
    "iri": _IRI,
    "uri-reference": f"{_URI}|{_RELATIVE}",
    "iri-reference": f"{_IRI}|{_IRI_RELATIVE}",
    "uri-template": _TEMPLATE,
    "json-pointer": _POINTER,
    "regex": REGEX,
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
    **PYDANTIC_FORMATS,
}
"""Format name → regular expression for the whole string. Other formats assert nothing (JSON Schema
Validation, 7.2.3)."""

FORMATS_ALSO = {"email": _SHORT_LOCAL}
"""Expressions that strings of some formats match as well; one expression for both would be long."""

FORMAT_LENGTHS = {"hostname": 253, "idn-hostname": 253, "email": 254}
"""The greatest lengths, in characters, of strings of some formats."""

SHORT_FORMATS = {
    "email": rf"(?:{_LOCAL})@{_label(60)}(?:\.{_label(60)}){{0,2}}",
    "idn-email": rf"(?:{_LOCAL}|{_IDN_LOCAL})@{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,2}}",
    "hostname": rf"{_label(60)}(?:\.{_label(60)}){{0,3}}",
    "idn-hostname": rf"{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,3}}",
}
"""Shorter expressions for the formats above: they match fewer strings and need no length bound, so
that a library can combine them with other expressions."""

FORMATS_AT_MOST = {
    "date": "^[0-9W-]+$",
    "time": "^[0-9]",
    "date-time": "^[0-9]",
    "duration": "^[+-]?P",
    "email": "@",
    "idn-email": "@",
    "hostname": "^[A-Za-z0-9._-]+$",
    "ipv4": "^[0-9.]+$",
    "ipv6": ":",
    "uuid": "[0-9A-Fa-f]{8}",
    "uri": ":",
    "iri": ":",
    "uri-reference": r"^[^\t\n\r]*$",
    "iri-reference": r"^[^\t\n\r]*$",
    "json-pointer": "^(?:$|/)",
    "relative-json-pointer": "^[0-9]",
}
"""Expressions that every string of a format matches under any reading of the format: a string that
fails one surely fails the format."""

MATCHED_IN_PART = frozenset(
    {"date-time", "time", "duration", "hostname", "idn-hostname", "idn-email", "uri-template"}
    | {"regex", *PYDANTIC_FORMATS}
)
"""Formats of which our expressions leave some strings out."""
