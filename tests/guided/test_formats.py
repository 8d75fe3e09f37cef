"""String formats: what their RFCs allow is taken, what they do not is refused."""

from __future__ import annotations

import datetime
import fractions
import ipaddress
import json
import random
import re
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pydantic
import pydantic_core
import pytest
from one_compiler import compiler_of

from specguide.bench.instances import BYTES, draw, takes, takes_any
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.schema.formats import PYDANTIC_FORMATS
from specguide.guided.wrappers.endings import EndingGrammar

LABEL_63 = "a" * 63
LONG_HOST = ".".join([LABEL_63, LABEL_63, LABEL_63, "b" * 61])
VALID = {
    "date-time": ["2024-02-29T23:59:59Z", "1963-06-19t08:30:06.283185z"],
    "time": ["00:00:00z", "23:59:59.5Z"],
    "email": [
        "a@b",
        "joe.bloggs@example.com",
        "a" * 64 + "@example.com",
        "x." * 31 + "xy@example.com",
        "a+b=c@d--e.org",
        '"joe bloggs"@example.com',
        r'"a\"@b"@example.com',
        "joe@[127.0.0.1]",
        "joe@[IPv6:::1]",
        "a@b.c.d.e.f.g.example.com",
        f"a@{LABEL_63}.com",
    ],
    "idn-email": [
        "joe.bloggs@example.com",
        "jörg@bücher.de",
        "用户@例子.中国",
        "cafe\u0301@example.com",
        "é" * 16 + "@b",
    ],
    "hostname": [
        "a",
        "example.com",
        "a.b.c.d.e.f.g",
        "a--b.example.com",
        "1.2",
        LABEL_63,
        LONG_HOST,
        "a" * 10 + "--b",
        "A-1.b",
    ],
    "idn-hostname": [
        "example.com",
        "bücher.de",
        "www.例子.中国",
        "παράδειγμα.δοκιμή",
        "한국어.한국",
        "שלום.com",
        "a。b",
        "a.b.c.d.e.f.g",
    ],
    "ipv6": [
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "::ffff:192.168.0.1",
        "1:2:3:4:5:6:1.2.3.4",
        "64:ff9b::1.2.3.4",
        "1:2:3:4:5:6:7::",
        "1::2:3:4:5:1.2.3.4",
        "::1.2.3.4",
        "fe80::1:2",
    ],
    "ipv4": ["0.0.0.0", "255.255.255.255"],
    "uri": [
        "file:///etc/hosts",
        "http://user@example.com/",
        "http://user:pass@[::1]:80/a?b#c",
        "ftp://a.b.c.d.e.f/x",
        "http://[v7.fe:1]/",
        "http://a--b.example.com",
        "mailto:a@b.c",
        "urn:isbn:0451450523",
        "a:",
        "a:/b/c",
        "http://a_b.c",
        "http://[::ffff:1.2.3.4]/",
        "x://",
        "data:text/plain;base64,SGk=",
        "http://a/?q=%C3%A9",
    ],
    "iri": ["http://例子.中国/путь?q=é#ß", "file:///ä", "http://user@bücher.de/", "http://[::1]/é"],
    "uri-reference": [
        "",
        "//a.b.c.d.e/f",
        "/a/b",
        "a/b:c",
        "?q",
        "#f",
        "./a:b",
        "file:///x",
        "//user@h:1/",
        "//",
    ],
    "iri-reference": ["/âππ", "âππ", "", "//例子/é", "?é"],
    "uri-template": ["http://a/{b}/{?c,d*}", "a😀b", "{+x:3}", "it's", "{a%20b}", "{a.b}"],
    "duration": ["P1D", "P2W", "P1Y2M3DT4H5M6S", "PT36H", "P999999D"],
    "uuid4": ["12345678-1234-4234-8234-123456789abc", "FFFFFFFF-FFFF-4FFF-bFFF-FFFFFFFFFFFF"],
    "uuid7": ["12345678-1234-7234-a234-123456789abc"],
    "ipvanyaddress": ["1.2.3.4", "::1"],
    "ipv4interface": ["1.2.3.4", "1.2.3.4/24", "1.2.3.4/0", "1.2.3.4/32"],
    "ipv6interface": ["::1", "fe80::1/64", "::/128"],
    "ipvanyinterface": ["1.2.3.4/24", "::1/64"],
    "ipv4network": [
        "10.0.0.0/8",
        "10.1.2.0/23",
        "172.16.0.0/12",
        "0.0.0.0/0",
        "1.2.3.4",
        "1.2.3.4/32",
    ],
    "ipv6network": ["2001:db8::/32", "fe80::/10", "::/0", "2001:db8:0:c0::/58", "::1", "::1/128"],
    "ipvanynetwork": ["10.0.0.0/8", "2001:db8::/32"],
    "name-email": ["ann.lee@example.com", "Ann Lee <ann@lee.co.uk>", "J. R. Ewing <jr@x.info>"],
    "multi-host-uri": [
        "postgres://user:p%40ss@a.example:5432,b.example:5433/app?x=1&y=2",
        "mongodb://localhost",
        "nats://1.2.3.4:4222",
    ],
    "base64": ["", "aGVsbG8=", "aGVsbG8h", "aA==", "+/+/"],
    "base64url": ["", "aGVsbG8=", "-_-_"],
    "fraction": ["0", "-1/3", "22/7", "5"],
    "regex": [
        r"(^|/)[^/]+\.txt$",
        r"^[\w.-]+@[a-f0-9-]+\b",
        "(?=.*[A-Z])(?:a|b(c|[^-])*?)+x{2,10}$",
        "a|^b{3,}|",
    ],
}
INVALID = {
    "date-time": ["2024-02-30T00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00"],
    "time": ["24:00:00Z", "00:00:00"],
    "email": [
        "",
        "a",
        "@b",
        "a@",
        "a..b@c",
        ".a@b",
        "a.@b",
        "a" * 65 + "@b",
        "x." * 32 + "x@example.com",
        "a@-b",
        "a@b-",
        "a@b..c",
        "a@[1.2.3]",
        "a@[::1]",
        "a b@c",
        '"a"b@c',
        "a@b@c",
        "é@b.c",
        f"a@a{LABEL_63}.com",
        f"abc@{LONG_HOST}",
        "a@b\n",
    ],
    "idn-email": ["", "用户", "a@b@c", "é..é@b", "é" * 40 + "@b", "user＠example.com", "a@-é.com"],
    "hostname": [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "a_b",
        "ab--c",
        "xn--a",
        f"{LABEL_63}a",
        f"{LONG_HOST}b",
        "é.com",
        "a b",
    ],
    "idn-hostname": [
        "",
        "-é",
        "é-",
        "a..b",
        ".é",
        "É.com",
        "\u0301a",
        "\u200db",
        "é." * 200 + "com",
        "1שלום",
    ],
    "ipv6": [
        "",
        ":",
        ":::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "12345::",
        "1:2:3:4:5:6:7:8::",
        "::1.2.3",
        "::1.2.3.256",
        "::01.2.3.4",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1.2.3.4",
        "1.2.3.4::",
        "::g",
        "[::1]",
        "fe80::1%eth0",
        "1:2:3:4:5::6:1.2.3.4",
        "::1:2:3:4:5:6:7:8",
    ],
    "ipv4": ["1.2.3", "256.1.1.1", "01.2.3.4", "1.2.3.4.5"],
    "uri": [
        "",
        "a",
        "//a/b",
        "/a",
        "1a:b",
        "http://a b",
        "http://[::1",
        "http://[1.2.3.4]/",
        "http://a@b@c/",
        "http://é",
        "http://a:b1/",
        "http://a/%6G",
        "http:/[::1]",
        "a\\b:c",
        "http://a/<b>",
        "http://[::01.2.3.4]",
    ],
    "iri": ["", "âππ", "http://é é", "http://[::ffff:192.168.0.01]", "\\\\WINDOWS\\filëßåré"],
    "uri-reference": ["\\", "a b", "//a@b@c/", "/%zz", "1:b c", "é", "a^b", ":a"],
    "iri-reference": ["\\é", "é é", "é^"],
    "uri-template": ["{", "}", "{}", "{a", "{a,}", "{v:0}", "{a..b}", "a b", "{=a}"],
    "duration": ["P", "PT", "P1Y2D", "-P2D", "PT30.1S", "P1W2D", "P1234567D"],
    "uuid4": ["12345678-1234-1234-8234-123456789abc", "12345678-1234-4234-c234-123456789abc"],
    "uuid7": ["12345678-1234-4234-a234-123456789abc"],
    "ipvanyaddress": ["1.2.3", "::g", "1.2.3.4/8"],
    "ipv4interface": ["1.2.3.4/33", "1.2.3/8", "::1/8", "1.2.3.4/"],
    "ipv6interface": ["::1/129", "1.2.3.4/8"],
    "ipvanyinterface": ["1.2.3.4/33", "::1/129"],
    "ipv4network": ["10.0.0.1/8", "10.1.3.0/23", "172.8.0.0/12", "1.2.3.5/31", "::/0"],
    "ipv6network": ["2001:db8::1/32", "fe81::/10", "2001:db8:0:c8::/58", "::1/127", "1.2.3.4"],
    "ipvanynetwork": ["10.0.0.1/8", "2001:db8::1/32"],
    "name-email": ["ann", "ann@localhost", "Ann <ann>", "Ann ann@example.com", "a@b.test"],
    "multi-host-uri": ["a.example", "postgres://", "postgres://a:99999", "postgres://a,,b"],
    "base64": ["a", "aGVsbG8", "aGVsbG9=", "a===", "-_-_"],
    "base64url": ["+/+/", "aGVsbG8"],
    "fraction": ["1/0", "", "a", "1/-3", "0x1"],
    "regex": ["(", "a)", "*a", "a**", "^*", "[z-a]", "[", "a{2,1}", r"[\d-a]", "\\", "(?<n"],
}

