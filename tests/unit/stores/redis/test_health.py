"""Findings that no server on a test stand can be brought to, and ranges of versions."""

from __future__ import annotations

import pytest

from headrace.core.records.findings import Level, fail, ok, warn
from headrace.stores.redis.health.diagnosis import cluster_finding, persistence_finding
from headrace.stores.redis.health.examination import Examined, _merged
from headrace.stores.redis.health.known_bad import flaws_of

LUA, UNBLOCK, XACKDEL = "CVE-2025-49844", "CVE-2026-23479", "CVE-2025-62507"


@pytest.mark.parametrize(
    ("server", "version", "names"),
    [
        ("Redis", "6.2.19", [LUA]),
        ("Redis", "6.2.20", []),
        ("Redis", "7.0.15", [LUA]),
        ("Redis", "7.2.10", [LUA, UNBLOCK]),
        ("Redis", "7.4.6", [UNBLOCK]),
        ("Redis", "8.2.1", [LUA, UNBLOCK, XACKDEL]),
        ("Redis", "8.2.3", [UNBLOCK]),
        ("Redis", "8.6.2", [UNBLOCK]),
        ("Redis", "8.6.3", []),
        ("Redis", "9.0", []),
        ("Valkey", "8.1.3", [LUA]),
        ("Valkey", "8.1.4", []),
        ("Valkey", "9.1.0", []),
        ("Redis", "", []),
        ("Redis", "unstable", []),
    ],
)
def test_flaws_are_known_by_version(server: str, version: str, names: list[str]) -> None:
    assert [flaw.name for flaw in flaws_of(server, version)] == names


def test_a_log_that_cannot_be_written_is_a_failure() -> None:
    facts = {"aof_enabled": "1", "aof_last_write_status": "err"}
    assert persistence_finding(facts, {}).level is Level.FAIL


def test_nodes_that_do_not_answer_are_told_while_the_cluster_goes_on() -> None:
    facts = {"cluster_state": "ok", "cluster_slots_ok": "16384", "cluster_size": "3"}
    assert cluster_finding(facts).level is Level.OK
    assert cluster_finding({**facts, "cluster_slots_pfail": "5461"}).level is Level.WARN


def test_of_several_servers_only_those_in_trouble_are_named() -> None:
    fine, full = ok("memory", "1 MiB"), warn("memory", "90%", "raise it")
    gone = fail("server", "cannot be reached", "start it")
    merged = _merged(
        [
            Examined("a:1", [ok("server", "Redis 8.8"), fine]),
            Examined("b:2", [ok("server", "Redis 8.8"), full]),
            Examined("c:3", [ok("server", "Redis 8.8"), full]),
        ]
    )
    assert merged == [ok("server", "Redis 8.8"), warn("memory", "b:2, c:3: 90%", "raise it")]
    assert _merged([Examined("a:1", [fine]), Examined("", [gone])]) == [fine, gone]
    assert _merged([Examined("a:1", [full])]) == [full]
