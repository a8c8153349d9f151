"""For Starlette, and what is built on it: the app opens and closes with the site, and a worker may run in its
process. The login of the site protects the dashboard. A browser follows a job by server-sent events.

    from headrace.starlette import JobEvents, dashboard, lifespan

    events = JobEvents(app)
    site = Starlette(
        lifespan=lifespan(app),
        routes=[
            Route("/jobs/{job_id}/events", events.stream),
            Mount("/admin/jobs", dashboard(app, allow=is_staff, login="/login")),
        ],
    )
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final, TypedDict
from urllib.parse import urlencode

import msgspec

from headrace.app import App
from headrace.core.encoding.encoding import encode
from headrace.core.errors import (
    BackendUnavailable,
    ConfigurationError,
    PayloadError,
    ResultError,
    ResultTimeout,
)
from headrace.core.records.job_info import JobInfo, JobProgress
from headrace.core.records.record import JobStatus
from headrace.core.values.durations import Duration, positive_seconds
from headrace.core.values.secret import masked
from headrace.core.values.whole_numbers import positive_number
from headrace.dashboard import asgi
from headrace.engine.intake.served_names import QueueNames
from headrace.jobs.handles.job import Job

try:
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
    from starlette.types import ASGIApp, Receive, Scope, Send
except ModuleNotFoundError as error:
    if error.name != "starlette":
        raise
    raise ConfigurationError(
        "headrace.starlette needs starlette: pip install 'headrace[starlette]'"
    ) from error

from headrace.dashboard.access.access import Authenticate

__all__ = ["InProcessWorker", "JobEvents", "dashboard", "lifespan"]

#: A lifespan of Starlette: a function of the site. What it yields is `request.state`.
SiteLifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]

#: Where `request.state` has the app.
STATE: Final = "headrace"

#: Seconds for which the result of a job that has ended is waited for.
RESULT_TIMEOUT: Final = 5.0

#: Milliseconds after which a browser asks again when its stream has ended.
RETRY: Final = 1000

_encode = msgspec.json.Encoder().encode


class InProcessWorker(TypedDict, total=False):
    """The options of a worker in the process of the site, as those of `App.worker`."""

    queues: QueueNames
    topics: Sequence[str]
    concurrency: int
    children: int
    lease: Duration
    grace: Duration


def lifespan(
    app: App, *, worker: bool | InProcessWorker = False, site: SiteLifespan | None = None
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """The lifespan of a site that uses the app: `Starlette(lifespan=lifespan(app))`.

    The app opens before the first request and closes after the last one. `request.state.headrace` is the app.

    - `worker`: True, or options such as `{"concurrency": 10}`, run a worker in each process of the site.
      False (the default): workers have processes of their own
    - `site`: the lifespan that the site has itself. It begins before the worker and ends after it, so jobs
      can use what it opens
    """

    @asynccontextmanager
    async def opened(application: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app)
            own = None if site is None else await stack.enter_async_context(site(application))
            if worker is not False:
                await stack.enter_async_context(app.worker(**({} if worker is True else worker)))
            yield {**(own or {}), STATE: app}

    return opened


def dashboard(app: App, allow: Authenticate, *, login: str | None = None, read_only: bool = False) -> ASGIApp:
    """The dashboard for the users of a site: `Mount("/admin/jobs", dashboard(app, allow=is_staff))`.

    - `allow`: a function of the request, plain or async. It returns True for a user who may see and change
      jobs. It sees what the middleware of the site has added: `request.session`, `request.user`
    - `login`: the page of the site where users log in. The browser of a user who may not see a page is sent
      there, with the address of the page as `next`. None: the answer is 403
    - `read_only`: nothing can be changed
    """
    pages = asgi(app, authenticate=allow, read_only=read_only)
    return pages if login is None else LoginRedirect(pages, allow, login)


class LoginRedirect:
    """ASGI middleware: sends the browser of a user who may not see a page to the login of the site."""

    def __init__(self, pages: ASGIApp, allow: Authenticate, login: str) -> None:
        self._pages = pages
        self._allow = allow
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._pages
        if scope["type"] == "http" and await self._must_log_in(request := Request(scope, receive)):
            query = f"?{request.url.query}" if request.url.query else ""
            answer = RedirectResponse(f"{self._login}?{urlencode({'next': request.url.path + query})}", 303)
        await answer(scope, receive, send)

    async def _must_log_in(self, request: Request) -> bool:
        """Only pages are sent there. A form or a live page gets the refusal of the dashboard."""
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return False
        allowed = self._allow(request)
        return (await allowed if inspect.isawaitable(allowed) else allowed) is not True


class JobUpdate(msgspec.Struct, omit_defaults=True):
    """What a browser learns about a job."""

    id: str
    task: str
    status: JobStatus
    attempts: int = 0
    progress: JobProgress | None = None
    error: str | None = None
    result: Any = None


class JobEvents:
    """Streams a job to a browser as server-sent events: status, progress, and at the end the result.

    Each event `job` has the whole state as JSON, and the last event is `end`. A browser that lost its
    connection asks again and misses nothing.

    - `app`: the app whose jobs are followed
    - `interval`: seconds between two looks at the progress. The end of a job is sent at once
    - `keep_alive`: seconds of silence after which a comment is sent, since proxies end silent connections
    - `longest`: seconds after which a stream ends; the browser asks again. It also bounds how long a server
      that stops waits for its streams
    - `most`: streams at a time in this process; then the answer is 503
    - `errors`: False (the default): a failed job has the status `dead` and nothing more, because errors may
      quote what a user must not see. True: `error` has the class and the text of its error
    """

    def __init__(
        self,
        app: App,
        *,
        interval: Duration = 0.5,
        keep_alive: Duration = 15,
        longest: Duration = 300,
        most: int = 1000,
        errors: bool = False,
    ) -> None:
        self._app = app
        self._interval = positive_seconds("interval", interval)
        self._keep_alive = positive_seconds("keep_alive", keep_alive)
        self._longest = positive_seconds("longest", longest)
        self._most = positive_number("most", most)
        self._errors = errors
        self._open = 0

    async def stream(self, request: Request, job_id: str | None = None) -> Response:
        """The answer to a request: the stream of a job, 404 when the store knows no such job.

        It is the endpoint of a route with `{job_id}`. A site whose users have jobs of their own calls it
        from an endpoint that has checked whose job this is.

        - `request`: the request. The stream ends when its client leaves
        - `job_id`: the id of the job. None: the path of the request has it
        """
        if self._open >= self._most:
            return too_many()
        job = self._app.job(request.path_params["job_id"] if job_id is None else job_id)
        try:
            info = await job.info()
        except BackendUnavailable:
            return PlainTextResponse("the store of the jobs cannot be reached; try again later", 503)
        if info.status is JobStatus.UNKNOWN:
            return PlainTextResponse("there is no such job", 404)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        events = self._events(request, self._app.job(info.id, queue=info.queue), info)
        return JobStream(events, counted=self._counted, headers=headers)

    @contextmanager
    def _counted(self) -> Iterator[bool]:
        """Whether there is room for one more stream, which is counted then."""
        has_room = self._open < self._most
        self._open += has_room
        try:
            yield has_room
        finally:
            self._open -= has_room

    async def _events(self, request: Request, job: Job[Any], info: JobInfo) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % RETRY
        try:
            async for event in self._changes(request, job, info):
                yield event
        except BackendUnavailable:
            return  # the browser asks again

    async def _changes(self, request: Request, job: Job[Any], info: JobInfo) -> AsyncIterator[bytes]:
        """An event for each change until the job has ended, the client has left or the time is up."""
        ends_at = time.monotonic() + self._longest
        last, sent_at = b"", 0.0
        while not await request.is_disconnected() and time.monotonic() < ends_at:
            if info.status.over:
                yield await self._end(job, info)
                return
            event = b"event: job\ndata: " + _encode(self._update(info)) + b"\n\n"
            if event != last:
                last, sent_at = event, time.monotonic()
                yield event
            elif time.monotonic() - sent_at >= self._keep_alive:
                sent_at = time.monotonic()
                yield b": the job goes on\n\n"
            info = await self._next(job)

    async def _next(self, job: Job[Any]) -> JobInfo:
        """The state of the job after an interval, or as soon as it has ended."""
        try:
            await job.wait(timeout=self._interval)
        except ResultTimeout:
            pass
        return await job.info()

    async def _end(self, job: Job[Any], info: JobInfo) -> bytes:
        update = self._update(info)
        if info.status is JobStatus.SUCCEEDED:
            try:
                update.result = plain(await job.result(timeout=RESULT_TIMEOUT))
            except (ResultError, PayloadError):
                pass  # it has just expired, or was made by a codec or a key that this app does not have
        return b"event: end\ndata: " + _encode(update) + b"\n\n"

    def _update(self, info: JobInfo) -> JobUpdate:
        error = f"{info.error_type}: {info.error}" if self._errors and info.error_type else None
        return JobUpdate(info.id, info.task, info.status, info.attempts, info.progress, error)


class JobStream(StreamingResponse):
    """A stream that asks for room when it begins: many requests may have passed the first look together."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        counted: Callable[[], AbstractContextManager[bool]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(events, headers=headers)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted() as has_room:
            if has_room:
                await super().__call__(scope, receive, send)
                return
        await too_many()(scope, receive, send)


def too_many() -> Response:
    return PlainTextResponse("too many jobs are followed here; try again later", 503)


def plain(value: object) -> object:
    """A result as plain data, with `***` for each secret."""
    return msgspec.msgpack.decode(encode(value), ext_hook=masked)
