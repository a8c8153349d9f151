"""The dashboard below a URL of the project, with Django's own users and permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient, Client, modify_settings
from django_shop import tasks

from headrace.django import dashboard, get_app
from tests.support.waiting import wait_until

from .conftest import Configure

pytestmark = pytest.mark.filterwarnings("error")

#: What a browser sends with a form of the page itself.
FORM = "application/x-www-form-urlencoded"
FROM_THE_PAGE = {"HTTP_ORIGIN": "http://testserver", "HTTP_SEC_FETCH_SITE": "same-origin"}


@pytest.fixture(autouse=True)
def users() -> Iterator[None]:
    User.objects.create_user("visitor")
    User.objects.create_user("staff", is_staff=True)
    User.objects.create_superuser("root")
    clerk = User.objects.create_user("clerk")
    clerk.user_permissions.add(Permission.objects.get(codename="view_order"))
    yield
    User.objects.all().delete()


@pytest.fixture(autouse=True)
def jobs(configured: Configure) -> None:
    configured()
    tasks.add.enqueue(2, 3)


def client_of(name: str) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username=name))
    return client


def test_an_anonymous_visitor_is_sent_to_the_login() -> None:
    answer = Client().get("/jobs/dead?queue=default")
    assert (answer.status_code, answer["location"]) == (302, "/login/?next=/jobs/dead%3Fqueue%3Ddefault")


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("visitor", "/jobs/", 403),
        ("clerk", "/jobs/", 403),
        ("staff", "/jobs/", 200),
        ("root", "/jobs/", 200),
        ("staff", "/mails/", 403),
        ("clerk", "/mails/", 200),
        ("root", "/mails/", 200),
    ],
)
def test_staff_or_users_with_the_permission_may_see_it(name: str, path: str, status: int) -> None:
    assert client_of(name).get(path).status_code == status


def test_a_user_who_is_not_active_may_not_see_it() -> None:
    client = client_of("staff")
    User.objects.filter(username="staff").update(is_active=False)
    assert client.get("/jobs/").status_code == 302  # to the login


def test_pages_links_and_files_are_below_the_url() -> None:
    client = client_of("staff")
    page = client.get("/jobs/queues/default")
    assert page.status_code == 200
    assert b"django_shop.tasks.add" in page.content
    assert b'href="/jobs/static/style.css' in page.content
    assert client.get("/jobs/static/style.css")["content-type"].startswith("text/css")
    assert client.get("/jobs/nothing").status_code == 404
    assert "default-src 'none'" in page["content-security-policy"]
    assert client.get("/jobs").status_code == 301  # Django adds the slash


def test_the_url_may_be_below_a_prefix_of_the_server_and_capture_words() -> None:
    page = client_of("staff").get("/ann/jobs/queues/default", SCRIPT_NAME="/shop")
    assert page.status_code == 200
    assert b'href="/shop/ann/jobs/static/style.css' in page.content


def test_pages_update_themselves_under_asgi_only() -> None:
    client = client_of("staff")
    assert b"data-path" not in client.get("/jobs/").content
    assert client.get("/jobs/live?path=/").status_code == 404


@pytest.mark.parametrize(("name", "pauses"), [("staff", False), ("root", True)])
def test_superusers_may_change_things(name: str, pauses: bool) -> None:
    client = client_of(name)
    answer = client.post("/jobs/actions/pause", "queue=default", FORM, **FROM_THE_PAGE)
    [queue] = [each for each in get_app().sync.admin.queues() if each.name == "default"]
    assert (queue.paused, answer.status_code) == (pauses, 303 if pauses else 403)
    if pauses:
        assert answer["location"].startswith("/jobs/")
        shown = client.get("/jobs/")
        assert b"paused" in shown.content.lower()
        assert answer.cookies["headrace_flash"]["path"] == "/jobs"


def test_another_site_cannot_change_anything() -> None:
    client = client_of("root")
    foreign = {"HTTP_ORIGIN": "http://evil.example", "HTTP_SEC_FETCH_SITE": "cross-site"}
    assert client.post("/jobs/actions/pause", "queue=default", FORM, **foreign).status_code == 403
    assert client.post("/jobs/actions/pause", "queue=default", FORM).status_code == 403


@pytest.mark.filterwarnings("ignore:.*log_response.*")
def test_a_project_without_users_is_told(caplog: pytest.LogCaptureFixture) -> None:
    name = "django.contrib.auth.middleware.AuthenticationMiddleware"
    client = Client(raise_request_exception=False)
    with modify_settings(MIDDLEWARE={"remove": name}):
        assert client.get("/jobs/").status_code == 500
    assert "needs Django's AuthenticationMiddleware" in caplog.text


# --- under ASGI --------------------------------------------------------------------------------------------


def test_a_page_updates_itself_until_its_user_may_not_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "HOLDS", 0.0)
    user = User.objects.get(username="staff")
    asyncio.run(follow_a_page(user))


async def follow_a_page(user: User) -> None:
    client = AsyncClient()
    await client.aforce_login(user)
    page = await client.get("/jobs/")
    assert b"data-path" in page.content
    answer: Any = await client.get("/jobs/live?path=/")
    assert answer["content-type"] == "text/event-stream"
    parts = aiter(answer)
    assert (await anext(parts)).startswith(b"event: live\ndata: ")
    await client.alogout()
    async with asyncio.timeout(20):
        assert [part async for part in parts if part.startswith(b"event")] == []


def test_a_visitor_who_leaves_ends_the_updates() -> None:
    asyncio.run(leave_a_page(User.objects.get(username="staff")))


async def leave_a_page(user: User) -> None:
    client = AsyncClient()
    await client.aforce_login(user)
    answer: Any = await client.get("/jobs/live?path=/")
    parts: list[bytes] = []

    async def send() -> None:  # as Django's handler does, which is cancelled when the visitor has gone
        async for part in answer:
            parts.append(part)

    sending = asyncio.create_task(send())
    await wait_until(lambda: parts)
    assert "headrace live page" in [task.get_name() for task in asyncio.all_tasks()]
    sending.cancel()
    await asyncio.wait([sending])
    assert "headrace live page" not in [task.get_name() for task in asyncio.all_tasks()]
