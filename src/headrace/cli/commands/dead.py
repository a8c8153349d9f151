"""`headrace dead`: list, show, replay or discard dead letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from itertools import chain, islice
from typing import TypeVar

import click
import msgspec

from headrace.admin.place import Place, place_of
from headrace.app import App
from headrace.cli.output.confirm import confirm, yes_option
from headrace.cli.output.job_page import read_page, show_page
from headrace.cli.output.progress import ProgressBar
from headrace.cli.output.render import (
    echo,
    error_text,
    json_list_option,
    json_option,
    short,
    show,
    show_json,
)
from headrace.cli.output.table import Column, FittedTable
from headrace.cli.target.completion import complete_task
from headrace.cli.target.listing_group import ListingGroup
from headrace.cli.target.place import check_task, known_groups, known_queues, place_options
from headrace.cli.target.store import Command, on_store, on_store_with
from headrace.core.messages.outcome import DeadReason
from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import DeadLetter, JobStatus
from headrace.core.values.times import ago
from headrace.core.values.whole_numbers import counted
from headrace.sync import SyncAdmin

from .jobs import all_pages, find_job, limit_option, tell_if_cut

#: Dead letters replayed or discarded at once.
STEP = 200

T = TypeVar("T")

#: Queue or group → ids of its dead letters.
ChosenLetters = dict[Place, list[str]]

_task_option = click.option(
    "--task", metavar="TASK", help="Only this task, or events of this kind.", shell_complete=complete_task
)
_reason_option = click.option(
    "--reason",
    type=click.Choice(list(map(str, DeadReason))),
    metavar="REASON",
    help=f"Only {', '.join(DeadReason)}.",
)


class LetterSelection(msgspec.Struct, frozen=True):
    """Which dead letters the command line selects."""

    ids: tuple[str, ...]
    place: Place
    task: str | None
    reason: str | None
    everything: bool

    def check(self) -> None:
        narrowed = self.place != Place() or self.task or self.reason
        if not self.ids and not narrowed and not self.everything:
            raise click.UsageError("Say which: one ID or more, --queue, --topic, --task, --reason, or --all.")
        if self.ids and (self.task or self.reason or self.everything):
            raise click.UsageError("Give IDs, or --task, --reason and --all, not both.")


def on_letters(command: Command) -> Command:
    """Give a command the options that select dead letters; it is called with the app and the selection."""

    @place_options
    @_task_option
    @_reason_option
    @click.option("--all", "everything", is_flag=True, help="All of them.")
    @click.option("--dry-run", is_flag=True, help="Only list what would be done.")
    @yes_option
    @json_option
    @on_store_with("[ID...]")
    @wraps(command)
    def run(
        app: App,
        ids: tuple[str, ...],
        place: Place,
        task: str | None,
        reason: str | None,
        everything: bool,
        **options: object,
    ) -> None:
        command(app, LetterSelection(ids, place, task, reason, everything), **options)

    return run


@click.group(cls=ListingGroup)
def dead() -> None:
    """List, replay or discard dead letters.

    Dead letters are jobs that do not run again by themselves, and events that a group does not handle again.
    They are kept with their arguments and the reason.

    \b
    Examples:
      headrace dead shop:app
      headrace dead shop:app --task shop.send_mail --reason exhausted
      headrace dead shop:app --topic orders --group billing
      headrace dead show shop:app 01m7f9vj79fnjrwh4myfs88p3r
      headrace dead replay shop:app --task shop.send_mail
      headrace dead discard shop:app --reason invalid --dry-run
    """


@dead.command("list")
@place_options
@_task_option
@_reason_option
@limit_option
@json_list_option
@on_store
def list_dead(
    app: App, place: Place, task: str | None, reason: str | None, limit: int, as_json: bool
) -> None:
    """List dead letters, the latest of each queue and each group first.

    \b
    Examples:
      headrace dead list shop:app
      headrace dead list shop:app --queue mails --json
      headrace dead list shop:app --topic orders --group billing
    """
    _check_names(app, place, task)
    found = [*islice(_letters(app, place, task, reason), limit + 1)]
    if as_json:
        show_json([_document(letter) for letter in found[:limit]])
    elif found:
        show(_table(found[:limit]))
    else:
        echo("no dead letters")
    tell_if_cut(len(found) > limit, limit)


@dead.command("show")
@place_options
@json_option
@on_store_with("ID")
def show_dead(app: App, ids: tuple[str], place: Place, as_json: bool) -> None:
    """Show a dead letter: its arguments, its history and its error.

    \b
    Examples:
      headrace dead show shop:app 01m7f9vj79fnjrwh4myfs88p3r
    """
    info = find_job(app, ids[0], place)
    if info.status is not JobStatus.DEAD:
        noun = "event" if info.topic else "job"
        raise click.ClickException(f"{noun} {info.id} is not dead: it is {info.status}")
    show_page(app, read_page(app, info), as_json=as_json)


@dead.command("replay")
@on_letters
def replay(app: App, wish: LetterSelection, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Run dead letters again.

    Each keeps its id and starts with zero counts. An event goes to the group in which it died. The command
    asks first, unless you name the ids.

    \b
    Examples:
      headrace dead replay shop:app 01m7f9vj79fnjrwh4myfs88p3r
      headrace dead replay shop:app --task shop.send_mail --dry-run
      headrace dead replay shop:app --topic orders --group billing
      headrace dead replay shop:app --all --yes
    """
    chosen, missing = _chosen(app, wish)
    if dry_run:
        _rehearse("replayed", chosen, missing, as_json)
        return
    total = _count(chosen)
    if total and not wish.ids:
        confirm(f"Replay {counted(total, 'dead letter')}", yes=yes)
    replayed = 0
    duplicates: list[str] = []
    for answer in _in_steps("replaying", chosen, app.sync.admin.replay):
        replayed += int(answer)
        duplicates += answer.duplicates
    for id in duplicates:
        echo(f"{id} stays dead: another job holds its unique key by now", err=True)
    text = f"{counted(replayed, 'dead letter')} replayed"
    _report(text, {"replayed": replayed, "duplicates": duplicates}, missing, as_json)


