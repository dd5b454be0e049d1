#!/usr/bin/env python3
"""What serving costs, over real sockets: one line of JSON per figure.

A GET of 4 KB: CPU of the server per request, and latency of an idle server. A stream of
2 KB ten times a second to 256 clients: age of the messages when they arrive, and CPU.
Each against CivetWeb alone in the same run, in turns."""
import json
import os
import pathlib
import selectors
import socket
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", "build"))
SERVER = str(BUILD / "bin" / "bench_server")
CLIENTS = 256
STREAM_S = 3
ROUNDS = 5
REQUEST = b"GET /4k HTTP/1.1\r\nHost: localhost\r\n\r\n"
TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """User and system time of all threads, to the nanosecond where the kernel tells."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICK
    return total / 1e9


class Server:
    def __init__(self, manner, threads):
        self.process = subprocess.Popen([SERVER, manner, str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.pid = self.process.pid

    def connect(self):
        peer = socket.create_connection(("127.0.0.1", self.port))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def say(name, values, unit, mark, **more):
    """The median of rounds with the range of all but the extremes; 1 when missed."""
    values = sorted(values)
    low, high = values[1], values[-2]
    verdict = "hit" if high <= mark else "missed" if low > mark else "undecided"
    print(json.dumps({"name": name, "value": round(values[len(values) // 2], 3), "unit": unit,
                      "low": round(low, 3), "high": round(high, 3), "mark": mark,
                      "verdict": verdict, **more}), flush=True)
    return verdict == "missed"


def ask(peer, size):
    peer.sendall(REQUEST)
    got = 0
    while got < size:
        got += len(peer.recv(65536))
    return got


def get_round(server):
    """(CPU of the server per GET in us, p99 of the answers of an idle server in ms)."""
    with server.connect() as peer:
        peer.sendall(REQUEST)
        size = len(peer.recv(65536))
        before = cpu_s(server.pid)
        for _ in range(2000):
            ask(peer, size)
        cpu_us = (cpu_s(server.pid) - before) / 2000 * 1e6
        ages = []
        for _ in range(200):
            time.sleep(0.002)
            began = time.perf_counter()
            ask(peer, size)
            ages.append((time.perf_counter() - began) * 1e3)
    return cpu_us, quantile(ages, 0.99)


def bench_get():
    """Ours and CivetWeb alone in turns: what the machine's sockets cost both pay."""
    ours, alone = [], []
    with Server("bare", 16) as bare, Server("hub", 16) as hub:
        for _ in range(ROUNDS + 1): # the first fills the caches
            alone.append(get_round(bare))
            ours.append(get_round(hub))
    (cpu_us, p99_ms), (bare_us, bare_ms) = zip(*ours[1:]), zip(*alone[1:])
    return (say("GET 4 KB, CPU", cpu_us, "us", 25,
                civetweb_alone=round(quantile(bare_us, 0.5), 3))
            + say("GET 4 KB, p99 of an idle server", p99_ms, "ms", 0.2,
                  civetweb_alone=round(quantile(bare_ms, 0.5), 3)))


def stream_round(manner):
    """(CPU share of a core, ages in ms) of STREAM_S seconds of 256 clients."""
    ages, waiting = [], selectors.DefaultSelector()
    with Server(manner, CLIENTS + 16) as server:
        peers = [server.connect() for _ in range(CLIENTS)]
        for peer in peers:
            peer.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            peer.setblocking(False)
            waiting.register(peer, selectors.EVENT_READ)
        settled, before = time.monotonic() + 1, None
        while time.monotonic() < settled + STREAM_S:
            if before is None and time.monotonic() > settled:
                before = cpu_s(server.pid)
                ages.clear()
            for key, _ in waiting.select(0.1):
                data = key.fileobj.recv(65536)
                now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                at = data.find(b"data: ")
                if at >= 0 and data[at + 6:at + 26].isdigit():
                    ages.append((now - int(data[at + 6:at + 26])) / 1e6)
        share = (cpu_s(server.pid) - before) / STREAM_S
        for peer in peers:
            peer.close()
    return share, ages


def bench_stream():
    ratios, p99_ms, bare_ms = [], [], []
    for _ in range(ROUNDS):
        bare, ages = stream_round("bare")
        bare_ms.append(quantile(ages, 0.99))
        ours, ages = stream_round("hub")
        ratios.append(ours / bare)
        p99_ms.append(quantile(ages, 0.99))
    # What a busy machine does to the one it does to the other.
    return (say(f"SSE 2 KB at 10 Hz, {CLIENTS} clients, p99 age", p99_ms, "ms", 25,
                civetweb_alone=round(quantile(bare_ms, 0.5), 3))
            + say("SSE, CPU against CivetWeb alone", ratios, "ratio", 1.3))


if __name__ == "__main__":
    sys.exit(1 if bench_get() + bench_stream() else 0)
