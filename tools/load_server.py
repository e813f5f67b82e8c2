#!/usr/bin/env python3
"""load_server.py BINARY [--seconds 60] [--model PATH] - rude and many clients at once, and what is kept of them.

Starts `serve`, and for so many seconds runs beside each other: 1 000 idle connections, 200 streams, 20 readers that
do not read, 60 writers of a byte now and then, bodies of 10 MB, JSON 100 000 deep, smuggled requests, clients that
close half or all in the middle of a body. Prints what was seen beside each bar; status 1 when one is not met."""
import argparse
import asyncio
import json
import os
import resource
import subprocess
import time

P = argparse.ArgumentParser()
P.add_argument('binary')
P.add_argument('--seconds', type=float, default=60)
P.add_argument('--model', default='builtin')
A = P.parse_args()
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
SERVER = subprocess.Popen([A.binary, 'serve', '--port', '0', '--log-level', 'error', '--model', A.model],
                          stdout=subprocess.PIPE, text=True)
PORT = int(SERVER.stdout.readline().rsplit(':', 1)[1])
SEEN = {'health': [], 'first': [], 'peak': 0, 'wrong': [], 'streams': 0, 'count': 0}
OVER = asyncio.Event()


def rss():
    with open(f'/proc/{SERVER.pid}/statm') as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def descriptors():
    return len(os.listdir(f'/proc/{SERVER.pid}/fd'))


def post(body, path='/v1/completions', length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(body)}\r\n\r\n').encode() + body


async def dial():
    return await asyncio.open_connection('127.0.0.1', PORT)


async def say(data, seconds=20):
    """The status of one request on a connection of its own; 0: closed without one."""
    reader, writer = await dial()
    try:
        writer.write(data)
        line = await asyncio.wait_for(reader.readline(), seconds)
        return int(line.split()[1]) if line else 0
    except ConnectionError:
        return 0
    finally:
        SEEN['count'] += 1
        writer.close()


async def expect(what, data, *statuses):
    got = await say(data)
    if got not in statuses:
        SEEN['wrong'].append(f'{what}: {got}')


async def stream():
    began = time.time()
    reader, writer = await dial()
    writer.write(post({'prompt': 'Once upon a time', 'max_tokens': 200, 'stream': True, 'ignore_eos': True}))
    head = await reader.readline()
    if b' 200 ' not in head:
        SEEN['wrong'].append(f'stream: {head}')
        return writer.close()
    first, end = 0, False
    while not end:
        line = await reader.readline()
        if line.startswith(b'data: {') and not first:
            first = time.time()
            SEEN['first'].append(first - began)
        end = not line or line == b'data: [DONE]\n'
    if not line:
        SEEN['wrong'].append('a stream was cut')
    SEEN['streams'] += 1
    writer.close()


async def slow_reader():
    reader, writer = await dial()
    writer.write(post({'prompt': 'a', 'max_tokens': 1900, 'stream': True, 'ignore_eos': True, 'logprobs': 5}))
    writer.transport.pause_reading()
    await OVER.wait()
    writer.close()


async def slow_writer():
    data = post({'prompt': 'a' * 1000})
    while not OVER.is_set():
        reader, writer = await dial()
        try:
            for i in range(len(data)):
                writer.write(data[i:i + 1])
                await asyncio.sleep(0.3)
                if OVER.is_set() or reader.at_eof():
                    break
        except ConnectionError:
            pass
        writer.close()


async def idle():
    reader, writer = await dial()
    writer.write(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await OVER.wait()
    writer.close()


async def half_closed(whole):
    reader, writer = await dial()
    writer.write(post(b'{"prompt":', length=1000))
    writer.write_eof()
    await asyncio.sleep(0.05)
    if whole:
        writer.transport.abort()
    writer.close()


async def leaver():
    reader, writer = await dial()
    writer.write(post({'prompt': 'a', 'max_tokens': 1900, 'stream': True, 'ignore_eos': True}))
    await asyncio.sleep(0.1)
    writer.transport.abort()


SMUGGLED = [b'Content-Length: 3\r\nTransfer-Encoding: chunked', b'Content-Length: 2\r\nContent-Length: 3',
            b'Content-Length : 2', b'Transfer-Encoding: xchunked', b'Transfer-Encoding : chunked',
            b'Content-Length: +2', b'X: a\0b\r\nContent-Length: 2',
            b'X: a\r\n folded\r\nContent-Length: 2', b'Content-Length: 2\nX: y']


async def rude():
    n = 0
    while not OVER.is_set():
        await expect('10 MB', post(b'{"prompt":"' + b'a' * (10 << 20) + b'"}'), 413, 0)
        await expect('deep', post(b'{"prompt":' + b'[' * 100000), 400)
        head = SMUGGLED[n % len(SMUGGLED)]
        await expect(head, b'POST /tokenize HTTP/1.1\r\nHost: localhost\r\n' + head + b'\r\n\r\n{}', 400, 0)
        await expect('a wrong field', post({'prompt': 'a', 'nothing': 1}), 400)
        await half_closed(n % 2)
        await leaver()
        n += 1
        await asyncio.sleep(0.05)


async def watch():
    while not OVER.is_set():
        began = time.time()
        await expect('health', b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n', 200)
        SEEN['health'].append(time.time() - began)
        SEEN['peak'] = max(SEEN['peak'], rss())
        await asyncio.sleep(0.2)


async def streams():
    while not OVER.is_set():
        await asyncio.gather(*[stream() for _ in range(200)])


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))] if values else 0


async def main():
    for _ in range(200):
        if await say(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n') == 200:
            break
        await asyncio.sleep(0.05)
    for _ in range(300):  # what every server has used after a while
        await expect('warming up', post({'prompt': 'a', 'max_tokens': 3}), 200)
    await asyncio.sleep(4)
    results = []

    def bar(what, seen, most, unit='', scale=1.0):
        results.append(seen <= most)
        print(f'{"ok  " if seen <= most else "OVER"} {what}: {seen / scale:.2f}{unit}, bar {most / scale:.2f}{unit}')

    before, fds = rss(), descriptors()
    for _ in range(2000):
        await expect('one of 2000', post({'prompt': 'a', 'max_tokens': 3}), 200)
    await asyncio.sleep(6)
    bar('RSS after 2000 requests', rss() - before, 2 << 20, ' MiB', 1 << 20)
    before = rss()
    crowd = [asyncio.create_task(f()) for f in
             [idle] * 1000 + [slow_reader] * 20 + [slow_writer] * 60 + [rude, watch, streams]]
    await asyncio.sleep(A.seconds)
    OVER.set()
    await asyncio.wait(crowd, timeout=60)
    for task in crowd:
        if task.done() and task.exception():
            SEEN['wrong'].append(repr(task.exception()))
    await asyncio.sleep(6)
    bar('RSS 6 s after', rss(), before * 1.1 + (8 << 20), ' MiB', 1 << 20)
    bar('peak', SEEN['peak'], before + (160 << 20), ' MiB', 1 << 20)
    bar('descriptors', descriptors(), fds)
    bar('health, slowest', max(SEEN['health']), 1, ' s')
    bar('first token, p99', percentile(SEEN['first'], 0.99), 10, ' s')
    bar('wrong statuses', len(SEEN['wrong']), 0)
    print(SEEN['streams'], 'streams,', SEEN['count'], 'other requests', *sorted(set(map(str, SEEN['wrong'])))[:9])
    SERVER.terminate()
    results.append(SERVER.wait(10) == 0)
    return 0 if all(results) else 1


raise SystemExit(asyncio.run(main()))
