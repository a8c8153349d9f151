"""An environment for each peer, made once and kept beside the project's own."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from .peers import PEERS, Peer

ROOT = Path(__file__).parents[1]


def peer_cases() -> Iterator[tuple[str, list[str]]]:
    """A command for each peer; the scale is its last argument."""
    for peer in PEERS:
        program = Path(__file__).parent / "peers" / peer.program
        yield peer.name, [str(_python(peer)), str(program), *peer.arguments]


def _python(peer: Peer) -> Path:
    folder = ROOT / f".venv-bench-{peer.requirement}"
    python = folder / "bin" / "python"
    stamp = folder / ".stamp"
    if not stamp.exists():
        print(f"making an environment for {peer.requirement}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", peer.requirement], check=True)
        stamp.touch()
    return python