@dead.command("discard")
@on_letters
def discard(app: App, wish: LetterSelection, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove dead letters for good, after a question.

    \b
    Examples:
      headrace dead discard shop:app 01m7f9vj79fnjrwh4myfs88p3r
      headrace dead discard shop:app --reason invalid --dry-run
      headrace dead discard shop:app --queue mails --yes
    """
    chosen, missing = _chosen(app, wish)
    if dry_run:
        _rehearse("discarded", chosen, missing, as_json)
        return
    if total := _count(chosen):
        confirm(f"Discard {counted(total, 'dead letter')} for good", yes=yes)
    discarded = sum(_in_steps("discarding", chosen, app.sync.admin.discard))
    _report(f"{counted(discarded, 'dead letter')} discarded", {"discarded": discarded}, missing, as_json)


def _check_names(app: App, place: Place, task: str | None) -> None:
    """A note is printed for each name that is not known."""
    if place.queue is not None:
        known_queues(app.sync.admin, place.queue)
    if place.topic is not None:
        known_groups(app.sync.admin, place)  # --task may be the kind of events
    else:
        check_task(app, task)


def _letters(app: App, place: Place, task: str | None, reason: str | None) -> Iterator[DeadLetter]:
    return all_pages(partial(app.sync.admin.dead, **place.options, task=task, reason=reason))


def _document(letter: DeadLetter) -> dict[str, object]:
    """A dead letter as `--json` lists it. Its bytes are left out: `show` has the arguments."""
    document = msgspec.structs.asdict(letter)
    del document["payload"]
    return document | {"payload_size": len(letter.payload)}


def _table(found: list[DeadLetter]) -> FittedTable:
    listing = FittedTable(
        Column("id"),
        Column("task", keeps="end"),
        Column("from", keeps="end", spare=1),
        Column("reason"),
        Column("attempts", right=True, spare=3),
        Column("died", right=True, spare=2),
        Column("error", keeps="start", least=25),
    )
    for letter in found:
        listing.add(
            letter.id,
            short(letter.task),
            str(place_of(letter)),
            letter.reason,
            str(letter.attempts),
            ago(letter.died_at),
            short(error_text(letter)),
        )
    return listing


def _chosen(app: App, wish: LetterSelection) -> tuple[ChosenLetters, list[str]]:
    """The selected dead letters, those that died first come first, and the ids that are no dead letters."""
    wish.check()
    admin = app.sync.admin
    chosen: ChosenLetters = defaultdict(list)
    missing: list[str] = []
    if not wish.ids:
        _check_names(app, wish.place, wish.task)
        for letter in _letters(app, wish.place, wish.task, wish.reason):
            chosen[place_of(letter)].append(letter.id)
        return {place: ids[::-1] for place, ids in chosen.items()}, missing
    dead: list[JobInfo] = []
    for id in dict.fromkeys(wish.ids):
        found = _dead_under(admin, id, wish.place)
        dead += found
        if not found:
            missing.append(id)
    for info in sorted(dead, key=lambda info: info.ended_at.timestamp() if info.ended_at else 0):
        chosen[place_of(info)].append(info.id)
    return chosen, missing


def _dead_under(admin: SyncAdmin, id: str, place: Place) -> list[JobInfo]:
    """The dead job of an id, or the dead event in each of its groups."""
    info = admin.job(id, **place.options)
    if info is None or info.status is not JobStatus.DEAD:
        return []
    if info.topic is None:
        return [info]
    groups = known_groups(admin, Place(None, info.topic, place.group))
    found = [admin.job(id, **group.options) for group in groups]
    return [each for each in found if each is not None and each.status is JobStatus.DEAD]


def _count(chosen: ChosenLetters) -> int:
    return sum(map(len, chosen.values()))


def _in_steps(what: str, chosen: ChosenLetters, act: Callable[..., T]) -> Iterator[T]:
    """The answer of each step. Shows the progress."""
    with ProgressBar(what, _count(chosen)) as steps:
        for place, ids in chosen.items():
            for start in range(0, len(ids), STEP):
                part: Sequence[str] = ids[start : start + STEP]
                yield act(ids=part, **place.options)
                steps.done(len(part))


def _rehearse(done: str, chosen: ChosenLetters, missing: list[str], as_json: bool) -> None:
    if as_json:
        show_json(
            {"dry_run": True, done: _count(chosen), "ids": [*chain(*chosen.values())], "missing": missing}
        )
    else:
        for place, ids in chosen.items():
            for id in ids:
                echo(f"{id} of {place}")
        echo(f"{counted(_count(chosen), 'dead letter')} would be {done}; nothing was changed")
    _fail_if_missing(missing)


def _report(text: str, document: dict[str, object], missing: list[str], as_json: bool) -> None:
    if as_json:
        show_json({**document, "missing": missing})
    else:
        echo(text)
    _fail_if_missing(missing)


def _fail_if_missing(missing: list[str]) -> None:
    for id in missing:
        echo(f"Error: there is no dead letter {id}", err=True)
    if missing:
        raise click.exceptions.Exit(1)
