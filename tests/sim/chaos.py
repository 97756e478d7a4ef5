"""Everything at once: nodes that do random things on media that do their worst."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from netmesh.errors import NetmeshError
from netmesh.events import (
    LinkActive,
    LinkClosed,
    LinkPacketReceived,
    PacketReceived,
    ReceiptDone,
    RequestReceived,
    ResourceOffered,
    ResourceReceived,
    ResourceSent,
    ResponseDone,
)
from netmesh.sim import Medium, SimNode, Simulation, scenario

# What a call may raise when its link, path or node is not in the state for it.
EXPECTED = (NetmeshError, MemoryError)


class Agent:
    """One node's program: it remembers what it did, and checks what comes back."""

    def __init__(self, chaos: Chaos, node: SimNode) -> None:
        self.chaos = chaos
        self.sim = chaos.sim
        self.node = node
        self.identity = self.sim.identity(node.name)
        self.inbox = b""
        self.links: list[int] = []
        self.begun: dict[int, str] = {}
        self.ended: dict[int, str] = {}

    def boot(self, node: SimNode) -> None:
        random = self.sim.random
        self.begun.clear()
        self.ended.clear()
        self.links.clear()
        try:
            self.inbox = node.listen(
                self.identity,
                "chaos.inbox",
                prove=random.choice(["all", "app"]),
                hold=random.random() < 0.3,
                resources=random.choice(["all", "app"]),
                hold_resources=random.random() < 0.3,
                ratchets=random.random() < 0.5,
                ratchet_interval_s=random.choice([5, 60, 1800]),
            )
            node.handle(self.inbox, "/echo")
            node.subscribe(None, path_responses=True)
        except EXPECTED:
            # Memory was made to fail: try again.
            self.sim.after(1, lambda: self.boot(node) if node.up and not self.inbox else None)

    def watch(self) -> None:
        node = self.node
        node.on(LinkActive, self.link_active)
        node.on(LinkClosed, lambda event: self.forget(event.link))
        node.on(PacketReceived, self.decide)
        node.on(LinkPacketReceived, self.decide)
        node.on(ResourceOffered, self.decide)
        node.on(ResourceReceived, self.received)
        node.on(RequestReceived, self.asked)
        for kind in (ReceiptDone, ResourceSent, ResponseDone):
            node.on(kind, self.done)

    def forget(self, link: int) -> None:
        if link in self.links:
            self.links.remove(link)

    def link_active(self, event: LinkActive) -> None:
        self.links.append(event.link)

    def decide(self, event: PacketReceived | LinkPacketReceived | ResourceOffered) -> None:
        if event.token is not None:
            self.later(lambda token=event.token: self.answer_token(token))

    def answer_token(self, token: int) -> None:
        choice = self.sim.random.random()
        if choice < 0.7:
            self.node.accept(token)
        elif choice < 0.9:
            self.node.refuse(token)

    def received(self, event: ResourceReceived) -> None:
        self.sim.expect(
            event.data in self.chaos.contents, f"{self.node.name} received what nobody sent"
        )
        if event.token is not None:
            self.later(lambda token=event.token: self.answer_token(token))

    def asked(self, event: RequestReceived) -> None:
        data = event.data
        self.sim.expect(data in self.chaos.contents, "a request that nobody made")

        def answer() -> None:
            if self.sim.random.random() < 0.9:
                self.node.respond(event.token, data, compress=False)
            else:
                self.node.refuse(event.token)

        self.later(answer)

    def done(self, event: ReceiptDone | ResourceSent | ResponseDone) -> None:
        self.ended[event.op] = event.reason
        if isinstance(event, ResponseDone) and event.ok:
            self.sim.expect(event.data in self.chaos.contents, "an answer that nobody gave")

    def later(self, call: Callable[[], object]) -> None:
        """Calls now or somewhat later, unless the node went down meanwhile."""
        boots = self.node.totals.boots

        def guarded() -> None:
            if self.node.up and self.node.totals.boots == boots:
                self.attempt(call)

        self.sim.after(self.sim.random.choice([0.0, 0.0, 0.001, 0.3, 5.0, 20.0]), guarded)

    def attempt(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(EXPECTED):
            call()

    # -------------------------------------------------------------- what it does

    def act(self) -> None:
        if not self.node.up:
            return
        random = self.sim.random
        actions = [
            self.announce,
            self.announce,
            self.send,
            self.ask_path,
            self.open_link,
            self.open_link,
            self.link_send,
            self.link_send,
            self.request,
            self.request,
            self.resource,
            self.resource,
            self.cancel,
            self.cancel,
            self.close_link,
            self.identify,
            self.rotate,
            self.replay,
        ]
        self.attempt(random.choice(actions))

    def target(self) -> bytes:
        others = [agent for agent in self.chaos.agents if agent is not self and agent.inbox]
        if not others or self.sim.random.random() < 0.05:
            return self.sim.random.randbytes(16)
        return self.sim.random.choice(others).inbox

    def content(self, most: int) -> bytes:
        random = self.sim.random
        size = random.choice([0, 1, 16, 100, 383, 431, 1000, 5000, most])
        made = random.randbytes(min(size, most))
        self.chaos.contents.add(made)
        return made

    def note(self, op: int | None, what: str) -> None:
        if op:
            self.begun[op] = what

    def timeout(self) -> float | None:
        return self.sim.random.choice([None, None, 0.5, 4.0, 30.0])

    def announce(self) -> None:
        if self.inbox:
            self.node.announce(self.inbox, self.sim.random.choice([None, b"", b"app data"]))

    def rotate(self) -> None:
        if self.inbox:
            self.node.rotate(self.inbox)

    def send(self) -> None:
        content = self.content(380) or b"x"
        self.note(self.node.send(self.target(), content, timeout_s=self.timeout()), "packet")

    def ask_path(self) -> None:
        self.node.request_path(self.target(), timeout_s=self.timeout() or 10.0)

    def open_link(self) -> None:
        if len(self.links) < 6:
            self.node.open_link(self.target(), timeout_s=self.timeout())

    def some_link(self) -> int:
        if not self.links:
            raise NetmeshError("no link", reason="STATE")
        return self.sim.random.choice(self.links)

    def link_send(self) -> None:
        sent = self.node.link(self.some_link()).send(
            self.content(400) or b"x", timeout_s=self.timeout()
        )
        self.note(sent.op, "link packet")

    def request(self) -> None:
        link = self.node.link(self.some_link())
        op = link.request("/echo", self.content(12_000), timeout_s=self.timeout())
        self.note(op, "request")

    def resource(self) -> None:
        link = self.node.link(self.some_link())
        content = self.content(30_000) or b"x"
        self.chaos.contents.add(content)
        op = link.send_resource(
            content,
            metadata=self.sim.random.choice([None, {"name": "x"}]),
            compression=self.sim.random.choice(["off", "automatic"]),
        )
        self.note(op, "resource")

    def cancel(self) -> None:
        live = [op for op in self.begun if op not in self.ended]
        if live:
            self.node.cancel(self.sim.random.choice(live))

    def close_link(self) -> None:
        if self.sim.random.random() < 0.3:
            self.node.link(self.some_link()).close()

    def identify(self) -> None:
        self.node.link(self.some_link()).identify(self.identity)

    def replay(self) -> None:
        """Any bytes, as if they had come in."""
        random = self.sim.random
        raw = bytearray(random.randbytes(random.randrange(1, 600)))
        if len(raw) > 18 and random.random() < 0.7:
            raw[0] &= 0x6F
            raw[1] = random.choice([0, 0, 1, 127])
            own = [self.inbox, *(self.node.link(link).info.link_id for link in self.links)]
            raw[2:18] = random.choice(own) or raw[2:18]
        interface = self.node.interfaces()
        if interface:
            self.node.input(random.choice(interface).interface, bytes(raw))


class Chaos:
    """The network, and what befalls it."""

    def __init__(self, sim: Simulation, nodes: int, allocation_failure: float) -> None:
        self.sim = sim
        self.contents: set[bytes] = {b"x"}
        random = sim.random
        self.media = [self.medium(number) for number in range(random.choice([1, 1, 2]))]
        self.agents: list[Agent] = []
        for number in range(nodes):
            agent_of: list[Agent] = []
            node = sim.node(
                f"n{number}",
                clock_ahead_s=random.choice([0.0, -3600.0, 100.0]),
                job_delay=random.choice([0.0, (0.5, 2.0), (0.0, 1000.0), (0.0, 20000.0)]),
                store_s=(0.0, random.choice([0.0, 0.01, 2.0])),
                store_failure=random.choice([0.0, 0.0, 0.3]),
                allocation_failure=allocation_failure,
                boot=lambda node, agent_of=agent_of: agent_of[0].boot(node),
            )
            agent = Agent(self, node)
            agent_of.append(agent)
            self.agents.append(agent)
            agent.watch()
            for medium in self.media:
                if medium is self.media[0] or random.random() < 0.7:
                    self.connect(node, medium)

    def medium(self, number: int) -> Medium:
        random = self.sim.random
        return self.sim.medium(
            f"m{number}",
            rate_bps=random.choice([None, 2400, 50_000, 1_000_000]),
            delay_s=random.choice([0.0, 0.01, 0.8]),
            jitter_s=random.choice([0.0, 0.1]),
            loss=random.choice([0.0, 0.05, 0.3]),
            duplicate=random.choice([0.0, 0.1]),
            reorder=random.choice([0.0, 0.2]),
            reorder_s=random.choice([0.0, 1.0]),
            corrupt=random.choice([0.0, 0.02]),
            half_duplex=random.random() < 0.5,
            in_order=random.random() < 0.3,
            queue_frames=random.choice([8, 256]),
        )

    def connect(self, node: SimNode, medium: Medium) -> None:
        try:
            node.connect(medium, kind=self.sim.random.choice(["udp", "tcp", "rnode"]))
        except EXPECTED:
            self.sim.after(1, lambda: self.reconnect(node, medium))

    def reconnect(self, node: SimNode, medium: Medium) -> None:
        if node.up and node.interface_on(medium) is None:
            self.connect(node, medium)

    def act(self) -> None:
        for _ in range(self.sim.random.randrange(4)):
            self.sim.random.choice(self.agents).act()
        if self.sim.random.random() < 0.05:
            self.befall()

    def befall(self) -> None:
        random = self.sim.random
        medium = random.choice(self.media)
        node = random.choice(self.agents).node
        what = random.randrange(9)
        if what == 0:
            medium.cut()
            self.sim.after(random.choice([1.0, 30.0, 300.0]), medium.heal)
        elif what == 1:
            other = random.choice(self.agents).node
            if node.interface_on(medium) and other.interface_on(medium):
                medium.cut(node, other)
                self.sim.after(60.0, medium.heal)
        elif what == 2:
            medium.change(loss=random.choice([0.0, 0.1, 0.5]))
        elif what == 3 and node.up:
            node.crash()
            self.sim.after(random.choice([0.0, 1.0, 30.0]), lambda: self.up_again(node))
        elif what == 4 and node.up:
            node.stop()
            self.sim.after(random.choice([0.0, 5.0]), lambda: self.up_again(node))
        elif what == 5:
            node.step_clock(random.choice([-100_000.0, -2.0, 3.0, 100_000.0]))
        elif what == 6 and node.up and node.interface_on(medium):
            node.set_online(medium, False)
            self.sim.after(10.0, lambda: self.online(node, medium))
        elif what == 7 and node.up and node.interface_on(medium):
            node.disconnect(medium)
            self.sim.after(10.0, lambda: self.reconnect(node, medium))
        elif what == 8:
            medium.change(corrupt=random.choice([0.0, 0.2]), duplicate=random.choice([0.0, 0.5]))

    def up_again(self, node: SimNode) -> None:
        if not node.up:
            try:
                node.restart()
            except EXPECTED:
                self.sim.after(1.0, lambda: self.up_again(node))

    def online(self, node: SimNode, medium: Medium) -> None:
        if node.up and node.interface_on(medium):
            node.set_online(medium, True)


@scenario
def chaos(
    sim: Simulation, *, nodes: int = 4, seconds: float = 400.0, allocation_failure: float = 0.0
) -> dict[str, float]:
    """Random calls, faults and crashes; in the end all is quiet."""
    network = Chaos(sim, nodes, allocation_failure)
    end = sim.time_s + seconds
    while sim.time_s < end:
        sim.run(sim.random.choice([0.0, 0.001, 0.05, 1.0, 5.0]))
        network.act()
    for medium in network.media:
        medium.heal()
    # Whatever was begun has an end, however slow the medium is.
    up = [agent for agent in network.agents if agent.node.up]
    quiet = sim.run(
        until=lambda: all(agent.node.stats().operations == 0 for agent in up), timeout_s=50_000
    )
    sim.expect(quiet, "an operation never ends")
    for agent in up:
        missing = [f"{op} {what}" for op, what in agent.begun.items() if op not in agent.ended]
        sim.expect(not missing, f"{agent.node.name}: no end of {', '.join(missing)}")
    return {"operations": sum(agent.node.totals.operations for agent in network.agents)}
