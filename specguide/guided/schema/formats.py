"""Owns the string formats of JSON Schema as regular expressions.

Each expression matches well-formed strings only, and leaves out rare ones where that makes it regular: hostnames of
more than four labels, leap seconds, IPv4 parts inside IPv6 addresses, letters beyond ASCII in the internationalised
formats, groups inside groups of a regular expression. So what is generated under a format has it. Sources: RFC 3339
(dates and times, durations), 5321 (email), 1123 (hostname), 4291 (IPv6), 4122 (UUID), 3986 (URI), 6570 (URI template),
6901 (JSON pointer), ECMA-262 (regular expressions).
"""

from __future__ import annotations

_NOT_YEAR_0 = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = (r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|"
              r"(?:0[48]|[2468][048]|[13579][26])00)")
_DATE = (rf"(?:{_NOT_YEAR_0}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
         rf"02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)")
_HOUR_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,9}})?(?:Z|[+-]{_HOUR_MINUTE})"
_CLOCK = r"(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_CALENDAR = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = rf"P(?:{_CALENDAR}(?:T{_CLOCK})?|T{_CLOCK}|[0-9]+W)"

_LABEL = r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]){0,30}"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_ATOM = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]"
_EMAIL = rf"{_ATOM}{{1,20}}(?:\.{_ATOM}{{1,13}}){{0,3}}@{_HOSTNAME}"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_GROUP = r"[0-9a-fA-F]{1,4}"
_IPV6 = "|".join(
    [rf"(?:{_GROUP}:){{7}}{_GROUP}", rf"::(?:{_GROUP}(?::{_GROUP}){{0,6}})?"]
    + [rf"{_GROUP}(?::{_GROUP}){{{left - 1}}}::" + (rf"(?:{_GROUP}(?::{_GROUP}){{0,{6 - left}}})?" if left < 7 else "")
       for left in range(1, 8)])
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

_PATH_CHAR = r"(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
_TAIL = rf"(?:\?(?:{_PATH_CHAR}|[/?])*)?(?:#(?:{_PATH_CHAR}|[/?])*)?"
_AUTHORITY = rf"//{_HOSTNAME}(?::[0-9]{{1,5}})?(?:/{_PATH_CHAR}*)*"
_ROOTLESS = rf"{_PATH_CHAR}+(?:/{_PATH_CHAR}*)*"
_URI = rf"[a-zA-Z][a-zA-Z0-9+.-]*:(?:{_AUTHORITY}|{_ROOTLESS}){_TAIL}"
_FIRST_SEGMENT = r"(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+"
_RELATIVE = rf"(?:{_AUTHORITY}|/(?:{_ROOTLESS})?|{_FIRST_SEGMENT}(?:/{_PATH_CHAR}*)*)?{_TAIL}"
_VARIABLE = r"[a-zA-Z0-9_]+(?:\.[a-zA-Z0-9_]+)*(?:\*|:[1-9][0-9]{0,3})?"
_TEMPLATE = (rf"(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?#-]|%[0-9a-fA-F]{{2}}|"
             rf"\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*")
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
    "idn-email": _EMAIL,
    "hostname": _HOSTNAME,
    "idn-hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": _UUID,
    "uri": _URI,
    "iri": _URI,
    "uri-reference": f"(?:{_URI}|{_RELATIVE})",
    "iri-reference": f"(?:{_URI}|{_RELATIVE})",
    "uri-template": _TEMPLATE,
    "json-pointer": _POINTER,
    "regex": _REGEX,
    "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}
"""Format name → regular expression for the whole string. Other names carry no assertion, as the specification says."""
