"""Files: keys on disk, and content that is sent without being read into memory."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from netmesh.errors import DecodeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Content",
    "move_file",
    "open_content",
    "read_key_file",
    "target_of",
    "write_private_file",
    "write_public_file",
]

# What is not a regular file is copied first; up to here it stays in memory.
_COPY_MAX: Final = 1 << 20


def read_key_file(path: str | Any, size: int) -> bytes:
    """The content of a file that must have exactly ``size`` bytes.

    Raises:
        OSError: the file cannot be read.
        DecodeError: LENGTH when it has another size.
    """
    with open(path, "rb") as file:
        data = file.read(size + 1)
    if len(data) != size:
        raise DecodeError(
            f"identity: a key file has {size} bytes, {os.fspath(path)!r} has "
            f"{'more' if len(data) > size else len(data)}",
            reason="LENGTH",
            codec="identity",
            field="file",
        )
    return data


def write_private_file(path: str | Any, data: bytes) -> None:
    """Replaces a file by ``data``, readable by its owner alone (mode 0600)."""
    _replace(path, data, 0o600)


def write_public_file(path: str | Any, data: bytes) -> None:
    """Replaces a file by ``data`` with the usual permissions."""
    _replace(path, data, 0o666)


def _replace(path: str | Any, data: bytes, mode: int) -> None:
    """Writes beside ``path``, makes it durable, then renames: no one sees half a file."""
    target = os.fsdecode(path)
    beside = f"{target}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(os.path.dirname(target) or ".")


def _sync_folder(folder: str) -> None:
    """Makes the new name durable where the system can open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Content:
    """What is to be sent: bytes, or a part of an open file."""

    __slots__ = ("_opened", "data", "file", "name", "size")

    def __init__(
        self,
        *,
        data: Buffer | None = None,
        opened: IO[bytes] | None = None,
        offset: int = 0,
        size: int = 0,
        name: bytes | None = None,
    ) -> None:
        self.data = data
        self._opened = opened
        self.file = None if opened is None else (opened.fileno(), offset, size)
        self.size = size
        self.name = name

    def close(self) -> None:
        """The core has its own descriptor by now."""
        if self._opened is not None:
            self._opened.close()


def open_content(source: Any) -> Content:
    """Opens a path, a binary file object or bytes for sending. Raises OSError, TypeError."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return _from_file(open(path, "rb"), os.fsencode(os.path.basename(path)))
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        given = os.fsencode(os.path.basename(name)) if isinstance(name, str) else None
        return _from_object(source, given)
    with memoryview(source) as view:
        return Content(data=source, size=view.nbytes)


def _from_file(file: IO[bytes], name: bytes | None) -> Content:
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode):
        return Content(opened=file, size=found.st_size, name=name)
    with file:  # a pipe or a device has no size
        return _copied(file, name)


def _from_object(file: Any, name: bytes | None) -> Content:
    try:
        at = file.tell()
        found = os.fstat(file.fileno())
    except (OSError, AttributeError, ValueError):
        return _copied(file, name)
    if not stat.S_ISREG(found.st_mode):
        return _copied(file, name)
    own = open(os.dup(file.fileno()), "rb")  # noqa: SIM115
    return Content(opened=own, offset=at, size=max(0, found.st_size - at), name=name)


def _copied(file: Any, name: bytes | None) -> Content:
    # Half a megabyte of other modules, which most programs never need.
    import shutil
    import tempfile

    copy = tempfile.SpooledTemporaryFile(_COPY_MAX)  # noqa: SIM115
    shutil.copyfileobj(file, copy)
    size = copy.tell()
    if size <= _COPY_MAX:
        with copy:
            copy.seek(0)
            return Content(data=copy.read(), size=size, name=name)
    copy.flush()
    copy.fileno()  # now it is on disk
    return Content(opened=copy, size=size, name=name)


def target_of(to: Any) -> tuple[bytes, bytes]:
    """The folder and the name that a target stands for; a folder leaves the name open."""
    path = Path(to).absolute()
    if path.is_dir():
        return os.fsencode(path), b""
    return os.fsencode(path.parent), os.fsencode(path.name)


def move_file(found: Path, folder: bytes, name: bytes) -> Path:
    """Moves a file that is complete to a folder, under its own name or another one."""
    target = Path(os.fsdecode(folder), os.fsdecode(name) if name else found.name)
    if target != found:
        import shutil

        shutil.move(found, target)
        _sync_folder(str(target.parent))
    return target
