"""The fixtures, in suites of every kind: plain, pytest-asyncio's and anyio's."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

PLAIN = """
    import pytest
    from headrace import App
    from headrace.testing import Clock, Kit

    @pytest.fixture(params=[1, 2])
    def add(request, headrace_app):
        @headrace_app.task(name="add")
        def add(a: int, b: int) -> int:
            return a + b

        return add

    def test_plain(headrace_app, headrace_kit, headrace_clock, add):
        assert type(headrace_app) is App and type(headrace_kit) is Kit and type(headrace_clock) is Clock
        assert headrace_kit.app is headrace_app and headrace_kit.clock is headrace_clock
        assert headrace_kit.enqueued() == []
        job = headrace_app.sync.enqueue(add.with_(delay=60).call(2, 3))
        headrace_clock.advance(60)
        headrace_kit.sync.drain()
        assert headrace_app.sync.result(job) == 5

    def test_the_app_alone(headrace_app, headrace_clock, add):
        job = headrace_app.sync.enqueue(add.with_(delay=60).call(2, 3))
        headrace_clock.advance(60)
        assert headrace_app.sync.status(job) == "scheduled"
"""

ASYNC = """
    import asyncio
    import pytest

    {mark}
    async def test_drain(headrace_app, headrace_kit):
        @headrace_app.task(name="add")
        async def add(a: int, b: int) -> int:
            await asyncio.sleep(0)
            return a + b

        job = await add.with_(delay=60).enqueue(2, 3)
        headrace_kit.assert_enqueued(add, args=(2, 3))
        await headrace_kit.drain(scheduled=True)
        assert await job.result() == 5

    {mark}
    async def test_a_worker_and_the_clock(headrace_app, headrace_clock):
        @headrace_app.task(name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        async with headrace_app.worker():
            job = await add.with_(delay=3600).enqueue(2, 3)
            headrace_clock.advance(3600)
            assert await job.result(timeout=10) == 5

    {mark}
    async def test_left_open(headrace_app, headrace_kit):
        assert headrace_kit.enqueued() == []
        await headrace_app.open()

    def test_plain(headrace_kit):
        headrace_kit.sync.drain()
"""

#: What a suite of each kind writes over its async tests, and in its settings.
KINDS = {
    "asyncio-strict": ("@pytest.mark.asyncio", "asyncio_mode = strict"),
    "asyncio-auto": ("", "asyncio_mode = auto"),
    "asyncio-session": ('@pytest.mark.asyncio(loop_scope="session")', "asyncio_mode = strict"),
    "anyio-marked": ('@pytest.mark.anyio\n    @pytest.mark.parametrize("anyio_backend", ["asyncio"])', ""),
    "anyio-auto": ('@pytest.mark.parametrize("anyio_backend", ["asyncio"])', "anyio_mode = auto"),
}


def settings(pytester: pytest.Pytester, *lines: str) -> None:
    pytester.makeini(
        "\n".join(["[pytest]", "addopts = -p no:cacheprovider -W error --strict-config", *lines])
    )


@pytest.mark.parametrize("backends", ["", "-p no:asyncio -p no:anyio"])
def test_plain_tests(pytester: pytest.Pytester, backends: str) -> None:
    settings(pytester, *([] if backends else ["asyncio_default_fixture_loop_scope = function"]))
    pytester.makepyfile(PLAIN)
    pytester.runpytest(*backends.split()).assert_outcomes(passed=4)


@pytest.mark.parametrize("kind", KINDS)
def test_async_tests(pytester: pytest.Pytester, kind: str) -> None:
    mark, setting = KINDS[kind]
    settings(pytester, setting, "asyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(ASYNC.format(mark=mark))
    pytester.runpytest().assert_outcomes(passed=4)


def test_headrace_app_may_be_the_suites_own_app(pytester: pytest.Pytester) -> None:
    settings(pytester)
    pytester.makepyfile(
        shop="""
        from headrace import App

        app = App("sqlite:///shop.db")

        @app.task
        def ship(order: int) -> int:
            return order
        """
    )
    pytester.makeconftest(
        """
        import pytest
        import shop

        @pytest.fixture
        def headrace_app():
            return shop.app
        """
    )
    pytester.makepyfile(
        """
        from pathlib import Path
        from shop import app, ship

        def test_ship(headrace_kit):
            app.sync.enqueue(ship.call(7))
            headrace_kit.assert_enqueued(ship, args=(7,), count=1)

        def test_nothing_is_left_of_it(headrace_kit):
            headrace_kit.assert_not_enqueued()
            assert not Path("shop.db").exists()
        """
    )
    pytester.runpytest("-p", "no:asyncio").assert_outcomes(passed=2)


def test_a_failed_assertion_shows_the_test_and_not_the_kit(pytester: pytest.Pytester) -> None:
    settings(pytester)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def ship(headrace_app):
            @headrace_app.task(name="ship", retry=lambda failures, error: None)
            def ship(order: int) -> None:
                raise LookupError("no such order")

            headrace_app.sync.enqueue(ship.call(7))
            return ship

        def test_assertion(headrace_kit, ship):
            headrace_kit.assert_enqueued(ship, args=(8,))

        def test_job(headrace_kit, ship):
            headrace_kit.sync.drain(raise_errors=True)
        """
    )
    result = pytester.runpytest("-p", "no:asyncio")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            ">       headrace_kit.assert_enqueued(ship, args=(8,))",
            "E       AssertionError: ship with order=8 was not enqueued; enqueued were:",
            "E         ship(order=7) in queue 'default', queued",
            ">       headrace_kit.sync.drain(raise_errors=True)",
            '>       raise LookupError("no such order")',
            "E       LookupError: no such order",
            "E       This is how job * of ship died (exhausted).",
        ]
    )
    result.stdout.no_fnmatch_line("*wanted = expected(*")


def test_a_suite_that_asks_for_nothing_notices_nothing(pytester: pytest.Pytester) -> None:
    settings(pytester)
    pytester.makepyfile(
        """
        def test_nothing(request):
            assert not [name for name in request.fixturenames if "headrace" in name]
        """
    )
    pytester.runpytest("-p", "no:asyncio", "--strict-markers").assert_outcomes(passed=1)
    pytester.runpytest("-p", "no:asyncio", "-p", "no:headrace").assert_outcomes(passed=1)


def test_pytest_finds_the_plugin() -> None:
    assert [point.value for point in entry_points(group="pytest11", name="headrace")] == [
        "headrace.testing.plugin"
    ]


def test_loading_it_is_light_and_the_kit_needs_no_pytest() -> None:
    script = """
import sys
sys.modules["pytest"] = None
import headrace.testing
del sys.modules["pytest"]
import headrace.testing.plugin
heavy = {"anyio", "apsw", "click", "hypothesis", "pydantic", "redis", "rich", "sqlite3", "unittest", "uvloop"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
