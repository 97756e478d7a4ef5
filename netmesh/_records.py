"""From the core's dicts to records and back; shared by the engine and the node."""

from __future__ import annotations

from typing import Any

from netmesh import records as r
from netmesh._core import frozen, interface_hash
from netmesh.constants import (
    InterfaceMode,
    LinkMode,
    LinkState,
    PathState,
    ReceiptState,
    ResourceState,
)

US = 1_000_000
BLOB = 10
_PATH_STATES = {int(each): each for each in PathState}
# What the core takes for "retained" in place of a time.
RETAINED = -1


def to_us(seconds: float) -> int:
    """Whole microseconds, rounded to the nearest."""
    return round(seconds * US)


def to_s(microseconds: int) -> float:
    """Seconds."""
    return microseconds / US


def never(microseconds: int) -> float | None:
    """Seconds; None for 0, which stands for never."""
    return microseconds / US if microseconds else None


def none(number: int) -> int | None:
    """An id or a size; None for 0, which stands for none."""
    return number or None


def drops(core: dict[int, int]) -> dict[r.DropReason, int]:
    """Counts by reason."""
    return {r.DropReason(reason): count for reason, count in core.items()}


def blobs(joined: bytes) -> tuple[bytes, ...]:
    """Random hashes of 10 bytes each."""
    return tuple(joined[at : at + BLOB] for at in range(0, len(joined), BLOB))


def path(core: dict[str, Any]) -> r.PathRecord:
    """One path. A discovery ends with it."""
    return frozen(
        r.PathRecord,
        destination=core["destination"],
        next_hop=core["next_hop"],
        hops=core["hops"],
        interface=core["iface"],
        updated_s=core["updated_mono_us"] / US,
        updated_unix_s=core["updated_unix_us"] / US,
        expires_s=core["expires_mono_us"] / US,
        expires_unix_s=core["expires_unix_us"] / US,
        state=_PATH_STATES[core["state"]],
        announce_hash=core["announce_hash"],
        announce=core["announce"],
        random_blobs=blobs(core["blobs"]),
    )


def path_back(record: r.PathRecord) -> dict[str, Any]:
    """The same for the core."""
    return {
        "destination": record.destination,
        "next_hop": record.next_hop,
        "hops": record.hops,
        "iface": record.interface,
        "updated_mono_us": to_us(record.updated_s),
        "expires_mono_us": to_us(record.expires_s),
        "state": int(record.state),
        "announce_hash": record.announce_hash,
        "announce": record.announce,
        "blobs": b"".join(record.random_blobs),
    }


def known(core: dict[str, Any]) -> r.KnownRecord:
    """One known destination."""
    used: int = core["used_unix_us"]
    return r.KnownRecord(
        destination=core["destination"],
        public_key=core["public_key"],
        app_data=core["app_data"],
        announce_hash=core["announce_hash"],
        heard_unix_s=to_s(core["heard_unix_us"]),
        used_unix_s=None if used == RETAINED else never(used),
        retained=used == RETAINED,
        ratchet=core["ratchet"] if core["has_ratchet"] else None,
        ratchet_unix_s=to_s(core["ratchet_unix_us"]),
    )


def known_back(record: r.KnownRecord) -> dict[str, Any]:
    """The same for the core."""
    used = 0 if record.used_unix_s is None else to_us(record.used_unix_s)
    return {
        "destination": record.destination,
        "public_key": record.public_key,
        "app_data": record.app_data,
        "announce_hash": record.announce_hash,
        "heard_unix_us": to_us(record.heard_unix_s),
        "used_unix_us": RETAINED if record.retained else used,
        "has_ratchet": record.ratchet is not None,
        "ratchet": bytes(32) if record.ratchet is None else record.ratchet,
        "ratchet_unix_us": to_us(record.ratchet_unix_s),
    }


def receipt(core: dict[str, Any]) -> r.ReceiptRecord:
    """One receipt."""
    return r.ReceiptRecord(
        packet_hash=core["hash"],
        destination=core["destination"],
        link=none(core["link"]),
        op=core["op"],
        state=ReceiptState(core["state"]),
        sent_s=to_s(core["sent_mono_us"]),
        sent_unix_s=to_s(core["sent_unix_us"]),
        timeout_s=to_s(core["timeout_us"]),
    )


