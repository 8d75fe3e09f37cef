"""Owns `specguide doctor`: it prints the diagnosis."""

from __future__ import annotations

import typer

from specguide.doctor import diagnose


def doctor() -> None:
    """Tell what was found here: torch, CUDA, grammar backends, the shipped model. Exits with 1
    where something is missing."""
    findings = diagnose()
    for finding in findings:
        typer.echo(
            f"{'ok  ' if finding.ok else 'FAIL' if finding.needed else 'note'}  {finding.name}: "
            f"{finding.what}"
        )
        if finding.remedy:
            typer.echo(f"      → {finding.remedy}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)
