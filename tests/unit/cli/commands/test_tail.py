from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest

from headrace import App, EventInfo
from headrace.cli.commands import tail as tail_module
from headrace.sync import SyncAdmin
from tests.unit.cli.conftest import Shell
from tests.unit.cli.sample_app import Placed, make_shop

Publish = Callable[..., str]
Drain = Callable[[], None]


def test_a_line_has_time_id_kind_key_and_payload_without_secrets(
    app: App, headrace: Shell, publish: Publish
) -> None:
    first, second = publish(7, key="customer-3"), publish(8)
    result = headrace("tail", "shop:app", "orders", "--since", "beginning", "--no-follow")
    assert (result.exit_code, result.stderr) == (0, "")
    [one, two] = result.stdout.splitlines()
    assert one.split()[2:] == [first, "Placed", "customer-3", '{"number":7,"card":"***","at":null}']
    assert two.split()[2:5] == [second, "Placed", "-"]
    assert "4111" not in result.output


def test_json_has_a_document_on_each_line(app: App, headrace: Shell, publish: Publish) -> None:
    publish(7, key="customer-3", headers={"source": "web"}, source="till")
    publish(8)
    text = headrace("tail", "shop:app", "orders", "--since", "1h", "--no-follow", "--json").stdout
    [one, two] = [msgspec.json.decode(line) for line in text.splitlines()]
    assert set(one) == set(EventInfo.__struct_fields__)
    assert (one["number"], one["key"], one["headers"], one["source"]) == (
        1,
        "customer-3",
        {"source": "web"},
        "till",
    )
    assert two["payload"] == {"number": 8, "card": "***", "at": None}


def test_it_begins_where_it_is_told_to(app: App, headrace: Shell, publish: Publish, drain: Drain) -> None:
    publish(2)
    drain()
    second = publish(4)
    publish(6)

    def shown(*words: str) -> list[int]:
        text = headrace("tail", "shop:app", "orders", "--no-follow", "--json", *words).stdout
        return [msgspec.json.decode(line)["payload"]["number"] for line in text.splitlines()]

    assert shown("--since", "beginning") == [2, 4, 6]
    assert shown("--since", "beginning", "--limit", "2") == [2, 4]
    assert shown("--since", second) == [4, 6]
    assert shown("--since", "2999-01-01") == []
    assert shown() == []
    assert shown("--group", "billing") == [4, 6]


def test_it_follows_until_it_has_shown_so_many(app: App, headrace: Shell, publish: Publish, url: str) -> None:
    publish(2)
    shown: list[str] = []

    def follow() -> None:
        result = headrace("tail", "shop:app", "orders", "--since", "beginning", "--limit", "3")
        shown.append(result.stdout)

    following = threading.Thread(target=follow)
    following.start()
    other = make_shop(url)  # the command closes the one that it uses
    for number in (4, 6):
        other.sync.publish("orders", Placed(number))
    other.sync.close()
    following.join(30)
    assert not following.is_alive()
    assert shown[0].count("Placed") == 3


def test_ctrl_c_ends_it_and_is_no_failure(
    app: App, headrace: Shell, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(2)
    whole = SyncAdmin.tail

    def interrupted(self: SyncAdmin, *args: object, **options: object) -> object:
        yield next(whole(self, *args, **options))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(SyncAdmin, "tail", interrupted)
    result = headrace("tail", "shop:app", "orders", "--since", "beginning")
    assert result.exit_code == 0
    assert result.stdout.count("Placed") == 1


def test_a_topic_that_is_not_there_yet_is_waited_for_and_remarked_on(
    app: App, headrace: Shell, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(2)
    monkeypatch.setattr(tail_module, "_print", lambda events, *, as_json: None)
    assert "knows no topic 'order'; did you mean orders?" in headrace("tail", "shop:app", "order").stderr
    assert headrace("tail", "shop:app", "returns").stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("order", "--no-follow"), "did you mean orders?"),
        (("orders", "--since", "yesterday"), "'yesterday' is no time"),
        (("orders", "--since", "90"), "'90' has no unit"),
        (("orders", "--since", "new", "--group", "billing"), "--since or --group, not both"),
        (("orders", "--group", "nobody"), "orders knows no group 'nobody'"),
        (("orders", "returns"), "Expected 'TOPIC', not 'orders returns'"),
        (("orders", "--limit", "0"), "Invalid value for '--limit'"),
        (("orders", "--since", "0" * 26, "--no-follow"), "holds no event"),
    ],
)
def test_wrong_usage_is_refused(
    app: App, headrace: Shell, publish: Publish, words: tuple[str, ...], said: str
) -> None:
    publish(2)
    assert said in headrace.refused("tail", "shop:app", *words)


def test_what_would_steer_a_terminal_is_shown_as_text(app: App, headrace: Shell) -> None:
    app.sync.publish("anything", "\x1b[31mred", key="\x1b[2J", kind="a\nb")
    text = headrace("tail", "shop:app", "anything", "--since", "beginning", "--no-follow").stdout
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1
