from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace import App, JobStatus
from headrace.cli.commands import dead
from headrace.cli.output import confirm
from tests.unit.cli.conftest import Shell

Enqueue = Callable[..., Any]


@pytest.fixture(autouse=True)
def letters(app: App, enqueue: Enqueue, drain: Callable[[], None]) -> None:
    """Three dead letters of two tasks in two queues."""
    enqueue("shop.mail", "ada", job_id="ada")
    enqueue("shop.mail", "bob", job_id="bob")
    enqueue("shop.refuse", job_id="never")
    drain()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sits there."""
    monkeypatch.setattr(confirm, "is_terminal", lambda stream: True)


def left(shell: Shell) -> set[str]:
    return {letter["id"] for letter in shell.json("dead", "shop:app")}


def status(app: App, id: str) -> JobStatus:
    info = app.sync.admin.job(id)
    return info.status if info else JobStatus.UNKNOWN


def test_dead_letters_are_listed_and_chosen(headrace: Shell) -> None:
    assert left(headrace) == {"ada", "bob", "never"}
    assert {each["id"] for each in headrace.json("dead", "list", "shop:app", "--queue", "mails")} == {
        "ada",
        "bob",
    }
    [letter] = headrace.json("dead", "shop:app", "--reason", "unrecoverable")
    assert (letter["id"], letter["task"], letter["attempts"]) == ("never", "shop.refuse", 1)
    assert headrace.json("dead", "shop:app", "--task", "shop.add") == []
    assert headrace("dead", "shop:app", "--task", "shop.add").stdout == "no dead letters\n"


def test_the_table_has_the_reason_and_the_error(headrace: Shell) -> None:
    lines = {line.split()[0]: line for line in headrace("dead", "shop:app").stdout.splitlines()}
    assert "exhausted" in lines["ada"]
    assert "ValueError: cannot send to ada" in lines["ada"]


def test_one_is_shown_and_what_is_not_dead_is_not(app: App, headrace: Shell, enqueue: Enqueue) -> None:
    assert 'to = "bob"' in headrace("dead", "show", "shop:app", "bob").stdout
    assert headrace.json("dead", "show", "shop:app", "bob")["args"] == ["bob"]
    enqueue("shop.add", 1, job_id="alive")
    assert "alive is not dead: it is queued" in headrace.failed("dead", "show", "shop:app", "alive")


def test_those_named_are_replayed_without_asking(app: App, headrace: Shell) -> None:
    result = headrace("dead", "replay", "shop:app", "ada", "never")
    assert (result.exit_code, result.stdout) == (0, "2 dead letters replayed\n")
    assert left(headrace) == {"bob"}
    assert status(app, "ada") is JobStatus.QUEUED


def test_an_id_that_is_no_dead_letter_is_a_failure_but_the_others_are_replayed(headrace: Shell) -> None:
    result = headrace("dead", "replay", "shop:app", "ada", "nix", "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stdout) == {"replayed": 1, "duplicates": [], "missing": ["nix"]}
    assert "there is no dead letter nix" in result.stderr


def test_many_are_replayed_in_steps(headrace: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "STEP", 1)
    assert headrace("dead", "replay", "shop:app", "--all", "--yes").stdout == "3 dead letters replayed\n"
    assert left(headrace) == set()


@pytest.mark.parametrize("chosen", [("--queue", "mails"), ("ada", "bob"), ("bob", "ada")], ids=" ".join)
def test_they_are_chosen_in_the_order_in_which_they_died(headrace: Shell, chosen: tuple[str, ...]) -> None:
    listed = [each["id"] for each in headrace.json("dead", "shop:app", "--queue", "mails")]
    assert headrace.json("dead", "replay", "shop:app", *chosen, "--dry-run")["ids"] == listed[::-1]


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_where_nobody_can_be_asked_yes_must_be_said(headrace: Shell, verb: str) -> None:
    assert "add --yes" in headrace.refused("dead", verb, "shop:app", "--all")
    assert left(headrace) == {"ada", "bob", "never"}


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked(headrace: Shell) -> None:
    refusal = headrace("dead", "discard", "shop:app", "--all", typed="n\n")
    assert refusal.exit_code == 1
    assert "Discard 3 dead letters for good?" in refusal.stderr
    assert left(headrace) == {"ada", "bob", "never"}
    assert headrace("dead", "discard", "shop:app", "--queue", "mails", typed="y\n").exit_code == 0
    assert left(headrace) == {"never"}


@pytest.mark.usefixtures("terminal")
def test_yes_skips_the_question(app: App, headrace: Shell) -> None:
    result = headrace("dead", "discard", "shop:app", "ada", "--yes")
    assert (result.stdout, result.stderr) == ("1 dead letter discarded\n", "")
    assert status(app, "ada") is JobStatus.UNKNOWN


def test_a_dry_run_changes_nothing(headrace: Shell) -> None:
    text = headrace("dead", "discard", "shop:app", "--task", "shop.mail", "--dry-run").stdout
    assert "ada of mails" in text
    assert "2 dead letters would be discarded; nothing was changed" in text
    document = headrace.json("dead", "replay", "shop:app", "--all", "--dry-run")
    assert (document["dry_run"], document["replayed"], set(document["ids"])) == (
        True,
        3,
        {"ada", "bob", "never"},
    )
    assert left(headrace) == {"ada", "bob", "never"}


def test_which_ones_must_be_said_and_said_once(headrace: Shell) -> None:
    assert "Say which" in headrace.refused("dead", "replay", "shop:app")
    assert "not both" in headrace.refused("dead", "discard", "shop:app", "ada", "--all")
    assert "is not one of" in headrace.refused("dead", "discard", "shop:app", "--reason", "boredom")


# --- events --------------------------------------------------------------------------------------------


@pytest.fixture
def three(publish: Callable[..., str], drain: Callable[[], None]) -> str:
    """An event that is dead in two groups."""
    id = publish(3, key="customer-3")
    drain()
    return id


def of_groups(shell: Shell, *words: str) -> list[tuple[str, str]]:
    found = shell.json("dead", "shop:app", *words)
    return sorted((letter["id"], letter["group"]) for letter in found if letter["topic"])


def test_dead_events_are_listed_beside_dead_jobs(headrace: Shell, three: str) -> None:
    assert left(headrace) == {"ada", "bob", "never", three}
    assert of_groups(headrace) == [(three, "audit"), (three, "billing")]
    assert of_groups(headrace, "--topic", "orders", "--group", "audit") == [(three, "audit")]
    assert len(headrace.json("dead", "shop:app", "--topic", "orders")) == 2
    text = headrace("dead", "list", "shop:app", "--topic", "orders", "--group", "billing").stdout
    assert "orders/billing" in text
    assert "ValueError: no bill for 3" in text


def test_a_dead_event_is_shown_with_its_payload(headrace: Shell, three: str) -> None:
    text = headrace("dead", "show", "shop:app", three, "--topic", "orders", "--group", "billing").stdout
    assert '{"number":3,"card":"***","at":null}' in text
    assert "customer-3" in text
    assert "no bill for 3" in text
    document = headrace.json("dead", "show", "shop:app", three)
    assert (document["topic"], document["group"], document["queue"]) == ("orders", "audit", "")
    assert document["event"]["payload"] == {"number": 3, "card": "***", "at": None}


def test_an_event_is_replayed_where_it_died(app: App, headrace: Shell, three: str) -> None:
    text = headrace("dead", "replay", "shop:app", three, "--dry-run").stdout
    assert f"{three} of orders/audit" in text
    assert "2 dead letters would be replayed" in text
    result = headrace("dead", "replay", "shop:app", three, "--topic", "orders", "--group", "billing")
    assert result.stdout == "1 dead letter replayed\n"
    assert of_groups(headrace) == [(three, "audit")]
    assert headrace("dead", "replay", "shop:app", three).stdout == "1 dead letter replayed\n"
    assert of_groups(headrace) == []


def test_the_dead_events_of_a_group_are_discarded(headrace: Shell, three: str) -> None:
    result = headrace("dead", "discard", "shop:app", "--topic", "orders", "--group", "billing", "--yes")
    assert result.stdout == "1 dead letter discarded\n"
    assert of_groups(headrace) == [(three, "audit")]
    assert left(headrace) == {"ada", "bob", "never", three}


def test_a_place_that_makes_no_sense_is_refused(headrace: Shell) -> None:
    assert "--group needs --topic" in headrace.refused("dead", "shop:app", "--group", "billing")
    assert "not both" in headrace.refused("dead", "shop:app", "--queue", "mails", "--topic", "orders")
    result = headrace("dead", "shop:app", "--topic", "ordres")
    assert (result.exit_code, result.stdout) == (0, "no dead letters\n")
    assert "did you mean orders?" in result.stderr
