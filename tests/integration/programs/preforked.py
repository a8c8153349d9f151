"""A prefork server: uses its app, forks, and uses the app in each child, all from plain code."""

from __future__ import annotations

import asyncio
import os
import sys

from headrace import App

#: Processes that the server forks.
CHILDREN = 3


def main(url: str, namespace: str) -> None:
    app = App(url, namespace=namespace)

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    job = add.sync.enqueue(1, 1)  # starts the app's own thread
    children = [serve(add, number) for number in range(CHILDREN)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * CHILDREN
    assert add.with_(job_id="parent").sync.enqueue(1, 2).id == "parent"
    asyncio.run(app.worker().run(burst=True))
    assert job.sync.result(timeout=10) == 2
    handles = [app.job(f"child-{number}", queue="default") for number in range(CHILDREN)]
    assert app.sync.results(handles, timeout=10) == [10, 11, 12]
    app.sync.close()


def serve(add: object, number: int) -> int:
    """The id of a forked process that enqueues one job."""
    child = os.fork()
    if child == 0:
        try:
            add.with_(job_id=f"child-{number}").sync.enqueue(number, 10)  # type: ignore[attr-defined]
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
    return child


if __name__ == "__main__":
    main(*sys.argv[1:])
