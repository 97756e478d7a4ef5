"""Durable, then promised: ratchets and emission times through crashes and odd clocks."""

from __future__ import annotations

from netmesh.destination import destination_hash
from netmesh.events import AnnounceHeard, PacketReceived
from netmesh.identity import Identity, Ratchets
from netmesh.records import DropReason
from netmesh.sim import SimNode, Simulation, scenario


class DurableIds:
    """The ids of the ratchets in a node's store; each is computed once."""

    def __init__(self, node: SimNode, identity: Identity, name: str) -> None:
        self._node = node
        self._identity = identity
        self._name = name
        self._ids: dict[bytes, bytes] = {}

    def now(self) -> set[bytes]:
        file = self._node.stored.get(self._name)
        if file is None:
            return set()
        keys = Ratchets.load(file, self._identity).private_keys
        fresh = next((at for at, key in enumerate(keys) if key in self._ids), len(keys))
        if fresh:
            newest = Ratchets.load(file, self._identity, retained=fresh)
            self._ids.update(zip(newest.private_keys, newest.ids, strict=True))
        return {self._ids[key] for key in keys}


@scenario
def promises(sim: Simulation, *, crashes: int = 6, odd_clock: bool = True) -> dict[str, int]:
    """No announce leaves whose ratchet is not durable; emission times never go back."""
    random = sim.random
    identity = sim.identity("bob")
    inbox = destination_hash(identity.hash, "example.inbox")
    interval_s = random.choice([1, 20, 600])
    seen = {"heard": 0, "ratchets": 0}
    announced: list[bytes] = []

    def program(node: SimNode) -> None:
        node.listen(
            identity, "example.inbox", prove="all", ratchets=True, ratchet_interval_s=interval_s
        )
        act(node, node.totals.boots)

    def act(node: SimNode, boots: int) -> None:
        """Announces and rotates, several at once now and then."""
        if not node.up or node.totals.boots != boots:
            return
        for _ in range(random.choice([1, 1, 2, 5])):
            if random.random() < 0.7:
                node.announce(inbox, random.choice([None, b"now"]))
            else:
                node.rotate(inbox)
        if random.random() < 0.3:
            alice.request_path(inbox)
        if odd_clock and random.random() < 0.3:
            node.step_clock(random.choice([-5000.0, -3.0, 2.0, 90.0]))
        sim.after(random.choice([0.001, 0.5, 7.0, 60.0]), lambda: act(node, boots))

    air = sim.medium("air", delay_s=0.002, in_order=True)
    alice = sim.node("alice")
    bob = sim.node(
        "bob",
        boot=program,
        job_delay=random.choice([0.0, (0.5, 3.0), (0.0, 2000.0)]),
        store_s=(0.0, random.choice([0.0, 0.05, 3.0])),
        store_failure=random.choice([0.0, 0.0, 0.2]),
    )
    for node in (alice, bob):
        node.connect(air)
    alice.subscribe(None, path_responses=True)
    durable = DurableIds(bob, identity, f"ratchets/{inbox.hex()}")
    last = {"emitted": 0}

    def heard(event: AnnounceHeard) -> None:
        seen["heard"] += 1
        sim.expect(
            event.emitted_unix_s >= last["emitted"],
            f"an announce of {event.emitted_unix_s} after one of {last['emitted']}",
        )
        last["emitted"] = event.emitted_unix_s
        if event.ratchet_id is None:
            sim.fail("an announce of a destination with ratchets has none")
            return
        if event.ratchet_id in announced:
            return
        sim.expect(event.ratchet_id in durable.now(), "an announced ratchet is not durable")
        announced.append(event.ratchet_id)
        seen["ratchets"] += 1

    alice.on(AnnounceHeard, heard)
    for _ in range(crashes):
        sim.run(random.choice([0.01, 1.0, 10.0, 100.0, 2000.0]))
        bob.crash()
        sim.run(random.choice([0.0, 5.0]))
        bob.restart()
    sim.run(5)
    stale = alice.stats().drops.get(DropReason.ANNOUNCE_STALE, 0)
    sim.expect(stale == 0, f"{stale} announces went back in time")
    # What was announced opens, also after the crashes.
    if announced:
        bob.events()
        end = alice.wait(alice.send(inbox, b"for the announced ratchet"))
        opened = [event for event in bob.events() if isinstance(event, PacketReceived)]
        sim.expect(end.ok and opened, "a packet for an announced ratchet was not opened")
    return seen
