"""docs/fields.md and the table of docs/serving.md say what the server does with fields."""

from __future__ import annotations

import re

import pytest
from field_page import BODIES, PAGE, page

from specguide.server.app import APIS
from specguide.server.bodies.fields import NoEffect, Refused

TABLE = PAGE.with_name("serving.md").read_text().partition("| a field | is |")[2].split("\n\n")[0]


def test_the_page_is_what_the_tables_say():
    assert PAGE.read_text() == page(), "python tests/support/field_page.py writes it"


def test_the_page_has_the_fields_of_every_api():
    assert set(BODIES.values()) == {api.body for api in APIS}


@pytest.mark.parametrize(
    ("row", "kind"), [("cannot change", NoEffect), ("would change", Refused)], ids=str
)
def test_the_fields_that_are_named_as_examples_are_such(row, kind):
    [line] = [line for line in TABLE.splitlines() if row in line]
    names = re.findall(r"`(\w+)`", line)
    verdicts = [
        body.beside[name] for name in names for body in BODIES.values() if name in body.beside
    ]
    assert names and verdicts and all(isinstance(one, kind) for one in verdicts)
