"""Real dashboards for tests: the command, and one that a host application has mounted. Run as a program it is
that host; it prints its address."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from headrace import App
from headrace.dashboard import asgi

COOKIE = "headrace_session"
PASSWORD = "open sesame"
ROOT = Path(__file__).parents[3]


class Answer(msgspec.Struct):
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def cookie(self) -> str:
        """The session that it begins, or nothing."""
        found = re.search(rf"{COOKIE}=([^;\"]+);", self.headers.get("set-cookie", ""))
        return found[1] if found else ""


class Dashboard(msgspec.Struct):
    """One that runs, on a loopback address. `source`: the address that a visitor has."""

    port: int
    root: str = ""

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(source, 0))

    def get(self, path: str = "/dead", cookie: str = "", source: str = "127.0.0.1", **headers: str) -> Answer:
        held = {"cookie": f"{COOKIE}={cookie}"} if cookie else {}
        return self._ask("GET", path, "", source, held | _named(headers))

    def post(self, path: str, cookie: str = "", source: str = "127.0.0.1", **fields: str) -> Answer:
        return self._post(path, source, {"cookie": f"{COOKIE}={cookie}"} if cookie else {}, fields)

    def log_in(self, password: str = PASSWORD, source: str = "127.0.0.1", **headers: str) -> Answer:
        return self._post("/login", source, _named(headers), {"password": password})

    def _post(self, path: str, source: str, headers: Mapping[str, str], fields: Mapping[str, str]) -> Answer:
        form = {"content-type": "application/x-www-form-urlencoded", "origin": self._origin}
        return self._ask("POST", path, urlencode(fields), source, {**form, **headers})

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _ask(self, method: str, path: str, body: str, source: str, headers: Mapping[str, str]) -> Answer:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(source, 0))
        try:
            asked.request(method, self.root + path, body=body, headers=dict(headers))
            answer = asked.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read().decode())
        finally:
            asked.close()


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def running(kind: str, url: str, *options: str, **variables: str) -> Iterator[Dashboard]:
    """`kind`: "command" or "mounted". The options are those of the command."""
    commands = {"command": ["headrace", "dashboard", "--port", "0", "--url"], "mounted": [__name__]}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    with subprocess.Popen(
        [sys.executable, "-m", *commands[kind], url, *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**clean, "HEADRACE_DASHBOARD_PASSWORD": PASSWORD, **variables},
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            assert found is not None
            yield Dashboard(int(found[1]), "/jobs" if kind == "mounted" else "")
        finally:
            process.kill()


async def _host(url: str, trusted: str | None) -> None:
    options: dict[str, Any] = {"trusted_proxies": trusted.split(",")} if trusted else {}
    app = App(url)
    page = asgi(app, password=os.environ["HEADRACE_DASHBOARD_PASSWORD"], **options)
    config = uvicorn.Config(
        Starlette(routes=[Mount("/jobs", page)]), log_level="warning", proxy_headers=False
    )
    with socket.create_server(("127.0.0.1", 0)) as door:
        print(f"http://127.0.0.1:{door.getsockname()[1]}/", flush=True)
        async with app:
            await uvicorn.Server(config).serve(sockets=[door])


if __name__ == "__main__":
    url, *options = sys.argv[1:]
    asyncio.run(_host(url, options[1] if options else None))
