"""What the processes of a round do, one part in each file: a module with `act()`."""

from __future__ import annotations

import ast
from pathlib import Path


def call_names() -> list[str]:
    """The names of the calls in `calls.py`, read from its source: to import it is to make an app."""
    tree = ast.parse((Path(__file__).parent / "calls.py").read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef) and [each.arg for each in node.args.args] == ["within"]
    ]
