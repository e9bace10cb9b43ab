#!/usr/bin/env python3
"""Holds many streams open at once and says what they cost. Standard library only.

    tests/clients/streams.py [--streams 500] [--tokens 64] [--waves 3] [--url URL]

Starts a server of its own unless a URL is given. Every wave opens all streams, reads each to its
end and checks that it was whole. The server's memory is read after each wave: from the second on it
must not grow, or the exit code is 1.
"""

import argparse
import asyncio
import json
import sys
import time
import urllib.parse

from clients import MODEL_NAME, Server

GROWTH_LIMIT = 16 << 20  # bytes: what an allocator may keep for itself


async def read_stream(host, port, tokens):
    """One stream; the seconds to its first token and to its end."""
    body = {"model": MODEL_NAME, "prompt": "Once upon a time", "max_tokens": tokens}
    body = json.dumps({**body, "stream": True, "ignore_eos": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    head += "Content-Type: application/json\r\n"
    start = time.monotonic()
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    try:
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first = None
        text = b""
        while piece := await reader.read(1 << 16):
            text += piece
            if first is None and b"data: " in text:
                first = time.monotonic() - start
        if b" 200 " not in text[:20] or b"data: [DONE]" not in text:
            raise RuntimeError(f"a stream broke off: {text[-300:]!r}")
        return first, time.monotonic() - start
    finally:
        writer.close()


async def wave(host, port, streams, tokens):
    return await asyncio.gather(*(read_stream(host, port, tokens) for _ in range(streams)))


def hold_streams(host, port, shape, server):
    """Runs the waves; returns the server's memory after each, if it is our own."""
    streams, tokens, waves = shape
    memory = []
    for number in range(waves):
        start = time.monotonic()
        times = asyncio.run(wave(host, port, streams, tokens))
        seconds = time.monotonic() - start
        firsts = sorted(first for first, _ in times)
        line = f"wave {number}: {streams} streams, {streams * tokens / seconds:.0f} tokens/s, "
        line += f"first token {firsts[len(firsts) // 2]:.2f} s median, {firsts[-1]:.2f} s last"
        if server:
            memory.append(server.rss())
            line += f", {memory[-1] >> 20} MiB resident"
        print(line, flush=True)
    return memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--url")
    options = parser.parse_args()
    shape = (options.streams, options.tokens, options.waves)
    if options.url:
        address = urllib.parse.urlsplit(options.url)
        hold_streams(address.hostname, address.port, shape, None)
        return 0
    server = Server("--max-num-seqs", 16, "--log-level", "warning")
    try:
        memory = hold_streams("127.0.0.1", server.port, shape, server)
    finally:
        server.kill()
    return 1 if len(memory) > 2 and memory[-1] > memory[1] + GROWTH_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