compiler = compiler_of(BYTES)


def grammar_of(compiler: GrammarCompiler, name: str, **more: object) -> CompiledGrammar:
    return compiler.compile(Guide(json_schema={"type": "string", "format": name, **more}))


@pytest.mark.parametrize("name", VALID)
def test_what_a_format_allows_is_taken_and_nothing_else(
    name: str, compiler: GrammarCompiler
) -> None:
    grammar = grammar_of(compiler, name)
    assert [
        text for text in VALID[name] if not takes(grammar, json.dumps(text, ensure_ascii=False))
    ] == []
    assert [
        text for text in INVALID[name] if takes(grammar, json.dumps(text, ensure_ascii=False))
    ] == []


READERS: dict[str, Any] = {
    "date": datetime.date,
    "time": datetime.time,
    "date-time": datetime.datetime,
    "duration": datetime.timedelta,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "uuid": uuid.UUID,
    "uri": pydantic.AnyUrl,
    **{f"uuid{version}": getattr(pydantic, f"UUID{version}") for version in (1, 3, 4, 5, 6, 7, 8)},
    "ipvanyaddress": pydantic.IPvAnyAddress,
    "ipv4interface": ipaddress.IPv4Interface,
    "ipv6interface": ipaddress.IPv6Interface,
    "ipvanyinterface": pydantic.IPvAnyInterface,
    "ipv4network": ipaddress.IPv4Network,
    "ipv6network": ipaddress.IPv6Network,
    "ipvanynetwork": pydantic.IPvAnyNetwork,
    "multi-host-uri": pydantic_core.MultiHostUrl,
    "base64": pydantic.Base64Bytes,
    "base64url": pydantic.Base64UrlBytes,
    "fraction": fractions.Fraction,
    "regex": re.Pattern,
}


