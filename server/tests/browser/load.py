#!/usr/bin/env python3
"""A hundred clients at once against a server of this machine, for half a minute: errors, throughput, and memory.

    python3 server/tests/browser/load.py target/release/trainyard [--clients 100] [--seconds 30]

Each client asks one thing after another on a connection of its own: mostly drafts of plans, of which some are new and some
were asked before, and between them the page, the catalogs, and questions that are refused. The server is started on a free
port of 127.0.0.1 and stopped at the end.
"""

import argparse
import asyncio
import collections
import json
import random
import signal
import subprocess
import sys
import time

MODELS = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "bert-large", "resnet50", "llama-2-7b", "gpt3-13b"]


def question(chance):
    """A request, and the status that it must have."""
    kind = chance.random()
    if kind < 0.1:
        return "GET", "/", None, 200
    if kind < 0.15:
        return "GET", "/api/v1/catalogs", None, 200
    if kind < 0.2:
        return "POST", "/api/v1/plan", {"job": {"model": {"name": "gpt2"}}}, 422
    model = chance.choice(MODELS)
    amount = {"samples": 1000000} if model == "resnet50" else {"tokens": chance.choice([1e9, 1e10, 1e11]) * chance.randint(1, 9)}
    job = {
        "model": {"name": model}, "data": amount, "training": {"global_batch": chance.choice([128, 256, 512])},
        "cluster": {"instances": chance.choice([["p3.*"], ["p4d.*"], ["g4dn.*", "p3.*"]]), "max_instances": chance.choice([1, 4, 8])},
    }
    return "POST", "/api/v1/plan", {"job": job}, 200


async def ask(reader, writer, method, path, body):
    text = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    writer.write(head.encode() + b"\r\n" + text)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in answer.lower().split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(length)
    return int(answer.split()[1])


async def client(number, port, until, results):
    chance = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    while time.monotonic() < until:
        method, path, body, wanted = question(chance)
        begun = time.monotonic()
        try:
            status = await ask(reader, writer, method, path, body)
        except (OSError, asyncio.IncompleteReadError) as error:
            results["errors"][type(error).__name__] += 1
            return
        results["times"].append(time.monotonic() - begun)
        if status != wanted:
            results["errors"][f"{status} instead of {wanted}"] += 1
    writer.close()


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmRSS"].split()[0]) / 1024


async def watch(process, until, sizes):
    while time.monotonic() < until:
        sizes.append(resident(process))
        await asyncio.sleep(1)


async def load(process, port, clients, seconds):
    until = time.monotonic() + seconds
    results, sizes = {"times": [], "errors": collections.Counter()}, []
    await asyncio.gather(watch(process, until, sizes), *(client(number, port, until, results) for number in range(clients)))
    sizes.append(resident(process))
    return results, sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--memory-max", type=float, default=1024, help="MiB")
    arguments = parser.parse_args()
    command = [arguments.program, "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = int(process.stdout.readline().rsplit(":", 1)[1].strip(" /\n"))
    results, sizes = asyncio.run(load(process, port, arguments.clients, arguments.seconds))
    process.send_signal(signal.SIGINT)
    ended = process.wait(timeout=30)
    times = sorted(results["times"])
    share = lambda part: times[min(len(times) - 1, int(part * len(times)))]
    print(f"{len(times)} answers to {arguments.clients} clients in {arguments.seconds:.0f} s, {len(times) / arguments.seconds:.0f} a second")
    print(f"errors: {dict(results['errors']) or 'none'}; exit code after Ctrl-C: {ended}")
    print(f"an answer took {share(0.5) * 1e3:.0f} ms (median), {share(0.95) * 1e3:.0f} ms (p95), {times[-1] * 1e3:.0f} ms (slowest)")
    print(f"resident memory: {sizes[0]:.0f} MiB at first, {max(sizes):.0f} MiB at most, {sizes[-1]:.0f} MiB at the end")
    if results["errors"] or max(sizes) > arguments.memory_max or not times:
        sys.exit(1)


if __name__ == "__main__":
    main()
