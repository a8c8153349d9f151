"""`--metrics-port`: probes and metrics of real worker processes, and how little the port tells and
accepts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace import ConfigurationError
from headrace.cli.worker.metrics_port import metrics_port
from headrace.observability import port as port_module
from headrace.observability.port import MOST_BYTES, Port, PortAnswer, text
from tests.integration.support.worker_processes import WorkerProcess, Workshop
from tests.support.servers import also
from tests.support.waiting import wait_until

# --- worker processes ------------------------------------------------------------------------------------


async def get(url: str) -> tuple[int, str]:
    """The status and the body; a connection that is refused raises."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


def address(worker: WorkerProcess) -> str:
    """Where it listens, as it says itself."""
    found = re.search(r"metrics on (http://\S+)/metrics", worker.output)
    assert found, worker.output
    return found[1]


def samples(exposition: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.mark.parametrize("workshop", ["sqlite", *also("redis-6.2")], indirect=True)
async def test_a_worker_answers_probes_and_scrapes(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--metrics-port", "0")
    jobs = await workshop.app.enqueue_many([workshop.task("quick").call(n) for n in range(50)])
    await asyncio.gather(*(job.wait(timeout=20) for job in jobs))
    held = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=held.id))
    url = address(worker)
    ended = key("headrace_jobs_ended_total", task="quick", queue="default", outcome="succeeded")

    async def all_counted() -> bool:
        status, body = await get(f"{url}/metrics")
        assert status == 200
        return samples(body).get(ended) == 50

    await workshop.until(all_counted)
    told = samples((await get(f"{url}/metrics"))[1])
    assert told[key("headrace_job_wait_seconds_count", task="quick", queue="default")] == 50
    assert told[key("headrace_worker_running")] == 1
    assert told[key("headrace_worker_slots")] == 100
    assert told[key("headrace_store_up")] == 1
    assert key("headrace_queue_jobs", queue="default", state="queued") in told
    assert key("process_cpu_seconds_total") in told  # the process's own numbers are beside them
    status, body = await get(f"{url}/healthz")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    assert json.loads(body)["last_poll_seconds"] < 30
    assert (await get(f"{url}/readyz"))[0] == 200