@pytest.mark.parametrize("name", READERS)
def test_pydantic_reads_what_is_written(name: str, compiler: GrammarCompiler) -> None:
    grammar, reader = grammar_of(compiler, name), pydantic.TypeAdapter(READERS[name])
    for i in range(20):
        text = draw(grammar.matcher(), random.Random(i))
        assert text is None or reader.validate_json(text) is not None
    for text in VALID.get(name, ()) if name != "uri" else ():
        assert reader.validate_json(json.dumps(text)) is not None


def test_all_that_pydantic_writes_is_known() -> None:
    assert PYDANTIC_FORMATS.keys() <= {*READERS, "name-email"}
    for name, reader in READERS.items():
        assert pydantic.TypeAdapter(reader).json_schema().get("format", name) == name


def test_lengths_beside_a_format_hold_with_its_own(compiler: GrammarCompiler) -> None:
    grammar = grammar_of(compiler, "email", minLength=6, maxLength=8, pattern="^a")
    assert [
        text
        for text in ("a@bcd", "a@bcde", "b@bcde", "a@bcdefg", "a@bcdefgh")
        if takes(grammar, f'"{text}"')
    ] == ["a@bcde", "a@bcdefg"]


def test_the_suite_of_formats(data_dir: Path, compiler: GrammarCompiler) -> None:
    counts: Counter[str] = Counter()
    with (data_dir / "json_schema_test_suite.jsonl").open(encoding="utf-8") as file:
        for test in map(json.loads, file):
            if test["suite"] == "optional/format" and isinstance(test["data"], str):
                taken = takes_any(
                    compiler.compile(Guide(json_schema=test["schema"])),
                    test["data"],
                    test["schema"],
                )
                assert test["valid"] or not taken, (test["keyword"], test["data"])
                counts[f"{test['keyword']} {'taken' if taken else 'lost'}"] += test["valid"]
    lost = {name for name, count in counts.items() if count and name.endswith("lost")}
    assert lost <= {
        f"{name} lost"
        for name in (
            "date-time",
            "time",
            "hostname",
            "idn-email",
            "idn-hostname",
            "json-pointer",
            "ecmascript-regex",
        )
    }