def path_request(core: dict[str, Any]) -> r.PathRequestRecord:
    """One path request of our own."""
    return r.PathRequestRecord(
        destination=core["destination"],
        last_s=to_s(core["last_mono_us"]),
        last_unix_s=to_s(core["last_unix_us"]),
        waiting=core["waiting"],
    )


def path_tag(core: dict[str, Any]) -> r.PathTag:
    """One path request of somebody else's."""
    return r.PathTag(core["destination"], core["tag"])


def blackhole(core: dict[str, Any]) -> r.BlackholeRecord:
    """One ignored identity."""
    reason: bytes | None = core["reason"]
    return r.BlackholeRecord(
        identity=core["identity"],
        source=core["source"],
        until_unix_s=never(core["until_unix_us"]),
        reason=None if reason is None else reason.decode("utf-8", "replace"),
    )


def blackhole_back(record: r.BlackholeRecord) -> dict[str, Any]:
    """The same for the core."""
    until = record.until_unix_s
    return {
        "identity": record.identity,
        "source": bytes(16) if record.source is None else record.source,
        "until_unix_us": 0 if until is None else to_us(until),
        "reason": None if record.reason is None else record.reason.encode(),
    }


def link(core: dict[str, Any], now: tuple[int, int]) -> r.LinkRecord:
    """One link, read at a time."""
    snr: int | None = core["snr_cdb"]
    return r.LinkRecord(
        link=core["ref"],
        link_id=core["id"],
        destination=core["destination"],
        state=LinkState(core["state"]),
        reason=r.CloseReason(core["reason"]),
        initiator=core["initiator"],
        identified=core["identified"],
        remote_identity=core["remote_identity"],
        interface=none(core["iface"]),
        mtu=core["mtu"],
        mdu=core["mdu"],
        mode=LinkMode(core["mode"]),
        hops=core["hops"],
        rtt_s=never(core["rtt_us"]),
        keepalive_s=to_s(core["keepalive_us"]),
        stale_s=to_s(core["stale_us"]),
        requested_s=never(core["requested_at"]),
        activated_s=never(core["activated_at"]),
        last_inbound_s=never(core["last_inbound"]),
        last_outbound_s=never(core["last_outbound"]),
        last_data_s=never(core["last_data"]),
        last_keepalive_s=never(core["last_keepalive"]),
        last_proof_s=never(core["last_proof"]),
        holds_ephemeral=core["holds_ephemeral"],
        holds_session_key=core["holds_session_key"],
        requests_pending=core["requests_pending"],
        transfers_in=core["transfers_in"],
        transfers_out=core["transfers_out"],
        channel_open=core["channel_open"],
        signal_tracked=core["signal_tracked"],
        rssi_dbm=core["rssi_dbm"],
        snr_db=None if snr is None else snr / 100,
        quality_pct=core["quality_pct"],
        taken_s=to_s(now[0]),
        taken_unix_s=to_s(now[1]),
    )


def transfer(core: dict[str, Any]) -> r.TransferRecord:
    """One resource on its way."""
    fields = dict(core)
    fields["resource_hash"] = fields.pop("hash")
    fields["original_hash"] = fields.pop("original")
    fields["state"] = ResourceState(fields["state"])
    return r.TransferRecord(**fields)


def channel(core: dict[str, Any]) -> r.ChannelRecord:
    """The channel of a link."""
    fields = dict(core)
    return r.ChannelRecord(
        rtt_s=never(fields.pop("rtt_us")),
        proof_rtt_s=never(fields.pop("proof_rtt_us")),
        proof_var_s=to_s(fields.pop("proof_var_us")),
        **fields,
    )


def outstanding(core: dict[str, Any]) -> r.OutstandingMessage:
    """A message of a channel that is not proven."""
    return r.OutstandingMessage(
        msgtype=core["msgtype"],
        sequence=core["sequence"],
        tries=core["tries"],
        sendings=core["sendings"],
        size_bytes=core["bytes"],
        first_sent_s=to_s(core["first_sent_us"]),
        sent_s=to_s(core["sent_us"]),
        due_s=to_s(core["due_us"]),
    )


