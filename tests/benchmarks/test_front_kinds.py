"""The benchmark of fronts: what it is asked for."""

from __future__ import annotations

import pytest

from benchmarks import front


def test_an_unknown_kind_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["front", "--kinds", "chat,free"])
    with pytest.raises(SystemExit):
        front.main()
    assert "--kinds free: there are completions, chat" in capsys.readouterr().err
