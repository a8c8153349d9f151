"""Stores for rounds: a new file or an empty server for each. A lane runs one round at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.torture.fleet import Server, available


class Lane:
    """`kind` is memory, sqlite, or a kind of server, which belongs to the lane alone."""

    def __init__(self, kind: str, folder: Path, server: Server | None) -> None:
        self.kind = kind
        self._folder = folder
        self._server = server

    def fresh(self) -> tuple[str, Path]:
        """The URL of an empty store, and a folder for the logs of a round."""
        folder = Path(tempfile.mkdtemp(prefix="round-", dir=self._folder))
        if self._server is not None:
            self._server.command("FLUSHALL")
            self._server.command("SCRIPT", "FLUSH")  # a server without scripts is asked once more
            return self._server.url, folder
        return ("memory://" if self.kind == "memory" else f"sqlite:///{folder}/jobs.db"), folder


@contextmanager
def lanes(kind: str, number: int, folder: Path) -> Iterator[list[Lane]]:
    with ExitStack() as stack:
        found: list[Lane] = []
        for index in range(number):
            place = folder / f"lane-{kind}-{index}"
            place.mkdir(parents=True)
            server = None
            if kind not in ("memory", "sqlite"):
                program = available()[kind]
                assert program is not None, f"no {kind} server on this machine"
                server = stack.enter_context(Server(program, directory=place / "server"))
            found.append(Lane(kind, place, server))
        yield found
