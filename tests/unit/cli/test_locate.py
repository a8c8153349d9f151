"""module:app → the App, or a sentence about what is not there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace import App, ConfigurationError
from headrace.cli.target.locate import locate

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules into an empty working directory; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


APP = "from headrace import App\napp = App('memory://')\n"


def test_an_app_is_found_in_the_working_directory(write: Write) -> None:
    write("shop_a", APP)
    assert isinstance(locate("shop_a:app"), App)


def test_an_app_is_found_in_a_package(write: Write) -> None:
    write("shop_b.jobs", APP)
    assert isinstance(locate("shop_b.jobs:app"), App)


def test_an_app_may_be_an_attribute_of_something(write: Write) -> None:
    write("shop_c", "from headrace import App\nclass settings:\n    app = App('memory://')\n")
    assert isinstance(locate("shop_c:settings.app"), App)


@pytest.mark.parametrize("target", ["shop", "shop:", ":app", ""])
def test_a_target_needs_both_parts(target: str) -> None:
    with pytest.raises(ConfigurationError, match="write module:app, such as shop:app"):
        locate(target)


def test_a_module_that_is_not_there_is_named_with_the_place(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no module 'shop_d' in") as refused:
        locate("shop_d:app")
    assert str(tmp_path) in str(refused.value)


def test_a_part_of_a_dotted_module_that_is_not_there_is_the_same(write: Write) -> None:
    write("shop_e.jobs", APP)
    with pytest.raises(ConfigurationError, match=r"there is no module 'shop_e\.nothing'"):
        locate("shop_e.nothing:app")


def test_a_module_that_the_module_misses_is_told_apart(write: Write) -> None:
    write("shop_f", "import no_such_library\n")
    with pytest.raises(
        ConfigurationError, match="shop_f cannot be imported: No module named 'no_such_library'"
    ):
        locate("shop_f:app")


@pytest.mark.parametrize(("text", "complaint"), [("1 / 0", "ZeroDivisionError"), ("app =", "SyntaxError")])
def test_a_module_that_fails_is_told_with_its_error(write: Write, text: str, complaint: str) -> None:
    write("shop_g", text)
    with pytest.raises(ConfigurationError, match=f"shop_g cannot be imported: {complaint}"):
        locate("shop_g:app")


def test_the_line_of_the_error_is_named(write: Write) -> None:
    write("shop_l", "from headrace import App, RetryPolicy\n\npolicy = RetryPolicy(tries=3)\n")
    with pytest.raises(ConfigurationError, match=r"shop_l\.py, line 3\)$"):
        locate("shop_l:app")
    write("shop_m", "app =")
    with pytest.raises(ConfigurationError, match=r"\(shop_m\.py, line 1\)$"):
        locate("shop_m:app")


def test_a_wrong_option_in_the_module_is_told_as_it_is(write: Write) -> None:
    write("shop_h", "from headrace import App\napp = App('mysql://')\n")
    with pytest.raises(ConfigurationError, match="'mysql://' is no store"):
        locate("shop_h:app")


def test_an_attribute_that_is_not_there_is_answered_with_the_apps_that_are(write: Write) -> None:
    write("shop_i", APP + "other = App('memory://')\n")
    with pytest.raises(ConfigurationError, match="shop_i has no 'application'; it has app, other"):
        locate("shop_i:application")


def test_a_module_without_an_app_is_told_so(write: Write) -> None:
    write("shop_j", "app_name = 'shop'\n")
    with pytest.raises(ConfigurationError, match="shop_j has no 'app'; it has no App at all"):
        locate("shop_j:app")


def test_something_else_than_an_app_is_refused(write: Write) -> None:
    write("shop_k", "app = 7\n")
    with pytest.raises(ConfigurationError, match="shop_k:app is no App: its type is int"):
        locate("shop_k:app")
