"""A proxy that ends TLS, as stands in front of a dashboard. It tells who asked, and how. Run as a program, it
prints its address."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.support.certificates import Authority


@contextmanager
def tls_proxy(port: int, folder: Path) -> Iterator[str]:
    """In front of that port of this machine; gives its own address."""
    words = [sys.executable, "-m", __name__, str(port), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def _proxy(port: int, folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority(folder).sign("proxy", address="127.0.0.1"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            behind, ahead = await asyncio.open_connection("127.0.0.1", port)
            ahead.write(_told(head))
            await asyncio.gather(_carry(reader, ahead), _carry(behind, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def _told(head: bytes) -> bytes:
    """One request a connection, since only the first is looked at."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    lines = [line for line in lines if not line.lower().startswith(b"connection:")]
    told = (b"Connection: close", b"X-Forwarded-For: 203.0.113.7", b"X-Forwarded-Proto: https")
    return b"\r\n".join([first, *lines, *told]) + b"\r\n\r\n"


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(_proxy(int(sys.argv[1]), Path(sys.argv[2])))
