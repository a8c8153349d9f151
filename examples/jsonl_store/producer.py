"""Appends messages to a journal until it is killed, and prints the number of each that was stored."""

import asyncio
import sys

from jsonl_store import JsonlStore

from headrace.store import Batch, Message, Stream


async def main(path: str, producer: str) -> None:
    store = JsonlStore(path)
    await store.open()
    number = 0
    while True:
        number += 1
        message = Message(f"{producer}-{number}", "greet", b"hello")
        await store.append(Batch(Stream("queue", "work"), producer, number, [message]))
        print(number, flush=True)


asyncio.run(main(*sys.argv[1:]))
