"""Doors between parts of the service: each forwards TCP, and can be made to delay, hold, lose or cut."""

import asyncio
from pathlib import Path

from tests.harness.background import Listening

Target = Path | tuple[str, int]
PIECE = 65536


class Door:
    """A proxy of one server: listens on `port`, forwards to `target`. Its attributes may be set from any thread."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.port = 0
        self.open()

    def open(self) -> None:
        """Forward everything, at once."""
        self.delay = 0.0
        """Seconds by which each piece of data is delayed."""
        self.is_held = False
        """Nothing passes, but connections stay, as with an unplugged cable."""
        self.is_closed = False
        """New connections are refused."""
        self.loses_answers = False
        """Requests arrive, but the connection is cut at the answer's first piece."""

    def cut(self) -> None:
        """Abort all connections on both sides."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in list(self._writers)])

    async def listen(self) -> asyncio.Server:
        self._loop = asyncio.get_running_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_closed:
            writer.transport.abort()
            return
        try:
            there = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        both = {writer, there[1]}
        self._writers |= both
        asking = asyncio.ensure_future(self._pass(reader, there[1]))
        answering = asyncio.ensure_future(self._pass(there[0], writer, is_answer=True))
        # The server decides when the connection ends, but an abort of the client's ends both sides.
        asking.add_done_callback(lambda task: None if task.cancelled() or not task.exception() else answering.cancel())
        try:
            await answering
            for each in both:
                each.close()
        except (OSError, asyncio.CancelledError):
            for each in both:
                each.transport.abort()
        finally:
            asking.cancel()
            self._writers -= both

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, Path):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection(*self.target)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        while data := await reader.read(PIECE):
            if self.delay:
                await asyncio.sleep(self.delay)
            while self.is_held:
                await asyncio.sleep(0.02)
            if is_answer and self.loses_answers:
                raise ConnectionAbortedError
            writer.write(data)
            await writer.drain()
        if not is_answer and writer.can_write_eof():
            writer.write_eof()


class Doors(Listening):
    """The doors by name, in a thread of their own until the block ends."""

    def __init__(self, **targets: Target) -> None:
        self.named = {name: Door(target) for name, target in targets.items()}

    def __getitem__(self, name: str) -> Door:
        return self.named[name]

    def open_all(self) -> None:
        for door in self.named.values():
            door.open()

    async def listen(self) -> list[asyncio.Server]:
        return [await door.listen() for door in self.named.values()]