@pytest.mark.parametrize("types", [["string", "null"], ["string", "integer"]])
def test_the_end_of_an_email_that_may_be_something_else_is_known(compiler, types):
    schema = {"type": ["object"], "properties": {"email": {"type": types, "format": "email"}}}
    grammar = compiler.compile(Guide(json_schema={**schema, "required": ["email"]}))
    assert isinstance(grammar, EndingGrammar)
    for value, is_valid in (("a@b.org", True), ("a", False), (None, "null" in types)):
        assert takes(grammar, json.dumps({"email": value})) == is_valid


def test_a_format_may_be_an_annotation(new_compiler):
    compiler = new_compiler(BYTES, assert_formats=False)
    schema = {"type": "string", "format": "date", "minLength": 2}
    grammar = compiler.compile(Guide(json_schema=schema))
    listed = compiler.compile(Guide(json_schema={"enum": ["x", 1], "format": "date"}))
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema}}
    tagged = compiler.compile(Guide(structural_tag=tag))
    assert takes(grammar, '"no date"') and not takes(grammar, '"x"')
    assert takes(listed, '"x"')
    assert takes(tagged, '"no date"') and not takes(tagged, '"x"')


NAMES = {
    "email": "a@b.com",
    "idn-email": "jörg@bücher.de",
    "hostname": "a.com",
    "idn-hostname": "bücher.de",
    "uri": "https://a.com",
    "uuid": "12345678-1234-4234-8234-123456789abc",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_a_format(name: str, compiler: GrammarCompiler) -> None:
    names, values = {"format": name}, {"type": "integer"}
    schema = {"type": "object", "propertyNames": names, "additionalProperties": values}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, {NAMES[name]: 1}, schema)
    assert not takes_any(grammar, {NAMES[name]: "1"}, schema)
    assert not takes_any(grammar, {"a b": 1}, schema)


@pytest.mark.parametrize("name", ["uri-reference", "iri-reference"])
def test_references_tell_the_branches_of_a_one_of_apart(compiler, name):
    def linked(other: str) -> dict[str, Any]:
        properties = {"$id": {"type": "string", "format": name}, other: {"type": "integer"}}
        return {"type": "object", "properties": properties}

    schema = {"oneOf": [linked("a"), linked("b")]}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, {"$id": "x#y", "a": 1, "b": "x"}, schema)
    assert not takes_any(grammar, {"$id": "x#y", "a": 1, "b": 1}, schema)
