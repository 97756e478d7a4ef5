"""Bots: commands, limits, what they remember, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from netmesh import Identity, Node, errors
from netmesh.bot import Bot, Request, Running, State
from netmesh.interfaces import Pipe, TCPClient, TCPServer
from netmesh.lxmf import delivery_hash, fields
from netmesh.messaging import Mailbox

pytestmark = pytest.mark.asyncio
PATIENCE = 40.0


@asynccontextmanager
async def talking(bot: Bot, **options: Any) -> AsyncIterator[tuple[Running, Mailbox]]:
    """A bot, and the mailbox of someone whom it can verify."""
    left, right = Pipe.pair()
    async with (
        Node(interfaces=[left], shared_instance=False, **options) as here,
        Node(interfaces=[right], shared_instance=False) as there,
        bot.open(here) as running,
    ):
        box = await there.lxmf(display_name="Ann")
        await box.announce()
        yield running, box


async def asked(running: Running, box: Mailbox, text: str, **more: Any) -> str:
    """What the bot answers."""
    sent = await box.send(running.address, text, timeout=PATIENCE, **more)
    answer = await box.get(timeout=PATIENCE)
    assert answer.source == running.address
    assert answer.verified
    assert fields.Fields.read(answer.fields).reply_to == sent.id
    return answer.content


def plain() -> Bot:
    """A bot with a bit of everything."""
    bot = Bot("Plain", prefix="!", rate=None)

    @bot.command("echo", "say", help="says it again")
    async def echo(request: Request) -> str:
        return f"{request.command}: {request.text} / {len(request.words)}"

    @bot.command("count")
    def count(request: Request) -> str:
        request.state["count"] = request.state.get("count", 0) + 1
        return str(request.state["count"])

    @bot.command("twice")
    async def twice(request: Request) -> None:
        await request.reply("one", title="T", fields={0x20: b"kept"})
        await request.reply("two")

    @bot.command("fail")
    async def fail(_request: Request) -> str:
        raise RuntimeError("as told")

    @bot.on_message
    async def other(request: Request) -> str | None:
        if request.text == "be quiet":
            return None
        return f"no command: {request.text}, {len(request.fields.attachments)} files"

    return bot


async def test_commands_go_to_their_functions() -> None:
    async with talking(plain()) as (running, box):
        assert await asked(running, box, "!echo  a  b ") == "echo: a  b / 2"
        assert await asked(running, box, "!SAY x") == "say: x / 1"
        assert await asked(running, box, "hello") == "no command: hello, 0 files"
        mine = fields.build(attachments=[fields.Attachment("a", b"")])
        assert await asked(running, box, "see", fields=mine) == "no command: see, 1 files"
        told = await asked(running, box, "!help")
        assert told.splitlines() == [
            "!echo  says it again",
            "!say  says it again",
            "!count",
            "!twice",
            "!fail",
            "!help  this list",
        ]
        assert await asked(running, box, "!nothing") == "Unknown. Try !help"
        assert running.dropped == {"unknown": 1}


async def test_a_function_may_answer_more_than_once() -> None:
    async with talking(plain()) as (running, box):
        await box.send(running.address, "!twice", timeout=PATIENCE)
        first, second = [await box.get(timeout=PATIENCE) for _ in range(2)]
        assert (first.content, first.title, second.content) == ("one", "T", "two")
        assert fields.Fields.read(first.fields).unknown == {0x20: b"kept"}


async def test_a_function_that_raises_ends_its_message_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with talking(plain()) as (running, box):
        await box.send(running.address, "!fail", timeout=PATIENCE)
        assert await asked(running, box, "!echo x") == "echo: x / 1"
        assert running.dropped == {"failed": 1}
        assert "as told" in caplog.text


async def test_some_commands_are_for_some() -> None:
    bot = Bot("Keeper")
    owner = Identity()

    @bot.command("stop", allowed=[delivery_hash(owner)])
    async def stop(_request: Request) -> str:
        return "stopped"

    async with talking(bot) as (running, box):
        assert await asked(running, box, "/stop") == "You may not."
        assert "/stop" not in await asked(running, box, "/help")
        mine = await box._node.lxmf(owner)
        await mine.announce()
        assert await asked(running, mine, "/stop") == "stopped"
        assert running.dropped == {"denied": 1}


async def test_each_sender_has_a_limit() -> None:
    bot = Bot("Slow", rate=2, per_s=10_000)

    @bot.on_message
    async def other(request: Request) -> str:
        return request.text

    async with talking(bot) as (running, box):
        for number in range(5):
            await box.send(running.address, str(number), timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while running.dropped.get("rate", 0) < 3:
                await asyncio.sleep(0.01)
        assert [(await box.get(timeout=PATIENCE)).content for _ in range(2)] == ["0", "1"]
        other_box = await box._node.lxmf(Identity())
        await other_box.announce()
        assert await asked(running, other_box, "me too") == "me too"


async def test_messages_without_words_are_passed_over() -> None:
    async with talking(plain()) as (running, box):
        ping = fields.build(commands=[fields.Command(fields.CommandId.PING)])
        await box.send(running.address, "", fields=ping, timeout=PATIENCE)
        assert await asked(running, box, "!echo x") == "echo: x / 1"
        assert running.dropped == {"silent": 1}


@pytest.mark.parametrize("unverified", [False, True])
async def test_unverified_messages_count_only_when_asked_for(unverified: bool) -> None:
    bot = Bot("Careful", unverified=unverified)
    taken = asyncio.Event()

    @bot.on_message
    async def other(_request: Request) -> None:
        taken.set()

    left, right = Pipe.pair()
    async with (
        Node(interfaces=[left], shared_instance=False) as here,
        Node(interfaces=[right], shared_instance=False) as there,
        bot.open(here) as running,
    ):
        # Signed by someone of whom the bot can find nothing.
        await there.send_message(running.address, "hello", identity=Identity(), timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while not taken.is_set() and not running.dropped:
                await asyncio.sleep(0.01)
        assert taken.is_set() is unverified
        assert running.dropped == ({} if unverified else {"unverified": 1})


async def test_what_it_remembers_outlives_it(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    addresses = set()
    for expected in ("1", "2"):
        async with talking(plain(), storage=storage) as (running, box):
            addresses.add(running.address)
            assert await asked(running, box, "!count") == expected
            # Durable before the answer left.
            assert json.loads((storage / "bot.json").read_text()) == {"count": int(expected)}
    assert len(addresses) == 1


async def test_damaged_state_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for text in ("{", "[]"):
        file.write_text(text)
        async with Node(shared_instance=False) as node:
            with pytest.raises(errors.StateError, match=r"state\.json is damaged"):
                async with plain().open(node, state=str(file)):
                    pass


async def test_state_is_a_dictionary(tmp_path: Path) -> None:
    state = State(tmp_path / "new" / "state.json")
    state["a"] = [1]
    state.save()
    assert os.stat(tmp_path / "new" / "state.json").st_mode & 0o777 == 0o600
    again = State(tmp_path / "new" / "state.json")
    assert dict(again) == {"a": [1]}
    del again["a"]
    again.save()
    assert len(State(tmp_path / "new" / "state.json")) == 0
    state["bad"] = {1, 2}
    with pytest.raises(TypeError):
        state.save()


async def test_closing_lets_answers_under_way_end() -> None:
    bot = Bot("Slow")
    begun = asyncio.Event()

    @bot.on_message
    async def other(request: Request) -> str:
        begun.set()
        await asyncio.sleep(0.2)
        return request.text

    left, right = Pipe.pair()
    async with (
        Node(interfaces=[left], shared_instance=False) as here,
        Node(interfaces=[right], shared_instance=False) as there,
    ):
        box = await there.lxmf()
        await box.announce()
        async with bot.open(here) as running:
            await box.send(running.address, "last", timeout=PATIENCE)
            async with asyncio.timeout(PATIENCE):
                await begun.wait()
        assert (await box.get(timeout=PATIENCE)).content == "last"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bot("x", prefix=""),
        lambda: Bot("x", prefix=" /"),
        lambda: Bot("x", rate=0),
        lambda: Bot("x", per_s=0),
        lambda: Bot("x").command(),
        lambda: Bot("x").command("two words"),
        lambda: plain().command("ECHO")(lambda _: None),
    ],
)
async def test_wrong_descriptions_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"prefix|rate|per_s|name|already"):
        make()


PROGRAM = """
import signal
import sys
from netmesh.bot import Bot
from netmesh.interfaces import TCPClient

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored
bot = Bot("Program")

