"""Starts the whole site: `python start.py [PORT]`. Ctrl-C ends it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MANAGE = [sys.executable, str(HERE / "manage.py")]


def main() -> None:
    port = sys.argv[1] if len(sys.argv) > 1 else "8000"
    subprocess.run([*MANAGE, "prepare"], check=True)
    worker = subprocess.Popen([*MANAGE, "headrace", "worker", "--concurrency", "10"])
    site = subprocess.Popen([*MANAGE, "runserver", "--noreload", f"127.0.0.1:{port}"])
    print(
        f"\nhttp://127.0.0.1:{port}/ has the shop, /jobs/ the dashboard. Log in as admin with admin.\n",
        flush=True,
    )
    # The first of the two that ends, or a signal, ends both.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        os.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in (site, worker):
            process.terminate()
        for process in (site, worker):
            process.wait()


if __name__ == "__main__":
    main()
