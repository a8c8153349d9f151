"""An environment for each peer, made once and kept beside the project's own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from .peers import Peer

ROOT = Path(__file__).parents[1]
FIND_PYTHON = ROOT / "scripts" / "find-python"


def peer_command(peer: Peer, url: str | None) -> list[str]:
    """What runs the peer; the scale is to be its last argument."""
    program = Path(__file__).parent / "peers" / peer.program
    return [str(_python(peer)), str(program), *([url] if url else []), *peer.arguments]


def _python(peer: Peer) -> Path:
    name = peer.requirements[0].replace("[", "-").replace("]", "")
    folder = ROOT / f".venv-bench-{name}"
    python = folder / "bin" / "python"
    stamp = folder / ".stamp"
    wanted = "\n".join(peer.requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making an environment for {name}", file=sys.stderr)
        if peer.python:
            found = subprocess.run([FIND_PYTHON, peer.python], check=True, capture_output=True, text=True)
            subprocess.run([found.stdout.strip(), "-m", "venv", "--clear", str(folder)], check=True)
        else:
            venv.create(folder, with_pip=True, clear=True, symlinks=os.name != "nt")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *peer.requirements], check=True)
        stamp.write_text(wanted)
    return python
