"""Many texts are found in others, as `in` and `startswith` find them one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specguide.guided.notations.held_texts import HeldTexts

_TEXTS = st.text("ab", min_size=1, max_size=5)


@given(st.lists(_TEXTS, max_size=5), st.text("abc", max_size=12))
def test_texts_are_found(texts: list[str], text: str) -> None:
    held = HeldTexts(texts)
    found = held.within(text)
    assert (found is None) == (not any(one in text for one in texts))
    assert found is None or (found in texts and found in text)
    assert held.begins(text) == text.startswith(tuple(texts))


def test_the_time_grows_with_the_length() -> None:
    """20,000 texts in as many others: 400,000,000 pairs."""
    held = HeldTexts(f"<{number}>" for number in range(20_000))
    assert not any(held.within(f"<{number}/>") for number in range(20_000))
