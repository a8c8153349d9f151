"""A producer process: `python -m tests.torture.produce WORKLOAD` sends messages until it is told to stop."""

from __future__ import annotations

import importlib
import sys

from .program import Program


def main(workload: str) -> None:
    module = importlib.import_module(workload)
    program: Program = module.program
    program.recorder.write("working")
    module.produce(program)


if __name__ == "__main__":
    main(sys.argv[1])
