"""A destination's own ratchets and the files of ratchets (RNS 1, 2.6 and 3.5)."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, final

from netmesh.constants import (
    KEY_SIZE,
    RATCHET_INTERVAL,
    RATCHETS_RETAINED,
    SIGNATURE_SIZE,
)
from netmesh.errors import AuthenticationError, DecodeError
from netmesh.pure import _x25519
from netmesh.pure._identity import private_identity, public_identity, ratchet_id
from netmesh.pure._wire import (
    Reader,
    Secret,
    fault,
    of_size,
    optional_of_size,
    to_bool,
    to_bytes,
    to_int,
    to_real,
)
from netmesh.pure.msgpack import Unpacker, locate, packb

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from netmesh.pure._identity import Identity

__all__ = ["Ratchets", "remembered_ratchet_pack", "remembered_ratchet_unpack"]

CODEC = "ratchets"
KEY_ENCODED_SIZE = 2 + KEY_SIZE
FILE_KEYS_MAX = 1_000_000
# More than any file needs.
FILE_DEPTH_MAX = 8
FILE_ELEMENTS_MAX = 64


def read_file(data: bytes, **kinds: Callable[[Any], str | None]) -> list[Any]:
    """The values of a file's map that ``kinds`` name, in that order; others are ignored.

    Each kind is a function that says what is wrong with a value. MessagePack that is not
    good in itself is a fault of the whole file.
    """
    try:
        Unpacker(Reader(data, CODEC), FILE_DEPTH_MAX, FILE_ELEMENTS_MAX).value()
    except DecodeError as error:
        raise fault(error.reason, CODEC, "file") from None
    file, places = locate(data, CODEC, "file")
    if not isinstance(file, dict):
        raise fault("TYPE", CODEC, "file")
    for name, (value, offset) in zip(file, places, strict=True):
        wrong = kinds[name](value) if name in kinds else None
        if wrong is not None:
            raise fault(wrong, CODEC, name, offset)
    for name in kinds:
        if name not in file:
            raise fault("MISSING", CODEC, name)
    return [file[name] for name in kinds]


def binary(size: int | None = None) -> Callable[[Any], str | None]:
    """A kind for :func:`read_file`: a byte string, of ``size`` bytes when that is given."""

    def judge(value: Any) -> str | None:
        if not isinstance(value, bytes):
            return "TYPE"
        return "LENGTH" if size is not None and len(value) != size else None

    return judge


def number(value: Any) -> str | None:
    """A kind for :func:`read_file`: an integer or a float."""
    return None if isinstance(value, int | float) and not isinstance(value, bool) else "TYPE"


def read_keys(packed: bytes) -> list[bytes]:
    """The array of private keys: each of 32 bytes in the shortest form, and nothing after."""
    unpacker = Unpacker(Reader(packed, CODEC))
    try:
        kind, count = unpacker.open()
        if kind != "array":
            raise unpacker.fault("TYPE", 0)
        if count > FILE_KEYS_MAX:
            raise unpacker.fault("LIMIT", 0)
        keys = [read_key(unpacker) for _ in range(count)]
        if unpacker.reader.left:
            raise unpacker.fault("TRAILING", 0)
    except DecodeError as error:
        raise fault(error.reason, CODEC, "ratchets") from None
    return keys


def read_key(unpacker: Unpacker) -> bytes:
    """One of them."""
    start = unpacker.reader.position
    key = unpacker.open()[1]
    if not isinstance(key, bytes):
        raise unpacker.fault("TYPE", start)
    if len(key) != KEY_SIZE or unpacker.reader.position - start != KEY_ENCODED_SIZE:
        raise unpacker.fault("LENGTH", start)
    return key


@final
class Ratchets(Secret):
    """A destination's own ratchets: newest first, bounded, rotated at announce time (RNS 1, 3.5).

    ``retained`` keys are kept; a new one is due ``interval_s`` seconds after the last.
    Belongs to one thread at a time.
    """

    __slots__ = ("_interval_s", "_latest_time", "_private_keys", "_retained")

    def __init__(
        self, *, retained: int = RATCHETS_RETAINED, interval_s: float = RATCHET_INTERVAL
    ) -> None:
        self._retained = to_int(retained, "retained", 1, 2**32 - 1)
        self._interval_s = to_real(interval_s, "interval_s")
        if self._interval_s < 0:
            raise ValueError(f"interval_s must not be negative, not {interval_s}")
        self._latest_time = 0.0
        self._private_keys: list[bytes] = []

    @classmethod
    def load(
        cls,
        data: Buffer,
        identity: Identity,
        /,
        *,
        retained: int = RATCHETS_RETAINED,
        interval_s: float = RATCHET_INTERVAL,
    ) -> Ratchets:
        """Reads the signed file (RNS 1, 3.5).

        Raises:
            DecodeError: it has another shape.
            AuthenticationError: SIGNATURE when ``identity`` did not sign it.
        """
        signer = public_identity(identity, "identity")
        file = to_bytes(data, "data")
        ratchets = cls(retained=retained, interval_s=interval_s)
        signature, packed = read_file(file, signature=binary(SIGNATURE_SIZE), ratchets=binary())
        keys = read_keys(packed)
        if not signer.verify(packed, signature):
            raise AuthenticationError("the ratchets are not signed by it", reason="SIGNATURE")
        ratchets._private_keys = keys[: ratchets._retained]
        return ratchets

    def dump(self, identity: Identity, /) -> bytes:
        """The file: {"signature": bin64, "ratchets": bin of [bin32, ...]}; a secret."""
        signer = private_identity(identity, "identity")
        packed = packb(self._private_keys)
        return packb({"signature": signer.sign(packed), "ratchets": packed})

    def rotate(
        self, now: float | None = None, /, *, private: Buffer | None = None, force: bool = False
    ) -> bool:
        """Puts a new key first when one is due at ``now``; True when it did."""
        moment = time.time() if now is None else to_real(now, "now")
        forced = to_bool(force, "force")
        given = optional_of_size(private, "private", KEY_SIZE)
        if not forced and moment <= self._latest_time + self._interval_s:
            return False
        self._private_keys.insert(0, secrets.token_bytes(KEY_SIZE) if given is None else given)
        del self._private_keys[self._retained :]
        self._latest_time = moment
        return True

    @property
    def private_keys(self) -> tuple[bytes, ...]:
        """The X25519 private keys, newest first: what decryption tries in turn."""
        return tuple(self._private_keys)

    @property
    def ids(self) -> tuple[bytes, ...]:
        """The 10-byte ids, newest first."""
        return tuple(ratchet_id(_x25519.public_key(key)) for key in self._private_keys)

    @property
    def current_public(self) -> bytes | None:
        """The public key that announces carry."""
        return _x25519.public_key(self._private_keys[0]) if self._private_keys else None

    @property
    def current_id(self) -> bytes | None:
        """The id of the newest key."""
        return self._id_at(0)

    @property
    def previous_id(self) -> bytes | None:
        """The id of the key before it."""
        return self._id_at(1)

    def _id_at(self, index: int) -> bytes | None:
        if index >= len(self._private_keys):
            return None
        return ratchet_id(_x25519.public_key(self._private_keys[index]))

    @property
    def latest_time(self) -> float:
        """When the last rotation was, Unix seconds; 0 before the first."""
        return self._latest_time

    @property
    def retained(self) -> int:
        """How many keys are kept."""
        return self._retained

    @property
    def interval_s(self) -> float:
        """Seconds between two rotations."""
        return self._interval_s

    def __len__(self) -> int:
        return len(self._private_keys)

    def __repr__(self) -> str:
        return f"<Ratchets: {len(self)} of {self._retained}>"


def remembered_ratchet_pack(ratchet_public: Buffer, received: float, /) -> bytes:
    """The file of another destination's ratchet: {"ratchet": bin32, "received": float64}."""
    key = of_size(ratchet_public, "ratchet_public", KEY_SIZE)
    return packb({"ratchet": key, "received": to_real(received, "received")})


def remembered_ratchet_unpack(data: Buffer, /) -> tuple[bytes, float]:
    """The public key and the time of such a file (RNS 1, 2.6)."""
    file = to_bytes(data, "data")
    key, received = read_file(file, ratchet=binary(KEY_SIZE), received=number)
    return key, float(received)
