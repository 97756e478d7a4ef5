"""A peer, a transport node or an instance on the upstream stack, driven by JSON lines.

    python rns_peer.py CONFIG_FOLDER

The folder holds an ordinary configuration. Orders are objects with "do", and perhaps with "id";
events are objects with "event", and with the "id" of the order that they belong to. Links are
named by their link id; an order that names none is for the newest.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import RNS
from lines import content, digest, orders, tell

PATH_PATIENCE_S = 40.0
PATH_AGAIN_S = 2.0


def ports() -> dict[str, int]:
    """The port of each TCP server interface by its name: those that ask for port 0 get one."""
    return {
        each.name: each.server.server_address[1]
        for each in RNS.Transport.interfaces
        if hasattr(each, "server")
    }


def next_second() -> None:
    """An announce counts only when it is of a later second than the one before it.

    So does the answer to a path request: both are announces.
    """
    time.sleep(1.01 - time.time() % 1)


def given(order: dict[str, Any]) -> Any:
    """What an order says to send: "hex" digits, a "size" to make of a "seed", or "data"."""
    if "hex" in order:
        return bytes.fromhex(order["hex"])
    if "size" in order:
        return content(order["seed"], order["size"], order.get("kind", "random"))
    return order.get("data")


class Heard:
    """Tells of announces."""

    aspect_filter = None
    receive_path_responses = True

    def received_announce(
        self, destination_hash: Any, announced_identity: Any, app_data: Any
    ) -> None:
        ratchet = RNS.Identity.get_ratchet(destination_hash)
        tell(
            "announce",
            destination=destination_hash.hex(),
            identity=announced_identity.hash.hex(),
            app_data=None if app_data is None else app_data.hex(),
            ratchet=None if ratchet is None else ratchet.hex(),
            hops=RNS.Transport.hops_to(destination_hash),
        )


class Peer:
    """One instance with the destination netmesh.interop, which echoes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.links: dict[str, Any] = {}
        self.resources: dict[str, Any] = {}
        self.local: dict[str, Any] = {}
        self.strategy = "all"
        self.cancel_incoming = False
        RNS.Reticulum(folder, loglevel=0)
        RNS.Transport.register_announce_handler(Heard())
        self.identity = self.own_identity()
        self.echo = RNS.Destination(
            self.identity, RNS.Destination.IN, RNS.Destination.SINGLE, "netmesh", "interop"
        )
        self.echo.set_proof_strategy(RNS.Destination.PROVE_ALL)
        self.echo.set_packet_callback(self.on_packet)
        self.echo.set_link_established_callback(self.on_link)
        for path, generate in (
            ("/echo", self.on_echo),
            ("/digest", lambda path, data, request_id, link_id, who, at: digest(data)),
            ("/content", lambda path, data, request_id, link_id, who, at: content(*data)),
            (
                "/who",
                lambda path, data, request_id, link_id, who, at: who.hash if who else b"nobody",
            ),
            ("/silent", lambda path, data, request_id, link_id, who, at: None),
        ):
            self.echo.register_request_handler(
                path, response_generator=generate, allow=RNS.Destination.ALLOW_ALL
            )
        self.echo.register_request_handler(
            "/secret", response_generator=self.on_echo, allow=RNS.Destination.ALLOW_LIST
        )

    def own_identity(self) -> Any:
        """The same one after a restart."""
        path = Path(self.folder) / "identity"
        if path.exists():
            return RNS.Identity.from_file(str(path))
        identity = RNS.Identity()
        identity.to_file(str(path))
        return identity

    @staticmethod
    def on_echo(path: Any, data: Any, request_id: Any, link_id: Any, who: Any, at: Any) -> Any:
        return data

    @staticmethod
    def on_packet(data: bytes, packet: Any) -> None:
        tell("packet", data=data.hex(), destination=packet.destination_hash.hex())

    # ---------------------------------------------------------------------- links

    def on_link(self, link: Any) -> None:
        self.watch(link, echo=True)
        tell("link", link=link.link_id.hex(), mtu=link.mtu, mdu=link.mdu)

    def watch(self, link: Any, *, echo: bool) -> None:
        name = link.link_id.hex()
        self.links[name] = link

        def on_packet(message: bytes, packet: Any) -> None:
            tell("link_packet", link=name, data=message.hex())
            if echo:
                RNS.Packet(link, message).send()

        link.set_packet_callback(on_packet)
        link.set_resource_callback(lambda offered: self.strategy == "yes")
        link.set_resource_started_callback(self.on_resource_started)
        link.set_resource_concluded_callback(lambda done: self.on_resource(name, done))
        link.set_link_closed_callback(
            lambda closed: tell("link_closed", link=name, reason=closed.teardown_reason)
        )
        link.set_remote_identified_callback(
            lambda _, identity: tell("identified", link=name, identity=identity.hash.hex())
        )
        self.set_strategy(link)

    def set_strategy(self, link: Any) -> None:
        link.set_resource_strategy(
            {
                "all": RNS.Link.ACCEPT_ALL,
                "none": RNS.Link.ACCEPT_NONE,
                "yes": RNS.Link.ACCEPT_APP,
                "no": RNS.Link.ACCEPT_APP,
            }[self.strategy]
        )

    # ------------------------------------------------------------------ resources

    def on_resource_started(self, resource: Any) -> None:
        if self.cancel_incoming:
            resource.progress_callback(lambda each: each.cancel())

    @staticmethod
    def on_resource(link: str, resource: Any) -> None:
        if resource.initiator:
            return
        if resource.status != RNS.Resource.COMPLETE:
            tell("resource_failed", link=link, status=resource.status)
            return
        data = resource.data.read()
        metadata = resource.metadata
        tell(
            "resource",
            link=link,
            size=len(data),
            hash=digest(data),
            metadata=metadata,
            compressed=bool(resource.compressed),
        )

    # --------------------------------------------------------------------- orders

    def do_announce(self, order: dict[str, Any]) -> None:
        if order.get("ratchets"):
            self.echo.enable_ratchets(self.folder + "/ratchets")
        data = order.get("app_data")
        next_second()
        self.echo.announce(None if data is None else bytes.fromhex(data))
        tell("announced", id=order["id"])

    def find(self, to: bytes) -> bool:
        """Asks for a path until it is known: an asked neighbour may not be there yet."""
        end = time.monotonic() + PATH_PATIENCE_S
        while not RNS.Transport.has_path(to):
            if time.monotonic() > end:
                return False
            RNS.Transport.request_path(to)
            again = time.monotonic() + PATH_AGAIN_S
            while not RNS.Transport.has_path(to) and time.monotonic() < again:
                time.sleep(0.01)
        return True

    def remote(self, to: bytes, aspect: str = "interop") -> Any:
        return RNS.Destination(
            RNS.Identity.recall(to),
            RNS.Destination.OUT,
            RNS.Destination.SINGLE,
            "netmesh",
            aspect,
        )

    def do_path(self, order: dict[str, Any]) -> None:
        to = bytes.fromhex(order["destination"])
        if order.get("forget"):
            next_second()
            RNS.Transport.expire_path(to)
            RNS.Transport.path_table.pop(to, None)
        found = self.find(to)
        tell("path", id=order["id"], found=found, hops=RNS.Transport.hops_to(to))

    def do_blackhole(self, order: dict[str, Any]) -> None:
        who = bytes.fromhex(order["identity"])
        RNS.Transport.blackhole_identity(who, order.get("until"), order.get("reason"))
        tell("blackholed", id=order["id"])

    def do_blackholes(self, order: dict[str, Any]) -> None:
        held = RNS.Transport.blackholed_identities
        tell(
            "blackholes",
            id=order["id"],
            held={
                who.hex(): [about["source"].hex(), about["until"], about["reason"]]
                for who, about in list(held.items())
            },
        )

    def do_known(self, order: dict[str, Any]) -> None:
        to = bytes.fromhex(order["destination"])
        tell("known", id=order["id"], known=RNS.Identity.recall(to) is not None)

    def do_packet(self, order: dict[str, Any]) -> None:
        to = bytes.fromhex(order["destination"])
        if not self.find(to):
            tell("no_path", id=order["id"])
            return
        packet = RNS.Packet(
            self.remote(to, order.get("aspect", "interop")), bytes.fromhex(order["data"])
        )
        self.prove(order, packet.send())

    @staticmethod
    def prove(order: dict[str, Any], receipt: Any) -> None:
        if not receipt:
            tell("not_sent", id=order["id"])
            return
        receipt.set_delivery_callback(lambda done: tell("proof", id=order["id"]))
        if receipt.get_status() == RNS.PacketReceipt.DELIVERED:
            tell("proof", id=order["id"])  # the proof was there before the callback was

    def do_connect(self, order: dict[str, Any]) -> None:
        to = bytes.fromhex(order["destination"])
        if not self.find(to):
            tell("no_path", id=order["id"])
            return

        watched = threading.Event()

        def on_up(link: Any) -> None:
            watched.wait(PATH_PATIENCE_S)  # it may be up before it is watched
            tell("up", id=order["id"], link=link.link_id.hex(), mtu=link.mtu, mdu=link.mdu)

        link = RNS.Link(self.remote(to), established_callback=on_up)
        self.watch(link, echo=False)
        watched.set()

    def do_send(self, order: dict[str, Any]) -> None:
        link = self.links[order["link"]]
        self.prove(order, RNS.Packet(link, bytes.fromhex(order["data"])).send())

    def do_request(self, order: dict[str, Any]) -> None:
        link = self.links[order["link"]]
        data = given(order)

        def on_response(done: Any) -> None:
            answer = done.response
            if isinstance(answer, bytes):
                tell("response", id=order["id"], size=len(answer), hash=digest(answer))
            elif hasattr(answer, "read"):
                data = answer.read()
                tell(
                    "response",
                    id=order["id"],
                    size=len(data),
                    hash=digest(data),
                    metadata=str(done.metadata),
                )
            else:
                tell("response", id=order["id"], value=answer)

        link.request(
            order["path"],
            data,
            response_callback=on_response,
            failed_callback=lambda done: tell("request_failed", id=order["id"]),
            timeout=order.get("timeout"),
        )

    def do_resource(self, order: dict[str, Any]) -> None:
        link = self.links[order["link"]]
        data = given(order)
        cancelled = threading.Event()

        def on_progress(resource: Any) -> None:
            if order.get("cancel") == "progress" and not cancelled.is_set():
                cancelled.set()
                resource.cancel()

        resource = RNS.Resource(
            data,
            link,
            metadata=order.get("metadata"),
            callback=lambda done: tell("resource_sent", id=order["id"], status=done.status),
            progress_callback=on_progress,
            auto_compress=order.get("compress", True),
        )
        self.resources[str(order["id"])] = resource

    def do_cancel(self, order: dict[str, Any]) -> None:
        """Once it is listed as under way: a cancel before that is forgotten by the job that
        advertises it."""
        resource = self.resources[str(order["resource"])]
        deadline = time.monotonic() + 10
        while resource not in resource.link.outgoing_resources and time.monotonic() < deadline:
            time.sleep(0.005)
        resource.cancel()

    def do_resources(self, order: dict[str, Any]) -> None:
        """Which resources of the peer are taken, on links to come and those there are."""
        self.strategy = order["strategy"]
        self.cancel_incoming = order.get("cancel", False)
        for link in self.links.values():
            self.set_strategy(link)
        tell("resources_set", id=order["id"])

    def do_identify(self, order: dict[str, Any]) -> None:
        self.links[order["link"]].identify(self.identity)
        tell("identity", id=order["id"], identity=self.identity.hash.hex())

    def do_close(self, order: dict[str, Any]) -> None:
        self.links[order["link"]].teardown()

    def do_link(self, order: dict[str, Any]) -> None:
        link = self.links[order["link"]]
        tell(
            "link_info",
            id=order["id"],
            status=link.status,
            mtu=link.mtu,
            mdu=link.mdu,
            keepalive=link.keepalive,
            rx=link.rx,
            idle=link.inactive_for(),
        )

    def do_tune(self, order: dict[str, Any]) -> None:
        """Sets the timing of links to come."""
        for name, value in order["values"].items():
            setattr(RNS.Link, name, value)
        tell("tuned", id=order["id"])

    def do_listen(self, order: dict[str, Any]) -> None:
        """A GROUP or PLAIN destination of a given identity and key."""
        destination = self.shared(order, RNS.Destination.IN)
        destination.set_packet_callback(self.on_packet)
        self.local[destination.hash.hex()] = destination
        tell("listening", id=order["id"], destination=destination.hash.hex())

    def do_broadcast(self, order: dict[str, Any]) -> None:
        destination = self.shared(order, RNS.Destination.OUT)
        RNS.Packet(destination, bytes.fromhex(order["data"]), create_receipt=False).send()
        tell("sent", id=order["id"], destination=destination.hash.hex())

    @staticmethod
    def shared(order: dict[str, Any], direction: int) -> Any:
        if order["type"] == "plain":
            return RNS.Destination(None, direction, RNS.Destination.PLAIN, "netmesh", "plain")
        identity = RNS.Identity.from_bytes(bytes.fromhex(order["identity"]))
        group = RNS.Destination(identity, direction, RNS.Destination.GROUP, "netmesh", "group")
        group.load_private_key(bytes.fromhex(order["key"]))
        return group

    def do_mailbox(self, order: dict[str, Any]) -> None:
        """Opens an LXMF mailbox of the same identity."""
        import lxmf_peer

        self.router, self.mailbox = lxmf_peer.open_mailbox(self.folder, self.identity)
        tell("mailbox", id=order["id"], destination=self.mailbox.hash.hex())

    def do_message(self, order: dict[str, Any]) -> None:
        import lxmf_peer

        lxmf_peer.send(self.router, self.mailbox, order)

    def do_post(self, order: dict[str, Any]) -> None:
        """Announces the mailbox."""
        next_second()
        self.router.announce(self.mailbox.hash)
        tell("posted", id=order["id"])

    def do_interfaces(self, order: dict[str, Any]) -> None:
        tell(
            "interfaces",
            id=order["id"],
            interfaces=[
                {"name": each.name, "rxb": each.rxb, "txb": each.txb, "mtu": each.HW_MTU}
                for each in RNS.Transport.interfaces
            ],
        )


def main() -> None:
    peer = Peer(sys.argv[1])
    tell(
        "ready",
        version=RNS.__version__,
        destination=peer.echo.hash.hex(),
        identity=peer.identity.hash.hex(),
        transport=RNS.Transport.identity.hash.hex(),
        ports=ports(),
    )
    for order in orders():
        work = getattr(peer, "do_" + order["do"])
        order = {"id": None, "link": next(reversed(peer.links), None)} | order
        if order["do"] in ("announce", "path", "packet", "connect", "message", "post"):  # may wait
            threading.Thread(target=work, args=(order,)).start()
        else:
            work(order)


main()
