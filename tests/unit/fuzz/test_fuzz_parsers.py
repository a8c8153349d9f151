"""Whatever text is given as a URL, a schedule or a duration, it is taken or refused with a clear error."""

from __future__ import annotations

import contextlib

from hypothesis import strategies as st

from headrace import App, ConfigurationError
from headrace.core.schedules.schedule import CatchUp
from headrace.jobs.scheduling.timing import timing_of
from headrace.stores import SCHEMES, open_store

from .strategies import bounded, fuzz

_part = st.text(max_size=12) | st.sampled_from(
    [
        "host",
        "localhost",
        "[::1]",
        "[",
        "]",
        "a,b",
        "h:6379",
        "h:0",
        "h:99999",
        "h:x",
        ":pw@h",
        "u:p@h",
        "%zz",
    ]
)
_options = st.sampled_from(
    [
        "db=1",
        "db=x",
        "db=-1",
        "ssl_cert_reqs=none",
        "ssl_cert_reqs=x",
        "sentinel_password=%ff",
        "a=b",
        "db",
        "=",
    ]
)


@st.composite
def _urls(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(sorted(SCHEMES)) | st.text(max_size=6))
    mark = draw(st.sampled_from(["://", ":///", ":", "//", ""]))
    path = draw(st.sampled_from(["", "/", "/0", "/jobs/0", "/x/y/z", "//", "/~", "/a.db?b=c", "/\0"]))
    query = draw(
        st.sampled_from(["", "?", "?" + draw(_options), "?" + draw(_options) + "&" + draw(_options)])
    )
    return scheme + mark + draw(_part) + path + query + draw(st.sampled_from(["", "#x"]))


def a_url_is_taken_or_refused(url: str) -> None:
    with bounded(), contextlib.suppress(ConfigurationError):
        store = open_store(url)
        assert isinstance(store.description, str)


test_urls, test_urls_at_length = fuzz(a_url_is_taken_or_refused, url=_urls() | st.text(max_size=40))


def no_error_of_a_url_shows_the_password(url: str) -> None:
    try:
        open_store(url)
    except ConfigurationError as error:
        assert "hush-hush" not in str(error), str(error)  # noqa: PT017 - most URLs are taken


test_passwords, test_passwords_at_length = fuzz(
    no_error_of_a_url_shows_the_password,
    url=st.builds(
        "{}://{}hush-hush@{}{}".format,
        st.sampled_from(sorted(name for name in SCHEMES if SCHEMES[name][1])),
        st.sampled_from(["", ":", "user:", "a:b:"]),
        _part,
        st.sampled_from(["", "/x", "/0?db=x", "?ssl=1", "?a=b&db=1", "#1"]),
    ),
)

_field = st.one_of(
    st.text(max_size=6),
    st.text("0123456789*/-,?LW# ", max_size=10),
    st.sampled_from(
        ["*", "0", "59", "*/5", "1-5", "mon-fri", "mon#2", "5L", "L", "31", "2", "*/0", "99999999999"]
    ),
)
_cron = st.one_of(
    st.text(max_size=30),
    st.lists(_field, min_size=4, max_size=7).map(" ".join),
    st.sampled_from(
        ["0 0 30 2 *", "0 0 29 2 *", "0 0 29 2 mon", "* * * * *", "0 0 31 2,4,6 *", "@daily", "@reboot"]
    ),
    st.sampled_from(["1,", "*/", "0-59/"]).map(lambda text: text * 5_000),
)
_zones = st.sampled_from(
    ["UTC", "Europe/London", "America/Sao_Paulo", "../../etc/passwd", "", ".", "/", "\0", "x" * 999]
)


def a_cron_expression_is_taken_or_refused(cron: str, tz: str, catch_up: CatchUp) -> None:
    with bounded(), contextlib.suppress(ConfigurationError):
        timing_of(cron, None, tz, catch_up, 0)


test_cron, test_cron_at_length = fuzz(
    a_cron_expression_is_taken_or_refused,
    cron=_cron,
    tz=_zones | st.text(max_size=10),
    catch_up=st.sampled_from(["skip", "one", "all", "never"]),
)

_anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.timedeltas(),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
)


def a_duration_is_taken_or_refused(value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        timing_of(None, value, None, "skip", 0)  # type: ignore[arg-type]
    with contextlib.suppress(ConfigurationError):
        timing_of(None, 60, None, "skip", value)  # type: ignore[arg-type]
    for option in (
        "result_ttl",
        "max_payload",
        "queue_limit",
        "job_logs",
        "codec",
        "credentials",
        "retry",
        "namespace",
    ):
        with contextlib.suppress(ConfigurationError):
            App("memory://", **{option: value})  # type: ignore[arg-type]


test_durations, test_durations_at_length = fuzz(a_duration_is_taken_or_refused, value=_anything)
