"""Options are checked where they are written, with a sentence about what is wrong."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from headrace import App, ConfigurationError, RetryPolicy, UnknownTask, signals
from headrace.jobs.options import AS_DECLARED, CallOptions, TaskOptions


@pytest.fixture
def app() -> App:
    return App("memory://")


async def send(to: str) -> None: ...


WRONG_FOR_A_TASK = [
    ({"queue": "two words"}, "queue name 'two words'"),
    ({"queue": 7}, "queue name 7"),
    ({"name": "with space"}, "task name 'with space'"),
    ({"name": ""}, "task name ''"),
    ({"name": None}, "task name None"),
    ({"priority": "urgent"}, "priority must be one of high, normal, low, not 'urgent'"),
    ({"priority": ["high"]}, "priority must be one of high, normal, low"),
    ({"retry": 3}, "retry must be a RetryPolicy or a function"),
    ({"timeout": -1}, "timeout must be seconds"),
    ({"timeout": 0}, "timeout must be more than 0"),
    ({"timeout": "1 min"}, "timeout must be seconds"),
    ({"result_ttl": -1}, "result_ttl must be seconds"),
    ({"unique": "yes"}, "unique must be True or False"),
    ({"unique_until": "later"}, "unique_until must be 'started', 'finished' or seconds"),
    ({"unique_until": 0}, "unique_until must be more than 0"),
    ({"expires": 0}, "expires must be more than 0"),
    ({"priority": None}, "priority must be one of"),
    ({"max_retries": 3}, r"task\(\) has no option 'max_retries'; it has batch, "),
    ({"delay": 3}, r"task\(\) has no option 'delay'"),
]

WRONG_FOR_A_CALL = [
    ({"delay": -1}, "delay must be seconds"),
    ({"at": datetime(2030, 1, 1)}, "at must be a datetime with a time zone"),
    ({"at": 1234567890}, "at must be a datetime with a time zone"),
    ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay= or at=, not both"),
    ({"queue": ""}, "queue name ''"),
    ({"priority": 1}, "priority must be one of"),
    ({"retry": lambda failures, error: 1}, "for one call, retry must be a RetryPolicy"),
    ({"timeout": 0}, "timeout must be more than 0"),
    ({"job_id": "with space"}, "job_id 'with space' is not allowed"),
    ({"job_id": 7}, "job_id 7 is not allowed"),
    ({"unique": 1}, "unique must be True or False"),
    ({"unique_key": ""}, "unique_key must be a text of 1 to 500 bytes"),
    ({"unique_key": "x" * 501}, "unique_key must be a text"),
    ({"unique_key": "\udcff"}, "unique_key must be a text"),
    ({"unique_until": -1}, "unique_until must be seconds"),
    ({"expires": 0}, "expires must be more than 0"),
    ({"headers": {"a": 1}}, "headers must be a mapping of text to text"),
    ({"headers": {"a": "\ud83d"}}, "headers must be a mapping of text to text"),
    ({"headers": [("a", "b")]}, "headers must be a mapping of text to text"),
    ({"result_ttl": "1 h"}, "result_ttl must be seconds"),
    ({"dely": 1}, r"with_\(\) has no option 'dely'; it has at, debounce, "),
    ({"name": "other"}, r"with_\(\) has no option 'name'"),
]


def test_an_option_that_does_not_exist_is_a_type_error_too() -> None:
    with pytest.raises(TypeError, match="has no option 'lifetime'"):
        App("memory://", lifetime=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("options", "complaint"), WRONG_FOR_A_TASK)
def test_a_wrong_option_of_a_task_is_refused_when_it_is_declared(
    app: App, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        app.task(**options)(send)
    assert not app.tasks


@pytest.mark.parametrize(("options", "complaint"), WRONG_FOR_A_CALL)
def test_a_wrong_option_of_a_call_is_refused_when_it_is_written(
    app: App, options: dict[str, Any], complaint: str
) -> None:
    task = app.task(send)
    with pytest.raises(ConfigurationError, match=complaint):
        task.with_(**options)
    with pytest.raises(ConfigurationError, match=complaint):
        task.call("ada").with_(**options)


def test_the_options_of_a_task_can_be_read(app: App) -> None:
    policy = RetryPolicy.fixed(1, 1)
    task = app.task(
        queue="mails",
        name="mails.send",
        priority="high",
        retry=policy,
        timeout=timedelta(minutes=1),
        result_ttl=60,
        unique=True,
        unique_until="started",
        expires=timedelta(hours=1),
    )(send)
    options = task.options
    assert (options.name, options.queue, options.priority) == ("mails.send", "mails", "high")
    assert (options.timeout, options.result_ttl, options.expires) == (60.0, 60.0, 3600.0)
    assert (options.unique, options.unique_until, options.retry) == (True, "started", policy)
    assert task.name == "mails.send"


def test_a_task_without_options_has_the_defaults(app: App) -> None:
    options = app.task(send).options
    assert (options.queue, options.priority, options.unique) == ("default", "normal", False)
    assert (options.timeout, options.expires, options.retry) == (None, None, None)


def test_an_option_that_is_none_is_left_out(app: App) -> None:
    task = app.task(
        name="mails.send",
        retry=None,
        timeout=None,
        result_ttl=None,
        debounce=None,
        expires=None,
        run_in=None,
        max_running=None,
        rate_limit=None,
        limits=None,
        tenant_by=None,
        ordered_by=None,
    )(send)
    assert task.options == TaskOptions(name="mails.send")


def test_with_lays_options_over_options(app: App) -> None:
    call = app.task(send).with_(delay=5, priority="low").call("ada").with_(priority="high")
    assert (call.options.delay, call.options.priority) == (5.0, "high")
    assert call.args == ("ada",)


def test_with_leaves_the_task_as_it_was(app: App) -> None:
    task = app.task(send)
    task.with_(delay=5)
    assert task.call("ada").options is AS_DECLARED


def test_a_window_may_be_a_timedelta() -> None:
    assert CallOptions().merged({"unique_until": timedelta(minutes=1)}).unique_until == 60.0


def test_a_call_is_a_value_that_says_what_it_is_for(app: App) -> None:
    task = app.task(name="send")(send)
    assert repr(task.call("ada")) == "<Call of send>"
    assert repr(task) == "<Task send>"
    with pytest.raises(AttributeError):
        task.call("ada").args = ()  # type: ignore[misc]


# --- what a task can be made of ------------------------------------------------------------------------


class Mailer:
    async def send(self, to: str) -> str:
        return to

    async def __call__(self, to: str) -> None: ...


async def generator(to: str) -> AsyncIterator[str]:
    yield to


def plain_generator(to: str) -> Iterator[str]:
    yield to


@pytest.mark.parametrize(
    "function",
    [7, None, "send", len, Mailer, Mailer(), functools.partial(send, "ada"), generator, plain_generator],
)
def test_only_functions_become_tasks(app: App, function: Any) -> None:
    with pytest.raises(ConfigurationError):
        app.task()(function)


def test_a_task_is_not_made_of_a_task(app: App) -> None:
    task = app.task(send)
    with pytest.raises(ConfigurationError, match="a task is made from a function"):
        app.task(task)


async def test_a_bound_method_may_be_a_task(app: App) -> None:
    task = app.task(Mailer().send)
    assert await task("ada") == "ada"
    assert task.name == f"{__name__}.Mailer.send"


def test_a_task_keeps_name_module_and_docs_of_its_function(app: App) -> None:
    def render(id: int) -> str:
        """Render a report."""
        return str(id)

    task = app.task(render)
    assert task.__name__ == "render"
    assert task.__doc__ == "Render a report."
    assert task.__module__ == __name__
    assert cast(Any, task).__wrapped__ is render


# --- names ---------------------------------------------------------------------------------------------


def test_a_tasks_default_name_is_where_its_function_stands(app: App) -> None:
    assert app.task(send).name == f"{__name__}.send"


def test_a_local_functions_name_leaves_the_locals_out(app: App) -> None:
    async def local() -> None: ...

    name = app.task(local).name
    assert name == f"{__name__}.test_a_local_functions_name_leaves_the_locals_out.local"


def test_a_lambda_needs_a_name(app: App) -> None:
    with pytest.raises(ConfigurationError, match="give it a name with name="):
        app.task(lambda: None)
    assert app.task(name="nothing")(lambda: None).name == "nothing"


def test_a_name_that_would_be_too_long_must_be_given(app: App) -> None:
    async def local() -> None: ...

    local.__qualname__ = "x" * 200
    with pytest.raises(ConfigurationError, match=r"is too long or .* give it a name with name="):
        app.task(local)


def test_a_script_is_called_by_its_file(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    def report() -> None: ...

    report.__module__ = "__main__"
    report.__qualname__ = "report"
    monkeypatch.setattr(__main__, "__spec__", None)
    monkeypatch.setattr(__main__, "__file__", "/srv/shop/jobs.py", raising=False)
    assert app.task(report).name == "jobs.report"


def test_a_module_run_as_a_program_is_called_by_its_name(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.machinery

    import __main__

    def report() -> None: ...

    report.__module__ = "__main__"
    report.__qualname__ = "report"
    monkeypatch.setattr(__main__, "__spec__", importlib.machinery.ModuleSpec("shop.jobs.__main__", None))
    assert app.task(report).name == "shop.jobs.report"


def test_two_tasks_of_one_name_are_refused(app: App) -> None:
    async def other() -> None: ...

    app.task(name="send")(send)
    with pytest.raises(ConfigurationError, match="two tasks are called 'send'"):
        app.task(name="send")(other)


def test_the_apps_tasks_can_be_listed_but_not_changed(app: App) -> None:
    task = app.task(name="send")(send)
    assert dict(app.tasks) == {"send": task}
    with pytest.raises(TypeError):
        app.tasks["other"] = task  # type: ignore[index]


# --- the app itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"url": "mysql://localhost"}, "'mysql://localhost' is no store that headrace knows"),
        ({"url": "jobs.db"}, "it starts with memory://, sqlite:///"),
        ({"url": ""}, "no store that headrace knows"),
        ({"url": 7}, "a store's URL is a text"),
        ({"url": "memory://a/b"}, "is not a memory store"),
        ({"namespace": "{shop}"}, "namespace name"),
        ({"durability": "relaxed"}, "durability 'relaxed'"),
        ({"durability": "sometimes"}, "durability 'sometimes'"),
        ({"max_payload": 0}, "max_payload must be a whole number"),
        ({"max_payload": "1 MiB"}, "max_payload must be a whole number"),
        ({"queue_limit": 0}, "queue_limit must be a whole number"),
        ({"queue_limit": True}, "queue_limit must be a whole number"),
        ({"result_ttl": -1}, "result_ttl must be seconds"),
        ({"retry": 3}, "retry must be a RetryPolicy"),
        ({"codec": "gzip"}, "a codec has encode"),
        ({"retries": 3}, r"App\(\) has no option 'retries'; it has clock, codec, "),
        ({"lifespan": 3}, "a lifespan is an async context manager's function, not 3"),
        ({"lifetime": None}, r"App\(\) has no option 'lifetime'"),
    ],
)
def test_a_wrong_option_of_an_app_is_refused_in_its_constructor(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        App(**{"url": "memory://", **options})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"queues": "mails"}, "queues must be a list of names"),
        ({"queues": []}, "queues must be a list of names"),
        ({"queues": ["two words"]}, "queue name 'two words'"),
        ({"concurrency": 0}, "concurrency must be a whole number"),
        ({"concurrency": 1.5}, "concurrency must be a whole number"),
        ({"lease": 0}, "lease must be more than 0"),
        ({"lease": 1e-5}, "lease must be 0.01 seconds or more, not 1e-05"),
        ({"grace": -1}, "grace must be seconds"),
        ({"topics": ["orders"]}, "nothing in this app is subscribed to orders"),
        ({"topics": "orders"}, "topics must be a list of names"),
        ({"tenants": ["a"]}, r"worker\(\) has no option 'tenants'"),
    ],
)
def test_a_wrong_option_of_a_worker_is_refused_when_it_is_asked_for(
    app: App, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        app.worker(**options)


def test_the_url_comes_from_the_environment_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_URL", "memory://from-the-environment")
    assert App().url == "memory://from-the-environment"
    assert App("memory://").url == "memory://"


def test_a_worker_serves_the_queues_of_the_tasks_and_the_default_one(app: App) -> None:
    app.task(queue="reports")(send)
    assert app.worker().options.queues == ("default", "reports")
    assert app.worker(queues=["b", "a", "b"]).options.queues == ("b", "a")


def test_a_worker_finds_annotations_that_cannot_work_before_its_first_job(app: App) -> None:
    async def broken(value: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    app.task(name="broken")(broken)
    with pytest.raises(ConfigurationError, match="NoSuchType"):
        app.worker()


@pytest.mark.parametrize("signal", ["JobDied", None, int, signals])
def test_only_signals_can_be_listened_to(app: App, signal: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a signal; signals are in headrace\.signals"):
        app.on(signal)


def test_middleware_must_be_a_function(app: App) -> None:
    with pytest.raises(ConfigurationError, match="middleware is `async def middleware"):
        app.use(7)  # type: ignore[arg-type]


def test_an_app_says_where_it_keeps_its_jobs(app: App) -> None:
    assert repr(app) == f"<App on {app.description}>"
    assert "memory" in app.description


async def test_only_calls_of_the_apps_own_tasks_are_enqueued(app: App) -> None:
    other = App("memory://")
    task = other.task(send)
    with pytest.raises(UnknownTask, match="is not a task of this app"):
        await app.enqueue(task.call("ada"))
    with pytest.raises(ConfigurationError, match="enqueue takes a call"):
        await app.enqueue(task)  # type: ignore[arg-type]
    coroutine = send("ada")
    with pytest.raises(ConfigurationError, match="enqueue takes a call"):
        await app.enqueue_many([coroutine])  # type: ignore[arg-type]
    coroutine.close()
    await asyncio.gather(app.close(), other.close())
