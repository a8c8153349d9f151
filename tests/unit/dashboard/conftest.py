"""The dashboard on a memory store, asked without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from headrace.dashboard import asgi
from tests.unit.dashboard.sample_app import Shop

HOST = "http://localhost:8400"


class Visitor:
    """A browser of sorts: it tells the origin of its forms, and keeps cookies."""

    def __init__(
        self, app: Any, *, client: str = "127.0.0.1", base: str = HOST, headers: dict[str, str] | None = None
    ) -> None:
        transport = httpx.ASGITransport(app=app, client=(client, 4711), raise_app_exceptions=True)
        self.base = base
        self.client = httpx.AsyncClient(transport=transport, base_url=base, headers=headers)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=_named(headers))

    async def post(self, path: str, fields: Any = None, **headers: str) -> httpx.Response:
        origin = "/".join(self.base.split("/")[:3])
        data = {} if fields is None else fields
        return await self.client.post(path, data=data, headers={"origin": origin, **_named(headers)})

    async def act(self, verb: str, **fields: Any) -> str:
        """Press a button; answers what the next page says."""
        answer = await self.post(f"/actions/{verb}", fields)
        assert answer.status_code == 303, answer.text
        shown = await self.get("/schedules")
        return text_of(shown.text, "flash")


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class _Parts(HTMLParser):
    """Every tag and its attributes, and the texts by the class of the element they stand in."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._class = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._class = dict(attrs).get("class") or ""

    def handle_data(self, data: str) -> None:
        self.texts.append((self._class, data))


def tags_of(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parts = _Parts()
    parts.feed(html)
    return parts.tags


def text_of(html: str, kind: str | None = None) -> str:
    parts = _Parts()
    parts.feed(html)
    return "".join(text for its, text in parts.texts if kind in (None, its)).strip()


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop("memory://")
    yield shop
    await shop.app.close()


@pytest.fixture
async def visitor(shop: Shop) -> AsyncIterator[Visitor]:
    visitor = Visitor(asgi(shop.app))
    yield visitor
    await visitor.client.aclose()