@bot.on_message
async def other(request):
    return "alive"

bot.run(storage=sys.argv[1], interfaces=[TCPClient("127.0.0.1", int(sys.argv[2]))])
print("ended", flush=True)
"""


async def test_an_interrupt_ends_a_program_cleanly(tmp_path: Path) -> None:
    async with Node(shared_instance=False) as node:
        server = await node.add_interface(TCPServer("127.0.0.1", 0))
        port = (await node.interface_info(server.id)).port
        box = await node.lxmf()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        node.on_announce(heard.put_nowait, name="lxmf.delivery")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            str(tmp_path / "storage"),
            str(port),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            bot = (await heard.get()).destination
            await box.announce()
            await box.send(bot, "hello")
            assert (await box.get()).content == "alive"
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
        assert (process.returncode, out, err) == (0, b"ended\n", b"")


async def test_a_bot_is_announced_when_an_interface_comes() -> None:
    bot = Bot("Late")
    async with (
        Node(shared_instance=False) as here,
        Node(shared_instance=False) as there,
        bot.open(here) as running,
        asyncio.timeout(PATIENCE),
    ):
        heard = there.announces("lxmf.delivery")
        server = await there.add_interface(TCPServer("127.0.0.1", 0))
        port = (await there.interface_info(server.id)).port
        assert port
        await here.add_interface(TCPClient("127.0.0.1", port))
        assert (await heard.get()).destination == running.address


KILLED = """
import asyncio
import sys
from netmesh.bot import Bot
from netmesh.interfaces import TCPClient
from netmesh.messaging import Mailbox