def ratchets(ids: tuple[bytes, ...], core: dict[str, Any], now: tuple[int, int]) -> r.RatchetRecord:
    """Own ratchets of a destination."""
    rotated: int = core["rotated_mono_us"]
    return r.RatchetRecord(
        ids=ids,
        enabled=core["enabled"],
        enforced=core["enforced"],
        retained=core["retained"],
        interval_s=to_s(core["interval_us"]),
        rotated_s=never(rotated),
        rotated_unix_s=to_s(now[1] + rotated - now[0]) if rotated else None,
    )


_INGRESS_RATES = ("announce_rate_new", "announce_rate", "request_rate_new", "request_rate")
_INGRESS_TIMES = ("new", "hold", "penalty", "release")


def ingress_options(numbers: r.IngressNumbers) -> dict[str, Any]:
    """What counts as a burst, as the core takes it."""
    options: dict[str, Any] = {f"ingress_{name}": getattr(numbers, name) for name in _INGRESS_RATES}
    for name in _INGRESS_TIMES:
        options[f"ingress_{name}_us"] = to_us(getattr(numbers, f"{name}_s"))
    return options | {"ingress_held_max": numbers.held_max}


def ingress(fields: dict[str, Any]) -> r.IngressNumbers:
    """The same from the core, taken out of the rest."""
    numbers = {name: fields.pop(f"ingress_{name}") for name in _INGRESS_RATES}
    for name in _INGRESS_TIMES:
        numbers[f"{name}_s"] = to_s(fields.pop(f"ingress_{name}_us"))
    return r.IngressNumbers(**numbers, held_max=fields.pop("ingress_held_max"))


def interface(number: int, core: dict[str, Any]) -> r.InterfaceRecord:
    """One interface."""
    fields = dict(core)
    fields["ingress"] = ingress(fields)
    fields["role"] = r.InterfaceRole(fields["role"])
    fields["mode"] = InterfaceMode(fields["mode"])
    fields["mtu_mode"] = r.MtuMode(fields["mtu_mode"])
    fields["hw_mtu"] = none(fields["hw_mtu"])
    fields["bitrate"] = none(fields["bitrate"])
    return r.InterfaceRecord(interface=number, hash=interface_hash(core["name"]), **fields)


def counters(core: dict[str, Any]) -> r.InterfaceCounters:
    """What passed an interface."""
    return r.InterfaceCounters(**{**core, "drops": drops(core["drops"])})


def stats(core: dict[str, Any]) -> r.EngineStats:
    """The engine's figures."""
    return r.EngineStats(**{**core, "drops": drops(core["drops"])})


def flight(core: dict[str, Any]) -> r.FlightRecord:
    """One line of the flight recorder."""
    kind = r.RecordKind(core["kind"])
    code: int = core["code"]
    has_hash = core["hash"] != bytes(32)
    return r.FlightRecord(
        sequence=core["seq"],
        time_s=to_s(core["mono_us"]),
        kind=kind,
        interface=none(core["iface"]),
        reason=r.DropReason(code) if kind is r.RecordKind.INPUT else None,
        event=r.EventKind(code) if kind is r.RecordKind.EVENT else None,
        job=r.JobKind(code) if kind is r.RecordKind.JOB else None,
        pending=bool(core["flags"] & 1),
        context=core["context"],
        hops=core["hops"],
        size_bytes=core["bytes"],
        destination=core["destination"],
        packet_hash=core["hash"] if has_hash else None,
    )


def job(core: tuple[int, int, int, int]) -> r.JobRecord:
    """One piece of work."""
    number, kind, cost_us, iface = core
    return r.JobRecord(number, r.JobKind(kind), to_s(cost_us), none(iface))


def verdict(core: tuple[int, int, bool, bytes | None, bool]) -> r.Verdict:
    """What became of an input."""
    sequence, reason, pending, packet_hash, remembered = core
    return r.Verdict(
        accepted=reason == r.DropReason.NONE,
        reason=r.DropReason(reason),
        packet_hash=packet_hash,
        remembered=remembered,
        pending=pending,
        sequence=sequence,
    )
