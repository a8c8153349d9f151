"""Which files `--reload` watches."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.cli.worker.reloader import SourceFiles


def test_a_file_that_is_written_made_or_removed_is_a_change(tmp_path: Path) -> None:
    for name in ("written.py", "removed.py", "same.py"):
        (tmp_path / name).write_text("")
    files = SourceFiles(tmp_path)
    assert files.changed() == []
    os.utime(tmp_path / "written.py", (1, 1))
    (tmp_path / "removed.py").unlink()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "made.py").write_text("")
    assert files.changed() == [os.path.join("package", "made.py"), "removed.py", "written.py"]
    assert files.changed() == []


def test_other_files_hidden_folders_and_environments_are_not_watched(tmp_path: Path) -> None:
    for folder in (".git", "__pycache__", "environment/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "environment" / "pyvenv.cfg").write_text("")
    files = SourceFiles(tmp_path)
    for path in ("headrace.db", ".git/a.py", "__pycache__/a.py", "environment/lib/a.py"):
        (tmp_path / path).write_text("")
    assert files.changed() == []