storage, port, where = sys.argv[1:]
bot = Bot("Killed", announce_s=0.2)

async def stay():
    print("here", flush=True)
    await asyncio.get_running_loop().create_future()

if where == "acknowledging":
    Mailbox.ack = lambda self, message: stay()

@bot.on_message
async def other(request):
    if where == "working":
        await stay()
    return f"answer to {request.text}"

bot.run(storage=storage, interfaces=[TCPClient("127.0.0.1", int(port))])
"""


async def test_a_bot_that_is_killed_answers_once(tmp_path: Path) -> None:
    """kill -9 before an answer is stored, and between that and the acknowledgement."""

    async def start(where: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", KILLED, str(tmp_path / "storage"), str(port), where),
            stdout=asyncio.subprocess.PIPE,
        )

    async with Node(shared_instance=False) as node, asyncio.timeout(PATIENCE):
        server = await node.add_interface(TCPServer("127.0.0.1", 0))
        port = (await node.interface_info(server.id)).port
        box = await node.lxmf()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        node.on_announce(heard.put_nowait, name="lxmf.delivery")
        for where in ("working", "acknowledging"):
            process = await start(where)
            bot = (await heard.get()).destination
            await box.announce()
            await box.send(bot, where)
            assert process.stdout
            assert await process.stdout.readline() == b"here\n"
            process.kill()
            await process.wait()
            while not heard.empty():
                heard.get_nowait()
        process = await start("nowhere")
        await heard.get()
        await box.announce()
        await box.send(bot, "last")
        answers = []
        while "answer to last" not in answers:
            answers.append((await box.get()).content)
        process.kill()
        await process.wait()
        assert sorted(answers) == [
            f"answer to {each}" for each in ("acknowledging", "last", "working")
        ]
