"""Owns `specguide join`: it runs ranks of an engine whose rank 0 is on another host."""

from __future__ import annotations

import logging
from typing import Annotated

import typer


def join(
    address: Annotated[
        str, typer.Argument(help="HOST:PORT of the engine: what its --rank-address is.")
    ],
    num_ranks: Annotated[
        int | None,
        typer.Option(min=1, help="Most ranks to run; left out: one for each GPU here, or 1."),
    ] = None,
) -> None:
    """Run ranks here for an engine on another host, started with --rank-address, and for its
    successors there, until Ctrl-C. Both hosts need the same SPECGUIDE_RANKS_KEY, the model in the
    same folder, and a private network."""
    from specguide.engine.executors import join as join_engine  # brings torch in

    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    try:
        join_engine(address, num_ranks)
    except KeyboardInterrupt:
        raise typer.Exit from None
