"""Checks that the folder of the file exists, and is not on a network file system."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.core.errors import ConfigurationError

MOUNTS = Path("/proc/mounts")

#: Types of file systems over which machines share files. WAL needs shared memory and reliable locks. Neither
#: works between machines: SQLite would corrupt the file sooner or later.
NETWORK = frozenset(
    {
        *("9p", "acfs", "afp", "afs", "auristorfs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2"),
        *("glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2"),
        *("smb3", "smbfs", "sshfs", "vboxsf"),
        *("fuse.ceph", "fuse.cephfs", "fuse.davfs", "fuse.davfs2", "fuse.glusterfs", "fuse.gvfsd-fuse"),
        *("fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)


def check_folder(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise a `ConfigurationError` when a store cannot work at this path."""
    folder = path.parent
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder} for {path.name}: create it, or change the URL")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder: add the name of a file to the URL")
    kind = filesystem_of(folder.resolve(), mounts)
    if kind in NETWORK:
        raise ConfigurationError(
            f"{path} is on a network file system ({kind}), where SQLite corrupts its files: use a local"
            " disk, or a redis:// URL for several machines"
        )


def filesystem_of(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds `folder`; None where the system does not report it."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    best, found = -1, None
    for line in lines:
        _, point, kind, *_ = (*line.split(" "), "", "")
        # Of two mounts at one point, the later one hides the earlier one, hence `>=`.
        where = Path(_unescape(point))
        if folder.is_relative_to(where) and len(where.parts) >= best:
            best, found = len(where.parts), kind
    return found


def _unescape(point: str) -> str:
    """Decode octal escapes: the kernel writes a space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
