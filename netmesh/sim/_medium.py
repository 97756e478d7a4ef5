"""Media of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from netmesh._records import to_us

if TYPE_CHECKING:
    from netmesh.sim._node import SimNode
    from netmesh.sim._simulation import Simulation

MILLION = 1_000_000


def ppm(chance: float, name: str) -> int:
    """A chance of 0.0 to 1.0 in millionths."""
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"{name} must be from 0.0 to 1.0, not {chance!r}")
    return round(chance * MILLION)


def duration_us(seconds: float, name: str) -> int:
    """Seconds of 0 or more in microseconds."""
    if not seconds >= 0:
        raise ValueError(f"{name} must be 0 seconds or more, not {seconds!r}")
    return to_us(seconds)


# Options that are given as they are, as seconds, and as chances.
_PLAIN = {"half_duplex", "in_order", "queue_frames"}
_OR_ZERO = {"rate_bps", "mtu"}
_SECONDS = {"frame_s", "delay_s", "jitter_s", "reorder_s"}
_CHANCES = {"loss", "duplicate", "reorder", "corrupt"}


def core_options(options: Mapping[str, Any]) -> dict[str, int | bool]:
    """The options of a medium as the core wants them."""
    core: dict[str, int | bool] = {}
    for name, value in options.items():
        if name in _PLAIN:
            core[name] = value
        elif name in _OR_ZERO:
            core[name] = 0 if value is None else value
        elif name in _SECONDS:
            core[f"{name[:-2]}_us"] = duration_us(value, name)
        elif name in _CHANCES:
            core[f"{name}_ppm"] = ppm(value, name)
        else:
            raise TypeError(f"a medium has no option {name!r}")
    return core


@dataclass(frozen=True, slots=True, kw_only=True)
class MediumStats:
    """What passed a medium so far.

    Each frame that was offered is refused, swept, sent, or still waiting; each copy of a sent
    frame (one per other member, and the duplicates) is delivered, lost, cut, gone, or still in
    flight. The simulator checks these sums after each step.
    """

    members: int
    """Nodes that are connected now."""
    offered: int
    """Frames that engines gave to it."""
    offered_bytes: int
    """Their bytes, without access codes."""
    sent: int
    """Frames whose transmission is over."""
    sent_bytes: int
    """Their bytes, with access codes."""
    airtime_s: float
    """Time during which a frame was being sent; summed over members that do not share it."""
    copies: int
    """Copies of sent frames, one for each other member."""
    duplicates: int
    """Copies that duplication added."""
    corrupted: int
    """Copies with flipped bits."""
    waiting: int
    """Frames in queues or being sent, now."""
    in_flight: int
    """Copies on their way, now."""
    fates: Mapping[str, int]
    """Counts of "sent" (taken), "delivered", "lost", "cut", "gone", "refused_full",
    "refused_size", "refused_access" and "swept"."""
    frames: Mapping[str, int]
    """Frames sent by kind: "announce", "path_request", "data", "proof", "link_request",
    "keepalive", "resource", ..."""
    frame_bytes: Mapping[str, int]
    """Their bytes by kind."""

    @property
    def delivery(self) -> float:
        """The share of all copies that arrived; 1.0 when there were none."""
        ended = sum(self.fates.get(fate, 0) for fate in ("delivered", "lost", "cut", "gone"))
        return self.fates.get("delivered", 0) / ended if ended else 1.0


@final
class Medium:
    """What carries frames between its members; made by :meth:`Simulation.medium`.

    A frame that one member sends reaches all others, each with its own chance of loss, delay,
    duplication and corruption. Two members make a cable.
    """

    __slots__ = ("_sim", "name", "number")

    name: str
    """Its name."""
    number: int
    """Its number in the simulation, from 1."""

    def __init__(self, sim: Simulation, name: str, number: int) -> None:
        self._sim = sim
        self.name = name
        self.number = number

    def __repr__(self) -> str:
        return f"<Medium {self.name}>"

    def change(self, **options: Any) -> None:
        """Changes options of :meth:`Simulation.medium` for frames sent from now on."""
        self._sim._core.medium_change(self.number, core_options(options))

    def cut(
        self, sender: SimNode | None = None, hearer: SimNode | None = None, *, cut: bool = True
    ) -> None:
        """Cuts what ``sender`` sends off from ``hearer``; None is every member.

        A frame is lost when the cut is in force at the moment of its arrival.
        """
        self._sim._core.cut(
            self.number,
            0 if sender is None else sender.number,
            0 if hearer is None else hearer.number,
            cut,
        )

    def heal(self, sender: SimNode | None = None, hearer: SimNode | None = None) -> None:
        """Undoes cuts, all of them when no member is named."""
        self.cut(sender, hearer, cut=False)

    def partition(self, *groups: Iterable[SimNode]) -> None:
        """Cuts every group off from all others, in both directions."""
        sides = [list(group) for group in groups]
        for at, side in enumerate(sides):
            for other in sides[:at] + sides[at + 1 :]:
                for sender in side:
                    for hearer in other:
                        self.cut(sender, hearer)

    @property
    def stats(self) -> MediumStats:
        """What passed it so far."""
        core = self._sim._core.medium_stats(self.number)
        core["airtime_s"] = core.pop("airtime_us") / MILLION
        return MediumStats(**core)
