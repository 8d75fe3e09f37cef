"""Owns the string formats of JSON Schema as regular expressions, and what bounds their lengths.

Each expression matches well-formed strings only, so what is generated under a format has it. What
no regular expression can tell is left out: host names whose third and fourth characters are `--`
(they are encoded, and some decode to nothing), letters whose place in an international name depends
on others (joiners, most combining marks), groups inside groups of a regular expression; and leap
seconds, which most programs refuse. Sources: RFC 3339 (dates and times, durations), 5321 and 6531
(email), 1123 and 5890 to 5893 (host names), 4291 (IPv6), 4122 (UUID), 3986 and 3987 (URI, IRI),
6570 (URI template), 6901 (JSON pointer), ECMA-262 (regular expressions).
"""

from __future__ import annotations

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
_TIME = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,9}})?(?:Z|[+-]{_HOUR_MINUTE})"
_CLOCK = r"(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_CALENDAR = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = rf"P(?:{_CALENDAR}(?:T{_CLOCK})?|T{_CLOCK}|[0-9]+W)"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_GROUP = r"[0-9a-fA-F]{1,4}"


def _ipv6() -> str:
    """Eight groups, the last two maybe as IPv4; or fewer around a `::`, which stands for one group
    at least."""
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
    """A label of a host name, of up to `most` characters, the third and fourth not both hyphens."""
    return (
        rf"{_SIGN}(?:[a-zA-Z0-9-]?{_SIGN}"
        rf"|[a-zA-Z0-9-](?:{_SIGN}[a-zA-Z0-9-]{{0,{most - 4}}}{_SIGN}|"
        rf"-{_SIGN}(?:[a-zA-Z0-9-]{{0,{most - 5}}}{_SIGN})?))?"
    )


_HOSTNAME = rf"{_label(63)}(?:\.{_label(63)})*"

# Letters that stand alone and are written left to right; encoded, a name of them has 63 bytes at
# most.
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
# For the email formats without a bound beside them: the part before the @ has 64 bytes at most,
# four a character.
_LOCAL = rf"[{_ATOM}]{{1,64}}|[{_ATOM}](?:\.?[{_ATOM}]){{0,31}}"
_IDN_ATOM = rf"[{_ATOM}\x80-\u{{10FFFF}}]"
_IDN_LOCAL = rf"{_IDN_ATOM}{{1,16}}|{_IDN_ATOM}(?:\.?{_IDN_ATOM}){{0,7}}"
_IDN_EMAIL = (
    rf"(?:{_LOCAL}|{_IDN_LOCAL}|{_QUOTED})@(?:{_IDN_LABEL}(?:{_DOT}{_IDN_LABEL}){{0,3}}|{_LITERAL})"
)

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

_ENCODED = r"%[0-9a-fA-F]{2}"
_UCS = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
)
_UNRESERVED = r"a-zA-Z0-9._~\-"
_PRIVATE = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"


def _uri(more: str = "", more_in_query: str = "") -> tuple[str, str]:
    """A URI and a relative reference. more: characters beside the ASCII ones, in a class of a
    regular expression"""
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

_PLAIN = r"[^\x00-\x1f\\^$.|?*+()\[\]{}]"
_ESCAPED = r"\\[dDwWsSnrt.*+?()\[\]{}|^$\\/]"
_CLASS = r"\[\^?(?:a-z|A-Z|0-9|[a-zA-Z0-9_.]|\\[dws])+\]"
_TIMES = r"(?:[*+?]|\{[1-9][0-9]?\})?"
_ITEM = rf"(?:{_PLAIN}|{_ESCAPED}|{_CLASS}|\.){_TIMES}"
_REGEX_GROUP = rf"\((?:\?:)?(?:{_ITEM})*(?:\|(?:{_ITEM})*)*\){_TIMES}"
_REGEX = rf"\^?(?:{_ITEM}|{_REGEX_GROUP})*(?:\|(?:{_ITEM}|{_REGEX_GROUP})*)*\$?"

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
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
    "regex": _REGEX,
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}
"""Format name → regular expression for the whole string. Other names carry no assertion, as the
specification says."""

FORMATS_ALSO = {"email": _SHORT_LOCAL}
"""What strings of some formats match besides; together in one expression they would be long."""

FORMAT_LENGTHS = {"hostname": 253, "idn-hostname": 253, "email": 254}
"""The most characters that strings of some formats have."""

SHORT_FORMATS = {
    "email": rf"(?:{_LOCAL})@{_label(60)}(?:\.{_label(60)}){{0,2}}",
    "idn-email": rf"(?:{_LOCAL}|{_IDN_LOCAL})@{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,2}}",
    "hostname": rf"{_label(60)}(?:\.{_label(60)}){{0,3}}",
    "idn-hostname": rf"{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,3}}",
}
"""Expressions for less of the formats above, with no bound beside them: what a library can put
together with others."""

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
"""What every string of a format matches, whoever reads the format: others fail it for certain."""

TOLD_IN_PART = frozenset(
    {"date-time", "time", "hostname", "idn-hostname", "idn-email", "uri-template", "regex"}
)
"""Formats that have strings which the expressions leave out."""
