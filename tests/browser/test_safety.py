"""The login, changes from elsewhere, read-only, and a store that goes away, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.sample_app import PASSWORD, SampleApp
from tests.integration.support.dashboard_processes import running
from tests.support.servers import Server, require

from .conftest import Stand, Tab, redis_kind
from .tls_proxy import tls_proxy


def test_one_logs_in_and_out(stand: Stand, browser: Any) -> None:
    tab = Tab(browser)
    tab.page.goto(f"{stand.guarded}/dead")
    assert tab.page.url.endswith("/login")
    assert stand.sample.app.description not in tab.page.content()
    tab.page.get_by_label("Password").fill("wrong")
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.get_by_text("The password is wrong").wait_for()
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.get_by_role("heading", name="Overview").wait_for()
    tab.page.get_by_role("button", name="Log out").click()
    tab.page.get_by_label("Password").wait_for()
    tab.page.goto(f"{stand.guarded}/dead")
    assert tab.page.url.endswith("/login")
    tab.close()


def test_a_page_whose_login_ends_asks_for_it_by_itself(stand: Stand, browser: Any) -> None:
    tab = Tab(browser)
    tab.page.goto(f"{stand.guarded}/login")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.get_by_role("heading", name="Overview").wait_for()
    tab.page.context.clear_cookies()
    tab.page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    tab.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    tab.page.get_by_label("Password").wait_for()
    tab.close()


def test_who_logs_out_in_one_tab_sees_nothing_more_in_the_others(stand: Stand, browser: Any) -> None:
    tab = Tab(browser)
    tab.page.goto(f"{stand.guarded}/login")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.get_by_role("heading", name="Overview").wait_for()
    other = tab.page.context.new_page()
    with other.expect_response(lambda response: "/live?" in response.url):
        other.goto(f"{stand.guarded}/workers")
    tab.page.get_by_role("button", name="Log out").click()
    tab.page.get_by_label("Password").wait_for()
    other.get_by_label("Password").wait_for(timeout=20_000)
    tab.close()


def test_behind_a_proxy_with_tls_one_logs_in_and_the_cookie_is_secure(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    sample = SampleApp(url)
    sample.enqueue(sample.bulk, 1)
    sample.app.sync.close()
    with running("command", url) as dashboard, tls_proxy(dashboard.port, tmp_path / "tls") as address:
        tab = Tab(browser, ignore_https_errors=True)
        tab.page.goto(f"{address}/login")
        tab.page.get_by_label("Password").fill(PASSWORD)
        with tab.page.expect_response(f"{address}/") as overview:
            tab.page.get_by_role("button", name="Log in").click()
        tab.page.get_by_role("heading", name="Overview").wait_for()
        assert "strict-transport-security" in overview.value.headers
        assert [cookie["secure"] for cookie in tab.page.context.cookies()] == [True]
        tab.page.get_by_role("button", name="Log out").click()
        tab.page.get_by_label("Password").wait_for()
        assert tab.page.context.cookies() == []
        tab.close()


def test_a_form_of_another_site_changes_nothing(stand: Stand, browser: Any) -> None:
    tab = Tab(browser)
    stand.sample.enqueue(stand.sample.bulk, 1)
    action = f"{stand.open}/actions/pause"
    form = (
        f'<form method="post" action="{action}"><input name="queue" value="bulk"><button>Win</button></form>'
    )
    tab.page.route("http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    tab.page.goto("http://evil.example/")
    tab.page.get_by_role("button", name="Win").click()
    tab.page.get_by_text("did not come from the dashboard's own page").wait_for()
    assert not any(queue.paused for queue in stand.sample.app.sync.admin.queues() if queue.name == "bulk")
    tab.close()


def test_a_dashboard_cannot_be_framed(stand: Stand, browser: Any) -> None:
    tab = Tab(browser)
    frame = f'<iframe src="{stand.open}/" onload="document.title = \'loaded\'"></iframe>'
    tab.page.route("http://evil.example/", lambda route: route.fulfill(body=frame, content_type="text/html"))
    tab.page.goto("http://evil.example/")
    tab.page.wait_for_function("document.title === 'loaded'")
    assert all("Overview" not in each.content() for each in tab.page.frames)
    tab.close()


def test_read_only_shows_everything_and_offers_nothing(stand: Stand, tab: Tab) -> None:
    for path in ("/", "/queues/mails", "/schedules", "/topics", "/workers", "/dead"):
        tab.page.goto(stand.read_only + path)
        assert "read-only" in tab.page.locator("header").inner_text()
        assert tab.page.locator('form[method="post"]').count() == 0


def test_a_store_that_goes_away_is_shown_and_comes_back_by_itself(browser: Any, tmp_path: Path) -> None:
    with Server(require(redis_kind()), directory=tmp_path, appendonly=True) as server:
        stand = Stand(server.url)
        try:
            tab, late = Tab(browser), Tab(browser)
            tab.page.goto(stand.open)
            server.stop()
            tab.page.locator("#connection", has_text="Store unavailable").wait_for(timeout=20_000)
            late.page.goto(stand.open, timeout=20_000)
            late.page.get_by_role("heading", name="Store unavailable").wait_for()
            server.start()
            tab.page.locator("#lost").wait_for(state="hidden", timeout=20_000)
            late.page.get_by_role("heading", name="Overview").wait_for(timeout=20_000)
            tab.close()
            late.close()
        finally:
            stand.close()
