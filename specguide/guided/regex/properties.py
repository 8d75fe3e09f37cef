"""Owns the Unicode properties in regular expressions: `\\p{Lu}`, `\\p{Script=Greek}`, `\\p{Emoji}`.

Engines have different versions of Unicode. A set has in every dialect those characters of Unicode
12.1 that later versions have not changed, and in some dialect all others that a version may put
there. Categories and names are Python's (`unicodedata`), emoji are those of emoji-data.txt (UTS
#51), and names of properties those of ECMA-262.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from unicodedata import category, name

from specguide.guided.budget import spend
from specguide.guided.regex.charset import (
    EVERYTHING,
    SPACE,
    CharSet,
    Ranges,
    complement,
    exactly,
    intersect,
    union,
)


def _ranges(text: str) -> Ranges:
    """Ranges written in hexadecimal digits."""
    pairs = (item.partition("-") for item in text.split())
    return tuple((int(low, 16), int(high or low, 16)) for low, _, high in pairs)


_UNSETTLED = _ranges(
    "295 558 58b-58c 5c8-5cf 61d 870-89f 8b5 8be-8d2 b53-b55 c3c c5c-c5f cdc-cdd cf3-cff d04 "
    "d81 ece-ecf 170d 1715-171f 1734 180f 1abf-1aff 1b4c-1b4f 1b7d-1b7f 1c89-1c8f 1dfa 208f "
    "209d-209f 20c0-20cf 2427-243f 2b96-2b97 2c2f 2c5f 2e50-2e7f 2ffc-2fff 31bb-31bf "
    "31e4-31ef 4db6-4dbf 9ff0-9fff a7c0-a7c1 a7c7-a7f6 a82c-a82f ab68-ab6f fbc2-fbd2 "
    "fd40-fd4f fd90-fd91 fdc8-fdef fdfe-fdff 10000-1d3ff 1d6a6-1d6a7 1d800-1efff 1f10d-1f10f "
    "1f16d-1f16f 1f1ad-1f1e5 1f6d6-1f6df 1f6fb-1f6ff 1f774-1f77f 1f7d9-1f7df 1f7f0-1f7ff "
    "1f8b0-1f8ff 1f90c 1f972 1f977-1f979 1f9a3-1f9a4 1f9ab-1f9ad 1f9cb-1f9cc 1fa54-1fa5f "
    "1fa74-1fa77 1fa7b-1fa7f 1fa83-1fa8f 1fa96-1ffff 2a6d7-10ffff"
)
"""Characters that are not in Unicode 12.1 or that a later version has changed, and rare ones."""
_OF_SEVERAL_SCRIPTS = _ranges("374 640 64b-655 670 951-954")
"""Characters whose name begins with a script, but which other scripts use, too."""
_EMOJI = _ranges(
    "23 2a 30-39 a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 23cf 23e9-23f3 "
    "23f8-23fa 24c2 25aa-25ab 25b6 25c0 25fb-25fe 2600-2604 260e 2611 2614-2615 2618 261d "
    "2620 2622-2623 2626 262a 262e-262f 2638-263a 2640 2642 2648-2653 265f-2660 2663 "
    "2665-2666 2668 267b 267e-267f 2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab "
    "26b0-26b1 26bd-26be 26c4-26c5 26c8 26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 "
    "26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 2714 2716 271d 2721 2728 2733-2734 2744 "
    "2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 "
    "2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f004 1f0cf 1f170-1f171 1f17e-1f17f 1f18e "
    "1f191-1f19a 1f1e6-1f1ff 1f201-1f202 1f21a 1f22f 1f232-1f23a 1f250-1f251 1f300-1f321 "
    "1f324-1f393 1f396-1f397 1f399-1f39b 1f39e-1f3f0 1f3f3-1f3f5 1f3f7-1f4fd 1f4ff-1f53d "
    "1f549-1f54e 1f550-1f567 1f56f-1f570 1f573-1f57a 1f587 1f58a-1f58d 1f590 1f595-1f596 "
    "1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de 1f5e1 1f5e3 "
    "1f5e8 1f5ef 1f5f3 1f5fa-1f64f 1f680-1f6c5 1f6cb-1f6d2 1f6d5 1f6e0-1f6e5 1f6e9 "
    "1f6eb-1f6ec 1f6f0 1f6f3-1f6fa 1f7e0-1f7eb 1f90d-1f93a 1f93c-1f945 1f947-1f971 "
    "1f973-1f976 1f97a-1f9a2 1f9a5-1f9aa 1f9ae-1f9ca 1f9cd-1f9ff 1fa70-1fa73 1fa78-1fa7a "
    "1fa80-1fa82 1fa90-1fa95"
)
_PRESENTATION = _ranges(
    "231a-231b 23e9-23ec 23f0 23f3 25fd-25fe 2614-2615 2648-2653 267f 2693 26a1 26aa-26ab "
    "26bd-26be 26c4-26c5 26ce 26d4 26ea 26f2-26f3 26f5 26fa 26fd 2705 270a-270b 2728 274c "
    "274e 2753-2755 2757 2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 1f004 1f0cf 1f18e "
    "1f191-1f19a 1f1e6-1f1ff 1f201 1f21a 1f22f 1f232-1f236 1f238-1f23a 1f250-1f251 "
    "1f300-1f320 1f32d-1f335 1f337-1f37c 1f37e-1f393 1f3a0-1f3ca 1f3cf-1f3d3 1f3e0-1f3f0 "
    "1f3f4 1f3f8-1f43e 1f440 1f442-1f4fc 1f4ff-1f53d 1f54b-1f54e 1f550-1f567 1f57a "
    "1f595-1f596 1f5a4 1f5fb-1f64f 1f680-1f6c5 1f6cc 1f6d0-1f6d2 1f6d5 1f6eb-1f6ec "
    "1f6f4-1f6fa 1f7e0-1f7eb 1f90d-1f93a 1f93c-1f945 1f947-1f971 1f973-1f976 1f97a-1f9a2 "
    "1f9a5-1f9aa 1f9ae-1f9ca 1f9cd-1f9ff 1fa70-1fa73 1fa78-1fa7a 1fa80-1fa82 1fa90-1fa95"
)
_BASES = _ranges(
    "261d 26f9 270a-270d 1f385 1f3c2-1f3c4 1f3c7 1f3ca-1f3cc 1f442-1f443 1f446-1f450 "
    "1f466-1f478 1f47c 1f481-1f483 1f485-1f487 1f48f 1f491 1f4aa 1f574-1f575 1f57a 1f590 "
    "1f595-1f596 1f645-1f647 1f64b-1f64f 1f6a3 1f6b4-1f6b6 1f6c0 1f6cc 1f90f 1f918-1f91f "
    "1f926 1f930-1f939 1f93c-1f93e 1f9b5-1f9b6 1f9b8-1f9b9 1f9bb 1f9cd-1f9cf 1f9d1-1f9dd"
)
_COMPONENTS = _ranges("23 2a 30-39 200d 20e3 fe0f 1f1e6-1f1ff 1f3fb-1f3ff 1f9b0-1f9b3 e0020-e007f")
_EMOJI_PROPERTIES = {
    "Emoji": _EMOJI,
    "Emoji_Presentation": _PRESENTATION,
    "Emoji_Modifier_Base": _BASES,
    "Emoji_Modifier": _ranges("1f3fb-1f3ff"),
    "Emoji_Component": _COMPONENTS,
    "Extended_Pictographic": intersect(_EMOJI, complement(_COMPONENTS)),
}
_EXACT = {
    "Any": exactly(*EVERYTHING),
    "ASCII": exactly((0, 0x7F)),
    "ASCII_Hex_Digit": exactly((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "Regional_Indicator": exactly((0x1F1E6, 0x1F1FF)),
    "White_Space": exactly((0x85, 0x85), *SPACE.inner),
}
_MAY_BECOME_EMOJI = ("S",)
_BINARY = {
    "Alphabetic": (("L", "Nl"), ("M", "So")),
    "Lowercase": (("Ll",), ("L", "M", "Nl", "So")),
    "Uppercase": (("Lu",), ("L", "M", "Nl", "So")),
}
"""For each property, the categories of which all characters have it, and those of which others
may."""
_CATEGORIES = {
    **{"L": "Letter", "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter"},
    **{"Lm": "Modifier_Letter", "Lo": "Other_Letter", "M": "Mark", "Mn": "Nonspacing_Mark"},
    **{"Mc": "Spacing_Mark", "Me": "Enclosing_Mark", "N": "Number", "Nd": "Decimal_Number"},
    **{"Nl": "Letter_Number", "No": "Other_Number", "P": "Punctuation"},
    **{"Pc": "Connector_Punctuation", "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation"},
    **{"Pe": "Close_Punctuation", "Pi": "Initial_Punctuation", "Pf": "Final_Punctuation"},
    **{"Po": "Other_Punctuation", "S": "Symbol", "Sm": "Math_Symbol", "Sc": "Currency_Symbol"},
    **{"Sk": "Modifier_Symbol", "So": "Other_Symbol", "Z": "Separator", "Zs": "Space_Separator"},
    **{"Zl": "Line_Separator", "Zp": "Paragraph_Separator", "C": "Other", "Cc": "Control"},
    **{"Cf": "Format", "Co": "Private_Use", "LC": "Cased_Letter"},
}
_SHORT = {long: short for short, long in _CATEGORIES.items()}
_SHORT |= {"punct": "P", "cntrl": "Cc", "digit": "Nd", "Combining_Mark": "M"}
_SCRIPTS = {
    **{"Latin": "Latn", "Greek": "Grek", "Cyrillic": "Cyrl", "Armenian": "Armn", "Hebrew": "Hebr"},
    **{"Arabic": "Arab", "Devanagari": "Deva", "Bengali": "Beng", "Gurmukhi": "Guru"},
    **{"Gujarati": "Gujr", "Oriya": "Orya", "Tamil": "Taml", "Telugu": "Telu", "Kannada": "Knda"},
    **{"Malayalam": "Mlym", "Sinhala": "Sinh", "Thai": "Thai", "Lao": "Laoo", "Tibetan": "Tibt"},
    **{"Myanmar": "Mymr", "Georgian": "Geor", "Hangul": "Hang", "Ethiopic": "Ethi"},
    **{"Khmer": "Khmr", "Mongolian": "Mong", "Hiragana": "Hira", "Katakana": "Kana"},
    **{"Bopomofo": "Bopo", "Han": "Hani"},
}
_LONG = {short: long for long, short in _SCRIPTS.items()}
_OTHER_NAMES = {
    **{"Alpha": "Alphabetic", "Lower": "Lowercase", "Upper": "Uppercase", "space": "White_Space"},
    **{"AHex": "ASCII_Hex_Digit", "RI": "Regional_Indicator", "EPres": "Emoji_Presentation"},
    **{"EMod": "Emoji_Modifier", "EBase": "Emoji_Modifier_Base", "EComp": "Emoji_Component"},
    "ExtPict": "Extended_Pictographic",
}
_LAST_NAMED = 0xFFFF
_STEPS_A_RANGE = 2


def unicode_property(text: str) -> CharSet | None:
    """The characters of a property, named as in ECMA-262; None for an unknown property."""
    found = _property(text)
    if found is not None:
        spend(_STEPS_A_RANGE * (1 + len(found.inner) + len(found.outer)))
    return found


@lru_cache(maxsize=128)
def _property(text: str) -> CharSet | None:
    text = _OTHER_NAMES.get(text, text)
    key, is_pair, value = text.partition("=")
    if key in ("Script", "sc", "Script_Extensions", "scx") and is_pair:
        script = _LONG.get(value, value)
        return _of_script(script) if script in _SCRIPTS else None
    if key in ("General_Category", "gc") and is_pair:
        text = value
    elif text in _EMOJI_PROPERTIES:
        inner = _EMOJI_PROPERTIES[text]
        return CharSet(inner, union(inner, _maybe(*_MAY_BECOME_EMOJI)))
    elif text in _EXACT:
        return _EXACT[text]
    elif text in _BINARY:
        all_of, some_of = _BINARY[text]
        return CharSet(_settled(*all_of), _maybe(*all_of, *some_of))
    short = _SHORT.get(text, text)
    if short not in _CATEGORIES:
        return None
    categories = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    return CharSet(_settled(*categories), _maybe(*categories))


def _settled(*categories: str) -> Ranges:
    """The characters that have some categories, such as "L" or "Lu", in every version."""
    known = _by_category().items()
    return union(*(found for category, found in known if category.startswith(categories)), ())


def _maybe(*categories: str) -> Ranges:
    """All characters that may have these categories in some version."""
    known = _by_category().items()
    others = union(*(found for one, found in known if not one.startswith(categories)))
    return complement(others)


@lru_cache(maxsize=1)
def _by_category() -> dict[str, Ranges]:
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for low, high in complement(_UNSETTLED):
        for code in range(low, high + 1):
            ranges[category(chr(code))].append((code, code))
    ranges.pop("Cn", None)
    return {one: union(codes) for one, codes in ranges.items()}


def _of_script(script: str) -> CharSet:
    """The letters and marks of a script, found by their names."""
    starts = "CJK UNIFIED IDEOGRAPH-" if script == "Han" else f"{script.upper()} "
    inner = [
        (code, code)
        for low, high in intersect(_settled("L", "M"), complement(_OF_SEVERAL_SCRIPTS))
        for code in range(low, min(high, _LAST_NAMED) + 1)
        if name(chr(code), "").startswith(starts)
    ]
    no_letters = (0, 0x7F) if script != "Latin" else (0, 0x40)
    return CharSet(union(inner), union(inner, complement((no_letters,))))
