"""Thumbnails in processes: pictures are made smaller in parallel, and a broken one costs only itself.

$ pip install pillow
$ python examples/thumbnails.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image

from headrace import App, JobFailed, RetryPolicy, current_job

SIZES = (256, 64)

app = App(os.environ.get("HEADRACE_URL", "sqlite:///thumbnails.db"))


@app.task(name="pictures.shrink", run_in="process", timeout=30, retry=RetryPolicy.fixed(1, delay=0.1))
def shrink(path: str) -> list[str]:
    """Runs in a child process of the worker: it uses a CPU of its own and does not delay other jobs."""
    made = []
    with Image.open(path) as picture:
        for number, size in enumerate(SIZES):
            current_job().progress_sync(number / len(SIZES), f"{size} pixels")
            thumbnail = picture.convert("RGB")
            thumbnail.thumbnail((size, size))
            target = Path(path).with_suffix(f".{size}.jpg")
            thumbnail.save(target)
            made.append(target.name)
    return made


def paint(folder: Path) -> None:
    """Some pictures to begin with, and a file that is none."""
    for number in range(8):
        Image.new("RGB", (1600, 1200), (30 * number, 120, 255 - 30 * number)).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"this is no picture")


async def main(paths: list[Path]) -> None:
    async with app, app.worker(children=2):
        jobs = await app.enqueue_many([shrink.call(str(path)) for path in paths])
        for made in await app.results(jobs, timeout=60, return_exceptions=True):
            match made:
                case JobFailed():
                    print(f"failed: {made.error_type}: {made.error.splitlines()[-1]}")
                case BaseException():
                    raise made
                case _:
                    print(f"made {', '.join(made)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sorted(Path(sys.argv[1]).glob("*.png"))))
    else:
        with tempfile.TemporaryDirectory() as name:
            paint(Path(name))
            asyncio.run(main(sorted(Path(name).glob("*.png"))))