@pytest.mark.more
@pytest.mark.parametrize("workshop", ["redis-6.2"], indirect=True)
async def test_while_the_store_is_away_a_worker_is_not_ready_and_says_so(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--metrics-port", "0")
    url = address(worker)

    async def is_ready() -> bool:
        return (await get(f"{url}/readyz"))[0] == 200

    async def is_not_ready() -> bool:
        return not await is_ready()

    async def tells(up: float) -> bool:
        told = samples((await get(f"{url}/metrics"))[1])
        return told.get(key("headrace_store_up")) == up

    await workshop.until(is_ready)
    workshop.server.kill()
    await workshop.until(is_not_ready)
    assert (await get(f"{url}/healthz"))[0] == 200  # for half a minute
    await workshop.until(lambda: tells(0.0))
    told = samples((await get(f"{url}/metrics"))[1])
    assert told[key("headrace_store_errors_total", service="fetcher")] >= 1
    workshop.server.start()
    await workshop.until(is_ready)
    await workshop.until(lambda: tells(1.0))


async def test_a_worker_that_stops_is_alive_but_not_ready(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--metrics-port", "0", "--grace", "30")
    job = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    worker.send(signal.SIGTERM)
    await workshop.until(lambda: "stopping" in worker.output)
    assert (await get(f"{address(worker)}/readyz"))[0] == 503
    assert (await get(f"{address(worker)}/healthz"))[0] == 200
    worker.send(signal.SIGTERM)
    assert worker.exit_code() == 0


async def test_of_several_processes_each_has_the_next_port(workshop: Workshop) -> None:
    first = _two_free_ports()
    workers = workshop.start("--metrics-port", str(first), "--processes", "2")
    await workshop.until(lambda: len(workshop.log.lines("working")) == 2)
    for port in (first, first + 1):
        status, body = await get(f"http://127.0.0.1:{port}/metrics")
        assert (status, samples(body)[key("headrace_worker_slots")]) == (200, 100)
    workers.send(signal.SIGTERM)
    assert workers.exit_code() == 0


def _two_free_ports() -> int:
    """The first of two that are free, and below those that the system gives away by itself."""
    for port in range(20_000, 30_000, 2):
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


async def test_a_port_that_is_taken_is_wrong_usage(workshop: Workshop) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker = workshop.start("--metrics-port", str(taken.getsockname()[1]))
        assert worker.exit_code() == 2
    assert "cannot listen on 127.0.0.1" in worker.output
    assert "Traceback" not in worker.output


async def test_without_the_flag_there_is_no_port(workshop: Workshop) -> None:
    worker = await workshop.start_ready()
    assert "metrics on" not in worker.output


async def test_logs_are_json_on_request_and_say_for_which_job(workshop: Workshop) -> None:
    worker = workshop.start("--log-format", "json", "--burst")
    assert worker.exit_code() == 0
    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert {"WorkerStarted", "WorkerStopped"} <= {line.get("signal") for line in lines}


async def test_without_prometheus_client_the_probes_answer_and_metrics_say_what_to_install(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "headrace.observability.prometheus", raising=False)
    caplog.set_level("INFO", "headrace")
    worker = workshop.app.worker()
    async with metrics_port(workshop.app, worker, "127.0.0.1", 0) as opened:
        assert opened is not None
        assert (await get(f"{opened.url}/readyz"))[0] == 503
        async with worker:
            assert (await get(f"{opened.url}/readyz"))[0] == 200
            assert (await get(f"{opened.url}/healthz"))[0] == 200
            status, body = await get(f"{opened.url}/metrics")
            assert (status, "headrace[prometheus]" in body) == (501, True)
    assert "there will be no /metrics" in caplog.text
    assert "metrics on" not in caplog.text


@pytest.mark.parametrize(
    ("listening", "name", "status"),
    [
        ("127.0.0.1", "evil.example", 403),
        ("127.0.0.1", "evil.example:9464", 403),
        ("127.0.0.1", "localhost.evil.example", 403),
        ("127.0.0.1", "worker", 403),
        ("127.0.0.1", "[::1", 403),
        ("127.0.0.1", "localhost:9464", 503),
        ("127.0.0.1", "[::1]:9464", 503),
        ("127.0.0.1", "jobs.example:9464", 503),
        ("0.0.0.0", "evil.example", 403),
        ("0.0.0.0", "10.0.0.7:9464", 503),
        ("0.0.0.0", "worker:9464", 503),
        ("0.0.0.0", "Jobs.example", 503),
    ],
)
async def test_the_port_is_asked_by_its_own_names_alone(
    workshop: Workshop, listening: str, name: str, status: int
) -> None:
    worker = workshop.app.worker()
    async with metrics_port(workshop.app, worker, listening, 0, ["jobs.example"]) as opened:
        assert opened is not None
        answer = await say(opened, f"GET /readyz HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())  # 503: it has not started


async def test_a_worker_says_by_which_names_it_is_asked(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--metrics-port", "0", "--metrics-names", "jobs.example")
    port = address(worker).rpartition(":")[2]
    for name, status in (("jobs.example", 200), ("evil.example", 403)):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        assert (await reader.read()).startswith(f"HTTP/1.1 {status} ".encode())
        writer.close()


# --- the port itself -------------------------------------------------------------------------------------


async def _hello(headers: Mapping[str, str]) -> PortAnswer:
    return text(f"hello {headers.get('accept', '')}")


async def _broken(headers: Mapping[str, str]) -> PortAnswer:
    raise ValueError("no")


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    async with Port("127.0.0.1", 0, {"/hello": _hello, "/broken": _broken}) as port:
        yield port


async def say(port: Port, request: bytes) -> bytes:
    """Whatever comes back until the other side hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_it_answers_a_get_with_headers_and_a_query(port: Port) -> None:
    answer = await say(port, b"GET /hello?x=1 HTTP/1.1\r\nHost: here\r\nACCEPT: text/plain\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"hello text/plain\n"
    assert f"Content-Length: {len(body)}".encode() in head


async def test_a_head_is_an_answer_without_its_body(port: Port) -> None:
    answer = await say(port, b"HEAD /hello HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /hello HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500"),
        (b"\x16\x03\x01\x02\x00 this is TLS\r\n\r\n", b"405"),
        (b"GET\r\n\r\n", b"405"),
        (b"GET /hello HTTP/1.1\r\nX: " + b"x" * 2 * MOST_BYTES + b"\r\n\r\n", b"431"),
    ],
    ids=["unknown path", "POST", "an error", "TLS", "half a line", "too long"],
)
async def test_what_is_not_right_gets_a_status(port: Port, request_bytes: bytes, status: bytes) -> None:
    answer = await say(port, request_bytes)
    # Where bytes were left unread the system may reset the connection before the answer is read.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 " + status + b" ")


async def test_who_says_nothing_is_hung_up_on(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MOST_SECONDS", 0.05)
    assert await say(port, b"GET /hel") == b""
    assert (await say(port, b"GET /hello HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_who_says_nothing_keeps_nobody_out(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "MOST_SECONDS", 50.0)
    async with asyncio.timeout(port_module.MOST_SECONDS / 2):
        idle = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(60)]
        assert (await say(port, b"GET /hello HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await idle[0][0].read() == b""  # the first made room
    for _, writer in idle:
        writer.close()


async def test_leaving_ends_conversations_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async with Port("127.0.0.1", 0, {"/hello": _hello}) as port:
        said = asyncio.create_task(say(port, b"GET /hel"))
        await wait_until(lambda: port._conversations)
    assert await said == b""
    assert caplog.records == []


async def test_a_port_that_is_taken_says_what_to_do(port: Port) -> None:
    with pytest.raises(ConfigurationError, match="another --metrics-port"):
        async with Port("127.0.0.1", port.port, {}):
            pass
