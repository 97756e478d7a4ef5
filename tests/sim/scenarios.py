"""Endpoints on bad media: each scenario says what must come out of it, whatever the seed."""

from __future__ import annotations

from netmesh.destination import destination_hash
from netmesh.errors import NotFoundError
from netmesh.events import (
    AnnounceHeard,
    LinkActive,
    LinkClosed,
    LinkPacketReceived,
    PacketReceived,
    PathResult,
    ProgressMade,
    ReceiptDone,
    RequestReceived,
    ResourceFailed,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.records import CloseReason, Stage
from netmesh.sim import Medium, SimNode, Simulation, scenario

UNKNOWN_HOPS = 128


def bad_medium(sim: Simulation, name: str = "air", **options: object) -> Medium:
    """A medium with faults that the seed chooses, within reason."""
    random = sim.random
    chosen: dict[str, object] = {
        "rate_bps": random.choice([None, 9600, 250_000]),
        "delay_s": random.choice([0.0, 0.005, 0.3]),
        "jitter_s": random.choice([0.0, 0.02]),
        "loss": random.choice([0.0, 0.1, 0.3]),
        "duplicate": random.choice([0.0, 0.2]),
        "reorder": random.choice([0.0, 0.2]),
        "reorder_s": random.choice([0.05, 0.5]),
        "corrupt": random.choice([0.0, 0.05]),
        "half_duplex": random.random() < 0.5,
    }
    return sim.medium(name, **(chosen | options))  # type: ignore[arg-type]


def job_delay(sim: Simulation) -> tuple[float, float]:
    """From at once to much slower than the medium."""
    return sim.random.choice([(0.0, 0.0), (0.5, 2.0), (0.0, 500.0)])


def pair(sim: Simulation, medium: Medium, kind: str = "udp") -> tuple[SimNode, SimNode]:
    """Two nodes on a medium."""
    alice = sim.node("alice", job_delay=job_delay(sim))
    bob = sim.node("bob", job_delay=job_delay(sim))
    for node in (alice, bob):
        node.connect(medium, kind=kind)
    return alice, bob


def make_known(sim: Simulation, listener: SimNode, inbox: bytes, *nodes: SimNode) -> None:
    """Announces until every one of ``nodes`` has heard it."""
    for _ in range(200):
        if all(node.hops(inbox) < UNKNOWN_HOPS for node in nodes):
            return
        listener.announce(inbox)
        sim.run(5)
    sim.fail("200 announces were not enough")


def linked(sim: Simulation, node: SimNode, inbox: bytes) -> int:
    """A link that came up, after some tries."""
    for _ in range(100):
        link = node.open_link(inbox)
        if isinstance(node.wait_link(link), LinkActive):
            return link
    sim.fail("100 links were not enough")
    raise AssertionError


def quiet(sim: Simulation, *nodes: SimNode) -> None:
    """Runs until no operation is under way."""
    done = sim.run(
        until=lambda: all(node.stats().operations == 0 for node in nodes), timeout_s=50_000
    )
    sim.expect(done, "an operation never ends")


# ---------------------------------------------------------------------------- announces


@scenario
def announces(sim: Simulation, *, nodes: int = 5) -> dict[str, int]:
    """Announces over lossy media: what is learnt is true, and times never go back."""
    random = sim.random
    air = bad_medium(sim)
    members = [sim.node(f"n{number}", job_delay=job_delay(sim)) for number in range(nodes)]
    own: dict[bytes, tuple[SimNode, bytes | None]] = {}
    latest: dict[tuple[SimNode, bytes], int] = {}
    heard = 0

    def hear(node: SimNode, event: AnnounceHeard) -> None:
        nonlocal heard
        heard += 1
        owner, data = own[event.destination]
        sim.expect(owner is not node, "a node heard itself")
        sim.expect(event.identity == sim.identity(owner.name).hash, "another identity")
        sim.expect((event.app_data or b"") == (data or b""), "another app data")
        sim.expect(event.hops == 1, "one hop away, and not told so")
        before = latest.get((node, event.destination), 0)
        sim.expect(event.emitted_unix_s >= before, "an announce older than the one before it")
        latest[node, event.destination] = event.emitted_unix_s

    for node in members:
        node.connect(air)
        node.on(AnnounceHeard, lambda event, node=node: hear(node, event))
        node.subscribe()
        for number in range(random.randrange(1, 4)):
            data = random.choice([None, b"", random.randbytes(30)])
            inbox = node.listen(
                sim.identity(node.name),
                f"n.{number}",
                ratchets=random.random() < 0.5,
                app_data=data,
            )
            own[inbox] = node, data
    for _ in range(random.randrange(5, 40)):
        inbox = random.choice(list(own))
        own[inbox][0].announce(inbox)
        sim.run(random.choice([0.0, 0.1, 3.0, 40.0]))
    sim.run(60)
    for node in members:
        for path in node.paths():
            sim.expect(path.destination in own, "a path to nowhere")
            sim.expect(path.destination == path.next_hop, "a next hop on a medium without any")
    return {"heard": heard}


@scenario
def path_storm(sim: Simulation, *, sends: int = 1000) -> dict[str, int]:
    """A thousand tries to reach nobody in ten seconds: few requests, a thousand failures."""
    air = bad_medium(sim, loss=0.0)
    alice, _bob = pair(sim, air)
    nobody = destination_hash(sim.identity("nobody").hash, "example.inbox")
    ops = []
    for _ in range(sends):
        try:
            alice.send(nobody, b"x")
        except NotFoundError:
            pass
        else:
            sim.fail("a packet for an unknown identity was taken")
        op = alice.request_path(nobody, timeout_s=45.0)
        sim.expect(op is not None, "a waiting path request without an operation")
        ops.append(op)
        sim.run(10.0 / sends)
    quiet(sim, alice)
    ends = [event for event in alice.events() if isinstance(event, PathResult)]
    sim.expect(len(ends) == sends, f"{len(ends)} ends")
    sim.expect(all(not end.ok and end.stage is Stage.PATH for end in ends), "a path to nobody")
    requests = air.stats.frames.get("path_request", 0)
    sim.expect(requests <= 4, f"{requests} requests in 55 seconds")
    return {"requests": requests}


# -------------------------------------------------------------------------------- links


@scenario
def links(sim: Simulation, *, nodes: int = 4) -> dict[str, int]:
    """Idle links live through loss, die in a partition, and are opened anew after it."""
    random = sim.random
    loss = random.choice([0.0, 0.05])
    air = bad_medium(sim, loss=loss, corrupt=0.0, rate_bps=random.choice([None, 50_000]))
    hub = sim.node("hub", job_delay=job_delay(sim))
    others = [sim.node(f"n{number}", job_delay=job_delay(sim)) for number in range(nodes)]
    for node in (hub, *others):
        node.connect(air)
    inbox = hub.listen(sim.identity("hub"), "example.hub", prove="all")
    make_known(sim, hub, inbox, *others)
    open_links = {node: linked(sim, node, inbox) for node in others}
    sim.run(2000)
    if loss == 0.0:
        alive = [isinstance(node.state_of(link), LinkActive) for node, link in open_links.items()]
        sim.expect(all(alive), "an idle link died without loss")
    # Both ends notice the silence; none before its time.
    lost_at = sim.time_s
    living = {
        node: node.link(link).info
        for node, link in open_links.items()
        if isinstance(node.state_of(link), LinkActive)
    }
    air.cut()
    sim.run(3 * 720 + 60)
    for node, info in living.items():
        state = node.state_of(info.link)
        sim.expect(isinstance(state, LinkClosed), "a link without a peer is still up")
        assert isinstance(state, LinkClosed)
        sim.expect(state.reason is CloseReason.TIMEOUT, f"it closed by {state.reason.name}")
        silent = state.time_s - max(info.last_inbound_s or 0.0, info.activated_s or 0.0)
        sim.expect(silent >= info.stale_s - 1, f"it closed after {silent} s of silence")
    sim.expect(sim.time_s > lost_at, "time stood still")
    sim.expect(hub.stats().links_active == 0, "the hub keeps a link without a peer")
    air.heal()
    for node in others:
        link = linked(sim, node, inbox)
        # Data says that it is up, should its last handshake packet be lost.
        for _ in range(50):
            proof = node.wait(node.link(link).send(b"hello").op)
            if proof.ok or isinstance(node.state_of(link), LinkClosed):
                break
        sim.expect(proof.ok or loss > 0.0, "data on a new link is not proven")
    return {"keepalives": air.stats.frames.get("keepalive", 0)}


# ----------------------------------------------------------------------------- requests


@scenario
def requests(sim: Simulation, *, count: int = 12, size_max: int = 9000) -> dict[str, int]:
    """Requests of any size: each has one end, and an answer is the one that was given."""
    random = sim.random
    air = bad_medium(sim)
    alice, bob = pair(sim, air, random.choice(["udp", "tcp"]))
    inbox = bob.listen(sim.identity("bob"), "example.echo")
    bob.handle(inbox, "/echo")
    given: dict[bytes, bytes] = {}

    def answer(event: RequestReceived) -> None:
        asked = bytes(event.data)
        reply = given.setdefault(asked, random.randbytes(random.choice([0, 10, 500, size_max])))

        def respond() -> None:
            if bob.link(event.link).info.state == 2:
                bob.respond(event.token, reply, compress=random.random() < 0.5)

        sim.after(random.choice([0.0, 0.2, 8.0]), respond)

    bob.on(RequestReceived, answer)
    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    asked: dict[int, bytes] = {}
    for number in range(count):
        state = alice.state_of(link)
        if isinstance(state, LinkClosed):
            link = linked(sim, alice, inbox)
        data = number.to_bytes(2, "big") + random.randbytes(
            random.choice([0, 100, 380, 420, 470, size_max])
        )
        timeout = random.choice([None, None, 1.0, 60.0])
        asked[alice.link(link).request("/echo", data, timeout_s=timeout)] = data
        sim.run(random.choice([0.0, 0.0, 1.0, 30.0]))
    quiet(sim, alice, bob)
    answered = 0
    ends = [event for event in alice.events() if isinstance(event, ResponseDone)]
    sim.expect(sorted(end.op for end in ends) == sorted(asked), "not one end for each request")
    for end in ends:
        if end.ok:
            answered += 1
            sim.expect(end.data == given[asked[end.op]], "another answer than was given")
        else:
            sim.expect(end.stage is not Stage.NONE, "it failed nowhere")
    return {"answered": answered}


# ---------------------------------------------------------------------------- resources


@scenario
def resources(
    sim: Simulation, *, loss: float | None = None, size_max: int = 60_000
) -> dict[str, float]:
    """Transfers through loss of up to 30 %: complete and the same, or ended with a reason."""
    random = sim.random
    given: dict[str, object] = {} if loss is None else {"loss": loss}
    air = bad_medium(sim, **given)
    alice, bob = pair(sim, air, random.choice(["udp", "tcp", "rnode"]))
    policy = random.choice(["all", "all", "app"])
    inbox = bob.listen(
        sim.identity("bob"), "example.sink", resources=policy, hold_resources=random.random() < 0.3
    )
    bob.on(
        ResourceOffered,
        lambda event: sim.after(random.choice([0.0, 2.0]), lambda: decide(event.token)),
    )
    bob.on(ResourceReceived, lambda event: event.token and decide(event.token))

    def decide(token: int) -> None:
        try:
            bob.accept(token)
        except Exception as error:
            sim.expect(type(error).__name__ == "StateError", f"accept: {error}")

    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    sent: dict[bytes, bytes] = {}
    ops = []
    for _ in range(random.choice([1, 2, 3])):
        size = random.choice([1, 430, 465, 5000, random.randrange(1, size_max)])
        content = random.randbytes(size) if random.random() < 0.7 else bytes(size)
        try:
            op = alice.link(link).send_resource(
                content,
                metadata=random.choice([None, {"n": size}]),
                compression=random.choice(["off", "automatic", "when_smaller"]),
            )
        except Exception as error:
            sim.expect(type(error).__name__ == "StateError", f"send_resource: {error}")
            break
        ops.append((op, content))
        sent[content] = content
        sim.run(random.choice([0.0, 5.0]))
    quiet(sim, alice, bob)
    ours = alice.events()
    theirs = bob.events()
    ends = {event.op: event for event in ours if isinstance(event, ResourceSent)}
    received = [event.data for event in theirs if isinstance(event, ResourceReceived)]
    failed = [event for event in theirs if isinstance(event, ResourceFailed)]
    sim.expect(sorted(ends) == sorted(op for op, _ in ops), "not one end for each resource")
    sim.expect(all(data in sent for data in received), "a resource that nobody sent")
    for op, content in ops:
        end = ends[op]
        if end.ok:
            sim.expect(content in received, "proven, and not received")
            sim.expect(end.done_bytes == end.total_bytes, "complete, and not all of it")
        else:
            sim.expect(end.stage is not Stage.NONE, "it failed nowhere")
    for event in failed:
        sim.expect(event.stage is not Stage.NONE, "it failed nowhere")
    for event in ours:
        if isinstance(event, ProgressMade):
            sim.expect(0 <= event.fraction <= 1, "progress beyond all")
    return {"complete": sum(end.ok for end in ends.values()), "delivery": air.stats.delivery}


@scenario
def cancels(sim: Simulation, *, size: int = 20_000) -> dict[str, int]:
    """Cancelled in every phase, on either side: it stays cancelled."""
    random = sim.random
    air = bad_medium(sim, loss=random.choice([0.0, 0.1]))
    alice, bob = pair(sim, air, random.choice(["udp", "tcp"]))
    inbox = bob.listen(sim.identity("bob"), "example.sink", resources=random.choice(["all", "app"]))
    bob.handle(inbox, "/echo")
    bob.on(RequestReceived, lambda event: bob.respond(event.token, event.data, compress=False))
    offered: list[ResourceOffered] = []
    bob.on(ResourceOffered, lambda event: (offered.append(event), bob.accept(event.token)))
    make_known(sim, bob, inbox, alice)
    link = linked(sim, alice, inbox)
    content = random.randbytes(size)

    def transfer() -> tuple[int, float]:
        """A resource or request; how long one takes on this medium, at most."""
        if random.random() < 0.5:
            return alice.link(link).send_resource(content, compression="off"), 40.0
        return alice.link(link).request("/echo", content, timeout_s=30.0), 60.0

    def cancel(node: SimNode, op: int) -> bool:
        if node.end_of(op) is not None:
            return False
        try:
            node.cancel(op)
        except Exception as error:
            sim.expect(type(error).__name__ == "StateError", f"cancel: {error}")
            return False
        return True

    cancelled = 0
    for _ in range(6):
        if isinstance(alice.state_of(link), LinkClosed):
            link = linked(sim, alice, inbox)
        op, longest = transfer()
        # Early moments are the crowded ones.
        sim.run(longest * random.random() ** 4)
        if random.random() < 0.7:
            by, which = alice, op
        else:
            incoming = [record.op for record in bob.snapshot().transfers if not record.outgoing]
            by, which = bob, (incoming[0] if incoming else 0)
        if not which or not cancel(by, which):
            continue
        cancelled += 1
        sim.run(0)
        end = by.end_of(which)
        sim.expect(end is not None and end.stage is Stage.CANCELLED, "it did not end at once")
        by.events()
        sim.run(random.choice([0.0, 90.0]))
        if by is alice:
            late = [event for event in alice.events() if getattr(event, "op", None) == which]
            sim.expect(not late, f"{late} after the cancellation")
    quiet(sim, alice, bob)
    return {"cancelled": cancelled}


# ------------------------------------------------------------------------------- credit


@scenario
def credit(sim: Simulation, *, packets: int = 40) -> dict[str, int]:
    """A slow program slows its peer and loses nothing: what is proven was delivered."""
    random = sim.random
    air = bad_medium(sim, corrupt=0.0)
    alice = sim.node("alice", job_delay=job_delay(sim))
    bob = sim.node("bob", job_delay=job_delay(sim), credit=0)
    for node in (alice, bob):
        node.connect(air)
    inbox = bob.listen(sim.identity("bob"), "example.slow", prove="all", resources="all")
    bob.handle(inbox, "/ask")
    make_known(sim, bob, inbox, alice)
    granted = random.randrange(1, 6)
    bob.credit(granted)
    sent: dict[int, bytes] = {}
    for number in range(packets):
        content = b"packet %d" % number
        op = alice.send(inbox, content, timeout_s=random.choice([5.0, 60.0]))
        assert op is not None
        sent[op] = content
        if random.random() < 0.2:
            more = random.randrange(1, 4)
            granted += more
            bob.credit(more)
        sim.run(random.choice([0.0, 0.5, 4.0]))
    quiet(sim, alice)
    got = [event.data for event in bob.events() if isinstance(event, PacketReceived)]
    sim.expect(len(got) <= granted, f"{len(got)} packets with room for {granted}")
    sim.expect(len(got) == len(set(got)), "a packet came twice")
    ends = [event for event in alice.events() if isinstance(event, ReceiptDone)]
    sim.expect(len(ends) == packets, "not one end for each packet")
    for end in ends:
        if end.ok:
            sim.expect(sent[end.op] in got, "proven, and not delivered")
    # With room again, a link comes up and its data arrives.
    bob.credit(50)
    link = linked(sim, alice, inbox)
    for _ in range(20):
        proof = alice.wait(alice.link(link).send(b"again").op)
        if proof.ok:
            break
        if isinstance(alice.state_of(link), LinkClosed):
            link = linked(sim, alice, inbox)
    sim.expect(proof.ok, "nothing gets through any more")
    arrived = [event.data for event in bob.events() if isinstance(event, LinkPacketReceived)]
    sim.expect(b"again" in arrived, "proven, and not delivered")
    return {"delivered": len(got), "granted": granted}


# ---------------------------------------------------------------------------- slow radio


@scenario
def slow_channel(sim: Simulation, *, size: int = 20_000, rate_bps: int = 1_200) -> dict[str, float]:
    """Three nodes on one half-duplex channel of 1.2 kbit/s: a file within three times the ideal."""
    random = sim.random
    air = sim.medium(
        "air", rate_bps=rate_bps, delay_s=0.002, half_duplex=True, loss=random.choice([0.0, 0.02])
    )
    alice, bob, carol = (
        sim.node(name, job_delay=job_delay(sim)) for name in ("alice", "bob", "carol")
    )
    for node in (alice, bob, carol):
        node.connect(air, kind="rnode")
    inbox = bob.listen(sim.identity("bob"), "example.files", resources="all")
    board = carol.listen(sim.identity("carol"), "example.board")
    make_known(sim, bob, inbox, alice)

    def talk() -> None:
        carol.announce(board)
        sim.after(random.uniform(60, 120), talk)

    sim.after(random.uniform(0, 60), talk)
    link = linked(sim, alice, inbox)
    began = sim.time_s
    content = random.randbytes(size)
    end = alice.wait(alice.link(link).send_resource(content, compression="off"))
    sim.expect(end.ok, f"the transfer failed at stage {end.stage.name}")
    received = [event.data for event in bob.events() if isinstance(event, ResourceReceived)]
    sim.expect(received == [content], "another file arrived")
    ideal = size * 8 / rate_bps
    took = sim.time_s - began
    sim.expect(took <= 3 * ideal, f"{took:.0f} s for a file of {ideal:.0f} s")
    return {"times_ideal": took / ideal, "airtime_share": air.stats.airtime_s / sim.time_s}
