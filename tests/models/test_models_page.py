"""docs/models.md is what the tests run over, and has a row for each family."""

from __future__ import annotations

from models_page import PAGE, page
from random_models import CASES

from specguide.models import FAMILIES


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: PYTHONPATH=. python tests/support/models_page.py"


def test_every_family_is_tested() -> None:
    tested = {model_class.__name__ for (_, model_class), _ in CASES.values()}
    assert {family.architectures[0] for family in FAMILIES.values()} == tested
