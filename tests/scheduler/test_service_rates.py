"""What tokens cost: found from iterations of either kind, and of both at once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.scheduler.service_rates import ServiceRates


def test_nothing_is_known_at_first():
    assert ServiceRates().seconds(1000, 1000) == 0


def test_iterations_of_either_kind_are_two_rates():
    rates = ServiceRates()
    for _ in range(50):
        rates.take(2048, 0, 0.06)
        rates.take(0, 128, 0.016)
    assert rates.seconds(2048, 0) == pytest.approx(0.06)
    assert rates.seconds(0, 1280) == pytest.approx(0.16)


def test_prompts_that_ride_along_are_told_apart_by_how_times_vary():
    rates, random = ServiceRates(), Random(3)
    for _ in range(300):
        num_prompt, num_output = random.randint(0, 500), random.randint(60, 128)
        seconds = num_prompt * 2e-5 + num_output * 1e-4
        rates.take(num_prompt, num_output, seconds * random.uniform(0.9, 1.1))
    assert rates.seconds(1000, 0) == pytest.approx(0.02, rel=0.15)
    assert rates.seconds(0, 1000) == pytest.approx(0.1, rel=0.15)


def test_where_all_are_alike_the_sum_is_right():
    rates = ServiceRates()
    for _ in range(9):
        rates.take(300, 100, 0.02)
    assert rates.seconds(3000, 1000) == pytest.approx(0.2)


def test_what_is_long_ago_fades():
    rates = ServiceRates()
    for seconds in [0.1] * 1000 + [0.01] * 9000:
        rates.take(0, 100, seconds)
    assert rates.seconds(0, 100) == pytest.approx(0.01, rel=0.05)


counts = st.integers(0, 10**5)


@given(st.lists(st.tuples(counts, counts, st.floats(0, 100)), max_size=50), counts, counts)
def test_nothing_is_ever_worth_negative_time(told, num_prompt, num_output):
    rates = ServiceRates()
    for each in told:
        rates.take(*each)
    assert rates.seconds(num_prompt, num_output) >= 0
