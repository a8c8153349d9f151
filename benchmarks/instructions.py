"""`python -m benchmarks.instructions [TREE ...]`: the instructions that one message takes of the client and
of the server, in this tree and in others (checkouts with a `src` folder), as callgrind counts them.

Where the sizes of batches are fixed, instructions move by less than 1 % from run to run, also on a busy
machine. In `run` and `consume` the sizes depend on how fast client and server are. There instructions move by
5 to 10 %, and `claim and settle` is the exact measure. A program (`counted.py`) does each operation for a few
messages and then for many. The difference, for each further message, is the cost. Needs valgrind.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.servers import Server, require

OPERATIONS = (
    *("enqueue", "enqueue_many", "enqueue_many limited"),
    *("claim and settle", "claim and settle limited", "claim and settle keyed"),
    *("run", "run limited", "publish", "consume"),
)
ON_SERVER = "server"
HERE = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.instructions")
    parser.add_argument("trees", nargs="*", type=Path, help="other checkouts to compare with")
    parser.add_argument("--only", nargs="*", choices=OPERATIONS, default=OPERATIONS)
    parser.add_argument("--sides", nargs="*", default=["memory", "sqlite", "redis", ON_SERVER])
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--kind", default="valkey-9.1")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    trees = [*options.trees, HERE]
    print(f"{'instructions for each message':36}" + "".join(f"{tree.resolve().name:>14}" for tree in trees))
    for side in options.sides:
        for operation in options.only:
            counted = [count(tree, side, operation, options.messages, options.kind) for tree in trees]
            last = f"{100 * (counted[-1] / counted[0] - 1):+8.1f} %" if options.trees else ""
            shown = "".join(f"{each:14,.0f}" for each in counted)
            print(f"{side + ', ' + operation:36}{shown}{last}", flush=True)


def count(tree: Path, side: str, operation: str, messages: int, kind: str) -> float:
    """The instructions for one message."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        counts = [messages // 5, messages]
        if side in ("redis", ON_SERVER):
            with Server(_program(kind, out, side), directory=Path(folder)) as server:
                counted_pid = server.pid if side == ON_SERVER else None
                _run(tree, operation, server.url, counts, out, counted_pid)
        else:
            url = "memory://" if side == "memory" else f"sqlite:///{folder}/counted.db"
            _run(tree, operation, url, counts, out, None)
        few, many = (_total(out.with_name(f"{out.name}.{number}")) for number in (1, 2))
    return (many - few) / (counts[1] - counts[0])


def _program(kind: str, out: Path, side: str) -> Path:
    """The server, or a script that runs it under callgrind."""
    program = require(kind)
    if side != ON_SERVER:
        return program
    script = out.with_name("server")
    script.write_text(f'#!/bin/sh\nexec {" ".join(_callgrind(out))} {program} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def _callgrind(out: Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--instr-atstart=no"]


def _run(tree: Path, operation: str, url: str, counts: list[int], out: Path, server_pid: int | None) -> None:
    """Run the program, and count the instructions of the server or of the program between its gates."""
    gate_in, opened = os.pipe()
    asked, gate_out = os.pipe()
    program = [sys.executable, str(HERE / "benchmarks" / "counted.py"), operation, url, *map(str, counts)]
    names = {"PYTHONPATH": str(tree.resolve() / "src"), "PYTHONHASHSEED": "0"}
    gates = {"GATE_IN": str(gate_in), "GATE_OUT": str(gate_out)}
    process = subprocess.Popen(
        [*(_callgrind(out) if server_pid is None else []), *program],
        env={**os.environ, **names, **gates},
        pass_fds=(gate_in, gate_out),
        stderr=subprocess.PIPE,
    )
    os.close(gate_in)
    os.close(gate_out)
    counting = False
    while os.read(asked, 1):
        counting = not counting
        _switch(server_pid or process.pid, on=counting)
        os.write(opened, b".")
    _, errors = process.communicate()
    os.close(asked)
    os.close(opened)
    if process.returncode:
        sys.exit(f"{operation} failed in {tree}:\n{errors.decode()}")


def _switch(pid: int, *, on: bool) -> None:
    """Begin to count, or end and write what was counted to the next file."""
    for option in ["--instr=on"] if on else ["--instr=off", "--dump=counted"]:
        subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def _total(file: Path) -> int:
    found = re.search(r"^totals: (\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"{file} has no total")
    return int(found[1])


if __name__ == "__main__":
    main()
