"""The files of deploy/: what they name exists, and fits together."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from specguide.cli import app
from specguide.server.config import API_KEYS_VARIABLE, ServerConfig

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL"}
SERVE = get_command(app).commands["serve"]
OPTIONS = {flag for each in SERVE.params for flag in each.opts}


def instructions():
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile():
    words = [line.split() for line in instructions()]
    assert {line[0] for line in words} == INSTRUCTIONS | {"HEALTHCHECK", "ENTRYPOINT"}
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for line in words:
        if line[0] == "COPY" and "--from=build" not in line:
            for source in line[1:-1]:
                assert (ROOT / source).exists() and f"!{source}" in kept
    # Docker gives a volume to root where the image has no folder of that name.
    (volume,) = [line[1] for line in words if line[0] == "VOLUME"]
    user = words.index(["USER", "specguide"])
    assert user < words.index(["RUN", "mkdir", volume]) < words.index(["VOLUME", volume])
    (port,) = [line[1] for line in words if line[0] == "EXPOSE"]
    assert int(port) == ServerConfig("m").port
    (entry,) = [line for line in instructions() if line.startswith("ENTRYPOINT")]
    assert set(re.findall(r"--[\w-]+", entry)) <= OPTIONS


def test_the_services():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {word for word in services["specguide"]["command"] if word[:2] == "--"} <= OPTIONS
    assert API_KEYS_VARIABLE in services["specguide"]["environment"]
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).is_file()
    scraped = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    assert [each["static_configs"][0]["targets"] for each in scraped] == [["specguide:8000"]]
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasources.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in services
    (found,) = yaml.safe_load((DEPLOY / "grafana/dashboards.yaml").read_text())["providers"]
    assert any(found["options"]["path"] in each for each in services["grafana"]["volumes"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_of_systemd(tmp_path):
    text = (DEPLOY / "specguide.service").read_text()
    unit = tmp_path / "specguide.service"
    unit.write_text(text.replace("/opt/specguide/bin/specguide", "/bin/true"))
    command = ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0 and "specguide.service" not in checked.stderr, checked.stderr
