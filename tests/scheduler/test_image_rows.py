"""Rows of image vectors: who holds them, when they are encoded, and who gives way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specguide.images import PreparedImage, PromptImage, RotaryPositions, content_ids
from specguide.scheduler.image_rows import ImageRows


def image_of(name: int, num_rows: int, grid: tuple[int, int] | None = None) -> PreparedImage:
    digest = name.to_bytes(16, "big")
    return PreparedImage(digest, {}, (7,) * num_rows, tuple(range(num_rows)), grid)


def test_equal_images_share_rows_and_the_one_used_longest_ago_gives_way():
    rows = ImageRows(10)
    first, second, third = image_of(1, 4), image_of(2, 4), image_of(3, 4)
    assert rows.hold([first, first, second]) and rows.num_of([first, first, second]) == 8
    assert rows.rows(first) == rows.rows(first) and not set(rows.rows(first)) & set(
        rows.rows(second)
    )
    assert [one.image for one in rows.take()] == [first, second] and rows.take() == ()
    assert not rows.hold([third])
    rows.release([first, first])
    assert rows.hold([first])  # still encoded
    rows.rows(first)
    assert rows.take() == ()
    rows.release([first, second])
    assert rows.hold([third])
    rows.rows(third)
    assert rows.hold([first])  # used after the second
    rows.rows(first)
    assert [one.image for one in rows.take()] == [third]


def test_what_finds_no_room_takes_none():
    rows = ImageRows(6)
    large, small = image_of(1, 4), image_of(2, 3)
    assert not rows.hold([large, small])
    assert rows.hold([small]) and rows.hold([image_of(3, 3)])


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_no_row_has_two_images_that_are_held(steps):
    rows = ImageRows(12)
    sizes = (1, 2, 3, 4, 5, 6)
    held: list[PreparedImage] = []
    where: dict[int, int] = {}
    for name, releases in steps:
        if releases and held:
            rows.release([held.pop(name % len(held))])
            continue
        image = image_of(name, sizes[name])
        num_held = sum({one.digest: len(one.places) for one in (*held, image)}.values())
        assert rows.hold([image]) == (num_held <= 12)
        if num_held <= 12:
            held.append(image)
        for one in held:
            rows.rows(one)
        for one in rows.take():
            where.update(dict.fromkeys(one.rows, int.from_bytes(one.image.digest, "big")))
        for one in held:
            owners = {where[row] for row in rows.rows(one)}
            assert owners == {int.from_bytes(one.digest, "big")}


def test_positions_of_images_in_rows_and_columns():
    grid, wide = image_of(1, 6, (2, 3)), image_of(2, 4, (1, 4))
    axes, shift = RotaryPositions.of(15, (PromptImage(2, grid), PromptImage(9, wide)))
    assert axes.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 6, 6, 6, 10, 11],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 6, 6, 6, 10, 11],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    ]
    assert shift == -3 and RotaryPositions.of(2, ()).axes.tolist() == [[0, 1]] * 3


def test_contents_have_numbers_of_their_own():
    images = image_of(2**100, 40), image_of(2**100 + 2, 40)
    first, second = (content_ids(image, slice(None)) for image in images)
    assert content_ids(images[0], slice(3, 30)) == first[3:30]
    assert all(number < 0 for number in first) and len(set(first)) == 40
    assert all({*first[place : place + 2]} != {*second[place : place + 2]} for place in range(39))
    assert min(first) >= -(2**63)


def test_a_pass_is_filled_up_with_images_that_others_will_need(monkeypatch):
    monkeypatch.setattr("specguide.scheduler.image_rows._FULL_PASS", 6)
    rows = ImageRows(20)
    images = [image_of(name, size) for name, size in enumerate((2, 3, 5, 1, 4))]
    assert rows.hold(images)
    rows.release(images[3:4])
    assert rows.take() == ()  # nobody needs one yet
    rows.rows(images[0])
    assert [one.image for one in rows.take()] == images[:2]
    rows.rows(images[2])
    rows.rows(images[1])
    assert [one.image for one in rows.take()] == images[2:3]
    rows.rows(images[4])
    assert [one.image for one in rows.take()] == images[4:]
