"""Whatever a visitor of the dashboard sends, the answer is a page or a clear refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from hypothesis import strategies as st

from headrace import App, RetryPolicy
from headrace.dashboard import asgi
from headrace.dashboard.actions.actions import ACTIONS

from .strategies import fuzz

_HOST = "http://localhost:8400"

_texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "default", "orders", "billing", "dead", "a/b", "\x00", "../x", "%", "9" * 400, "<script>"]
    ),
    st.sampled_from(["x" * 20_000, "[" * 5_000, "{}", "[1]", "nan", "-1", "1e999", "\ud7ff", "\u202e"]),
)
_names = st.sampled_from(
    [
        "id",
        "ids",
        "queue",
        "topic",
        "group",
        "task",
        "reason",
        "state",
        "cursor",
        "limit",
        "q",
        "args",
        "kwargs",
        "name",
        "rate",
        "burst",
        "max_running",
        "waiting_for",
        "older_than",
    ]
) | st.text(max_size=6)
_fields = st.dictionaries(_names, _texts | st.lists(_texts, max_size=3), max_size=6)
_paths = st.one_of(
    st.sampled_from(["/", "/job", "/dead", "/limits", "/limit", "/schedules", "/topics", "/workers"]),
    st.sampled_from(["/metrics", "/static/x"]),
    st.builds("/queues/{}".format, _texts),
    st.builds("/topics/{}/{}".format, _texts, _texts),
    st.builds("/static/{}".format, _texts),
    _texts.map("/{}".format),
)
_headers = st.dictionaries(
    st.sampled_from(["accept", "cookie", "referer", "x-forwarded-for", "if-none-match", "authorization"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    max_size=3,
)


def _shop() -> App:
    app = App("memory://", retry=RetryPolicy.none())
    orders = app.topic("orders", str)

    @app.task(name="fail")
    async def fail(text: str = "") -> None:
        raise ValueError(text)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: str) -> None:
        raise ValueError(order)

    return app


def _visit(kind: str, path: str, fields: dict[str, Any], headers: dict[str, str]) -> None:
    """Each visit has a store with a dead job called `dead`, a scheduled one, and a dead event."""
    app = _shop()

    async def visit() -> httpx.Response:
        async with app:
            await app.tasks["fail"].with_(job_id="dead").enqueue("x")
            await app.tasks["fail"].with_(job_id="later", delay=3600).enqueue("x")
            await app.declared_topics["orders"].publish("x")
            await app.worker().run(burst=True)
            transport = httpx.ASGITransport(app=asgi(app), raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url=_HOST) as client:
                if kind == "get":
                    return await client.get(path, params=fields, headers=headers)
                return await client.post(path, data=fields, headers={**headers, "origin": _HOST})

    try:
        answer = asyncio.run(visit())
    except (httpx.InvalidURL, UnicodeEncodeError):
        return  # no browser can send this
    assert answer.status_code < 500, (answer.status_code, answer.text[:500])
    assert len(answer.content) < 2_000_000


def a_page_is_shown_or_refused(path: str, fields: dict[str, Any], headers: dict[str, str]) -> None:
    _visit("get", path, fields, headers)


test_pages, test_pages_at_length = fuzz(
    a_page_is_shown_or_refused, path=_paths, fields=_fields, headers=_headers
)


def an_action_is_done_or_refused(verb: str, fields: dict[str, Any], headers: dict[str, str]) -> None:
    _visit("post", f"/actions/{verb}", fields, headers)


test_actions, test_actions_at_length = fuzz(
    an_action_is_done_or_refused,
    verb=st.sampled_from(sorted(ACTIONS)) | st.text(max_size=8),
    fields=_fields,
    headers=_headers,
)
