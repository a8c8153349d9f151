"""The files of `examples/deploy`, checked as far as they can be without running them."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from headrace.cli.worker.command import worker
from tests.support.command_lines import unknown_words

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples/deploy"
GRACE: Any = next(each for each in worker.params if each.name == "grace").get_default(click.Context(worker))
METRICS = re.findall(r"`(headrace_\w+)`", (ROOT / "docs/guides/observability.md").read_text())


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def containers() -> list[dict[str, Any]]:
    specs = [
        each["spec"]["template"]["spec"] for each in documents("kubernetes.yaml") if "Deploy" in each["kind"]
    ]
    return [{**container, "pod": spec} for spec in specs for container in spec["containers"]]


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "headrace-worker.service")
    return unit["Service"]


def docker_command() -> list[str]:
    [line] = re.findall(r"^CMD \[(.*)\]$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return [word.strip().strip('"') for word in line.split(",")]


def compose() -> dict[str, Any]:
    [document] = documents("compose.yaml")
    return dict(document["services"])


def test_every_command_and_option_exists() -> None:
    commands = [
        docker_command(),
        shlex.split(service()["ExecStart"]),
        compose()["dashboard"]["command"],
        *(each["args"] for each in containers()),
    ]
    for program, *words in commands:
        assert Path(program).name == "headrace"
        assert not unknown_words(words)


def test_a_worker_is_killed_only_after_its_grace() -> None:
    """With ten seconds for what comes after the grace: handing back, and the last writes."""
    [pod] = [each for each in containers() if each["name"] == "worker"]
    waits = {
        "systemd": int(service()["TimeoutStopSec"]),
        "compose": int(compose()["worker"]["stop_grace_period"].removesuffix("s")),
        "kubernetes": pod["pod"]["terminationGracePeriodSeconds"],
    }
    assert min(waits.values()) >= GRACE + 10, waits
    assert service()["KillMode"] == "mixed"


def test_probes_ask_the_port_of_the_worker() -> None:
    [pod] = [each for each in containers() if each["name"] == "worker"]
    [port] = pod["ports"]
    assert pod["args"][pod["args"].index("--metrics-port") + 1] == str(port["containerPort"])
    for probe, path in (
        ("startupProbe", "/healthz"),
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
    ):
        assert pod[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert "http://localhost:9464/healthz" in (DEPLOY / "Dockerfile").read_text()
    assert docker_command()[docker_command().index("--metrics-port") + 1] == "9464"


def test_labels_and_names_fit_each_other() -> None:
    by_kind: dict[str, list[Any]] = {}
    for each in [*documents("kubernetes.yaml"), *documents("keda.yaml")]:
        by_kind.setdefault(each["kind"], []).append(each)
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in by_kind["Deployment"]
    }
    for each in by_kind["Deployment"]:
        assert each["spec"]["selector"]["matchLabels"] == labels[each["metadata"]["name"]]
    assert by_kind["PodDisruptionBudget"][0]["spec"]["selector"]["matchLabels"] in labels.values()
    assert by_kind["Service"][0]["spec"]["selector"] in labels.values()
    assert by_kind["ScaledObject"][0]["spec"]["scaleTargetRef"]["name"] in labels


def test_the_number_of_workers_follows_metrics_that_are_exported() -> None:
    [scaled] = documents("keda.yaml")
    for trigger in scaled["spec"]["triggers"]:
        named = re.findall(r"headrace_\w+", trigger["metadata"]["query"])
        assert named
        assert set(named) <= set(METRICS)
        assert float(trigger["metadata"]["threshold"]) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "headrace-worker.service"
    text = (DEPLOY / unit.name).read_text()
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={shutil.which('true')}", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=30
    )
    assert unit.name not in done.stderr
