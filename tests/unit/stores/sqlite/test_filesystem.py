"""Where a file may lie: in a folder that exists, and not on a network file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ConfigurationError
from headrace.stores import open_store
from headrace.stores.sqlite.connection import filesystem
from headrace.stores.sqlite.connection.filesystem import check_folder, filesystem_of

MOUNTS = r"""
/dev/vda / ext4 rw,relatime 0 0
server:/export /srv nfs4 rw 0 0
/dev/vdb /srv/local xfs rw 0 0
share /mnt/with\040space cifs rw 0 0
me@host: /home/me/remote fuse.sshfs rw 0 0
tmpfs /over tmpfs rw 0 0
host /over 9p rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts"
    path.write_text(MOUNTS)
    return path


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/deep/below", "nfs4"),
        ("/srvother", "ext4"),
        ("/srv/local/jobs", "xfs"),
        ("/mnt/with space/jobs", "cifs"),
        ("/home/me/remote", "fuse.sshfs"),
        ("/over", "9p"),
    ],
)
def test_the_innermost_mount_counts(mounts: Path, folder: str, kind: str) -> None:
    assert filesystem_of(Path(folder), mounts) == kind


def test_a_system_that_does_not_tell_is_believed(tmp_path: Path) -> None:
    assert filesystem_of(Path("/"), tmp_path / "nothing") is None
    check_folder(tmp_path / "jobs.db", tmp_path / "nothing")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "lustre", "gfs2"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver {tmp_path} {kind} rw 0 0\n")
    with pytest.raises(ConfigurationError, match="local disk") as refusal:
        check_folder(tmp_path / "jobs.db", mounts)
    assert kind in str(refusal.value)


async def test_it_is_refused_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "filesystem_of", lambda folder, mounts: "nfs")
    with pytest.raises(ConfigurationError, match="nfs"):
        await open_store(f"sqlite:///{tmp_path}/jobs.db").open()
    assert list(tmp_path.iterdir()) == []


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="create it") as refusal:
        await open_store(f"sqlite:///{tmp_path}/missing/jobs.db").open()
    assert str(tmp_path / "missing") in str(refusal.value)


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a folder"):
        await open_store(f"sqlite:///{tmp_path}").open()
