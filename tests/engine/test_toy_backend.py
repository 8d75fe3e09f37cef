"""A grammar backend from the tests alone: a file in the folder of backends is all that it takes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_backend
from byte_vocabulary import VOCABULARY
from tiny_engine import make

from specguide import LLM, Guide, SamplingParams, doctor
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided import backends
from specguide.guided.backends import BACKENDS, backend_names, backend_status
from specguide.guided.compile import GrammarCompiler

CHOICE = ["ab", "abba", "né", "nein, nein"]
pytestmark = pytest.mark.filterwarnings("ignore:toy is driven through Python")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the toy backend, while its file is one of the folder's."""
    shutil.copy(toy_backend.__file__, tmp_path / "toy_in_the_folder.py")
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    (found,) = (spec for spec in backends._specs_of_modules() if spec.name not in BACKENDS)
    monkeypatch.setitem(BACKENDS, found.name, found)
    return found.name


def outputs(llm: LLM, backend: str, temperature: float) -> list[tuple[str, str | None]]:
    guide = Guide(choice=CHOICE, backend=backend)
    params = [
        SamplingParams(max_tokens=40, guide=guide, temperature=temperature, seed=seed)
        for seed in range(6)
    ]
    done = llm.generate([f"say {seed}" for seed in range(6)], params)
    assert [output.error for output in done] == [None] * 6
    return [(output.text, output.finish_reason) for output in done]


@pytest.mark.parametrize("spec", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_guides_as_the_others_do(
    toy: str, folders: tuple[Path, Path], spec: bool, temperature: float
) -> None:
    llm = make(folders, spec=spec)
    found = outputs(llm, toy, temperature)
    assert {text for text, _ in found} <= set(CHOICE)
    assert found == outputs(llm, "llguidance", temperature)
    llm._engine.check_integrity()
    llm.close()


def test_it_is_one_of_the_backends(toy: str) -> None:
    first, second, *others = backend_names()
    assert (first, second) == ("llguidance", "xgrammar") and toy in others
    status = backend_status(toy)
    assert (status.version, status.native) == ("built in", False)


def test_doctor_asks_for_no_package_of_it(toy: str) -> None:
    found = {finding.name: finding for finding in doctor._backends()}
    assert found[f"grammar backend {toy}"].remedy == ""


def test_auto_falls_back_on_it(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration may ask for it, too."""
    for name in set(BACKENDS) - {toy}:
        monkeypatch.delitem(BACKENDS, name)
    for config in (GuideConfig(), GuideConfig(backend=toy)):
        compiler = GrammarCompiler(VOCABULARY, config)
        assert compiler.compile(Guide(choice=CHOICE)).backend == "toy"
        compiler.close()


def test_what_it_does_not_compile_is_refused(toy: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(backend=toy))
    for guide in (Guide(json_object=True), Guide(grammar='root ::= "a"')):
        with pytest.raises(UnsupportedGuide, match=rf"toy does not compile {guide.kind}"):
            compiler.compile(guide)
    with pytest.raises(UnsupportedGuide, match="over ASCII alone"):
        compiler.compile(Guide(regex="é+"))
    compiler.close()
