"""Tasks of an app with encrypted messages that run in child processes."""

from __future__ import annotations

import os

from headrace import App, EncryptedCodec, RetryPolicy, Run, current_job
from headrace.engine.declared.registry import CallNext

#: Written down here, so that a child process has the same one. Tests need no secret.
KEY = "hrk_25a5abc1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

app = App("memory://", codec=EncryptedCodec(KEY), retry=RetryPolicy.none())


@app.task(run_in="process")
def double(number: int, *, plus: int = 0) -> tuple[int, str, bool]:
    return 2 * number + plus, current_job().id, os.getpid() != os.getppid()


@app.use
async def pass_on(run: Run, call_next: CallNext) -> object:
    return await call_next(run)
