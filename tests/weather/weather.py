#!/usr/bin/env python3
"""weather.py - what may happen to a server while it generates: python3 tests/weather/weather.py build/inferflow [ROW]

Each row happens once to a server that is in the middle of a stream: plain, cut by layers and by columns, over three
nodes of this machine. The stream is the text of fair weather, or its beginning and an error that names the cause.
Afterwards, when the cause has gone, all is as before: the same texts, memory, descriptors. What this machine does not
allow is said in capitals, and is not a failure. WEATHER_OTHER names an executable of another version for the row of a
node that comes back as one, instead of foreign_node.c, which speaks only protocols of its own."""
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from kit import FOLDER, Program, Server, clean, copy_model, own, path, wait_for
from stopped import computing, stopped

BINARY = os.path.abspath(sys.argv[1])
ONLY = sys.argv[2] if len(sys.argv) > 2 else ''
LONG, TOKENS = 'It was a dark night, and the captain looked at the sea. ' * 6, 400
SHORT = 'The captain looked at the sea'
failed, skipped, tried = [], [], []


class Skip(Exception):
    pass


class Place:
    """A server, what it is cut over, and what it says in fair weather."""

    def __init__(self, name, model, devices=None, nodes=0):
        self.name, self.nodes, self.key = name, [], path(f'{name}.key')
        self.model, self.weights = copy_model(model, f'{name}.model')
        flags = ['-m', self.model, '-c', '1024', '--max-batch', '8', '--http-threads', '2']
        if nodes:
            subprocess.run([BINARY, 'node', '--new-key', self.key], check=True, stdout=subprocess.DEVNULL)
            own(self.key)
            self.copies = [copy_model(model, f'{name}.node{i}') for i in range(nodes)]
            self.nodes = [self.node(i) for i in range(nodes)]
            devices = ';'.join(f'{n.address}/cpu' for n in self.nodes)
            flags += ['--key-file', self.key, '--peer-timeout', '2']
        self.pages = path(f'{name}.pages')
        if not nodes:
            os.mkdir(self.pages)
            own(self.pages)
            flags += ['--cache-dir', self.pages]
        if devices:
            flags += ['--devices', devices]
        self.clock = clock_library()
        self.server = Server(BINARY, *flags, env={'LD_PRELOAD': self.clock, 'WEATHER_CLOCK': path('clock')}
                             if self.clock else None)
        self.fair = {LONG: self.text(LONG, TOKENS), SHORT: self.text(SHORT)}
        self.text(LONG, TOKENS)

    def node(self, i, binary=BINARY, at='127.0.0.1:0'):
        return Program(binary, 'node', '--listen', at, '--key-file', self.key, '--model', self.copies[i][0])

    def text(self, prompt, tokens=24):
        got, why = self.server.ask(prompt, tokens)
        if got is None:
            raise SystemExit(f'{self.name}: no text in fair weather: {why}')
        return got

    def as_before(self):
        """What is not as before, in words."""
        def texts():
            return all(self.server.ask(p, TOKENS if p == LONG else 24)[0] == t for p, t in self.fair.items())

        if not self.server.is_there():
            return 'the server has ended: ' + ''.join(self.server.log[-3:])
        if not wait_for('health is ok', 60, lambda: self.server.health() == 'ok'):
            return f'health says {self.server.health()}'
        if not wait_for('the texts are those of before', 30, texts):
            return f'another text: {self.server.ask(SHORT)}'
        if not wait_for('descriptors are as before', 20, lambda: self.server.descriptors() <= self.descriptors):
            return f'{self.server.descriptors()} descriptors, {self.descriptors} before'
        if not wait_for('memory is as before', 20, lambda: self.server.rss() <= self.rss * 1.1 + (8 << 20)):
            return f'{self.server.rss() >> 20} MiB, {self.rss >> 20} before'
        return None

    def run(self, row, happens):
        """happens(place): a context in which it is so. It gives what an error may be called, and whether one may be."""
        if ONLY and ONLY not in f'{self.name} {row}':
            return
        tried.append(row)
        self.descriptors, self.rss = self.server.descriptors(), self.server.rss()
        wrong, began = [], time.monotonic()
        stream = self.server.stream(LONG, TOKENS)
        try:
            stream.begun()
            with happens(self) as (may_be, seconds):
                wait_for('the stream is over', seconds, lambda: stream.over)
                other, why = self.server.ask(SHORT)
                if other not in (None, self.fair[SHORT]):
                    wrong.append(f'200 with another text: {other!r}')
                if other is None and not re.search(may_be or '$^', why):
                    wrong.append(f'an error that does not say why: {why}')
            text, why = stream.end()
            if not self.fair[LONG].startswith(text):
                wrong.append(f'another stream: {text!r} instead of {self.fair[LONG]!r}')
            if text != self.fair[LONG] and not why:
                wrong.append('the stream ended early, without an error')
            if why and not re.search(may_be or '$^', why):
                wrong.append(f'a stream that does not say why: {why}')
            wrong += filter(None, [self.as_before()])
        except Skip as e:
            stream.end()
            skipped.append(f'{self.name}: {row}: {e}')
            print(f'SKIPPED  {self.name}: {row}: {e}', flush=True)
            return
        failed.extend(f'{self.name}: {row}: {w}' for w in wrong)
        print(f'{"WRONG" if wrong else "right":8} {self.name}: {row} ({time.monotonic() - began:.1f} s)'
              f'{"".join(chr(10) + "         " + w for w in wrong)}', flush=True)


# ---- the files of weights

def rewrite(place, of):
    """The weights' own bytes, in the file that is there."""
    shutil.copyfile(os.path.join(place.good, 'model.safetensors'), of)


@contextlib.contextmanager
def shrinks_and_grows(place, of=None):
    of = of or place.weights
    os.truncate(of, os.path.getsize(of) // 3)
    yield re.escape(os.path.basename(of)), 30
    rewrite(place, of)


@contextlib.contextmanager
def is_replaced(place):
    shutil.copyfile(place.weights, place.weights + '.new')
    os.rename(place.weights + '.new', place.weights)
    yield None, 60


@contextlib.contextmanager
def is_deleted(place):
    os.rename(place.weights, place.weights + '.kept')
    shutil.copyfile(place.weights + '.kept', place.weights + '.next')
    os.unlink(place.weights + '.kept')
    yield None, 60
    os.rename(place.weights + '.next', place.weights)


# ---- the folder of pages

def write_pages(place):
    """A text that nobody has asked for, whose pages are to be kept."""
    told = len(place.server.log)
    place.server.ask(f'Number {time.monotonic()}: ' + LONG)
    if not wait_for('the log tells', 10, lambda: 'not kept' in ''.join(place.server.log[told:])):
        failed.append(f'{place.name}: pages that could not be kept are not in the log')


def keep_again(place):
    """As the log tells each refusal once, a page has to be kept before the next one."""
    files = len(os.listdir(place.pages))
    place.server.ask(f'Again {time.monotonic()}: ' + LONG)
    wait_for('pages are kept again', 10, lambda: len(os.listdir(place.pages)) > files)


@contextlib.contextmanager
def folder_is_full(place):
    """No file may become longer than a few bytes."""
    old = place.server.limit(resource.RLIMIT_FSIZE, 16)
    write_pages(place)
    yield None, 60
    place.server.limit(resource.RLIMIT_FSIZE, old)
    keep_again(place)


@contextlib.contextmanager
def folder_loses_rights(place):
    os.chmod(place.pages, 0)
    write_pages(place)
    yield None, 60
    os.chmod(place.pages, 0o700)
    keep_again(place)


# ---- what the system gives

@contextlib.contextmanager
def no_descriptors(place):
    idle = [socket.create_connection(place.server.address.split(':')) for _ in range(20)]
    old = place.server.limit(resource.RLIMIT_NOFILE, place.server.descriptors())
    yield 'no reply|503|descriptor|Too many', 60
    place.server.limit(resource.RLIMIT_NOFILE, old)
    for s in idle:
        s.close()


@contextlib.contextmanager
def no_threads(place):
    old = place.server.limit(resource.RLIMIT_NPROC, 1)
    yield 'thread', 60
    place.server.limit(resource.RLIMIT_NPROC, old)


@contextlib.contextmanager
def no_memory(place):
    mount = '/sys/fs/cgroup/memory'
    limit, usage = 'memory.limit_in_bytes', 'memory.usage_in_bytes'
    if not os.path.exists(f'{mount}/{limit}'):
        mount, limit, usage = '/sys/fs/cgroup', 'memory.max', 'memory.current'
    group = f'{mount}/weather-{os.getpid()}'
    procs = f'/proc/{place.server.pid}/cgroup'
    try:
        with open(procs) as f:
            home = next(line.strip().split(':')[2] for line in f if (':memory:' in line or line.startswith('0::')))
        os.mkdir(group)
        with open(f'{group}/cgroup.procs', 'w') as f:
            f.write(str(place.server.pid))
        with open(f'{group}/{limit}', 'w') as f:
            f.write(str(int(open(f'{group}/{usage}').read()) + (24 << 20)))
    except OSError as e:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        raise Skip(f'NO CONTROL GROUP OF MEMORY CAN BE MADE: {e}') from e
    yield 'memory', 60
    for back in (f'{mount}{home}/cgroup.procs', f'{mount}/cgroup.procs'):
        with contextlib.suppress(OSError), open(back, 'w') as f:
            f.write(str(place.server.pid))
            break
    wait_for('the control group is empty', 5, lambda: not open(f'{group}/cgroup.procs').read())
    with contextlib.suppress(OSError):
        os.rmdir(group)


CLOCK = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long ahead(void)
{
    long n = 0;
    FILE *f = fopen(getenv("WEATHER_CLOCK"), "re");
    if (f) { if (fscanf(f, "%ld", &n) != 1) n = 0; fclose(f); }
    return n;
}
int clock_gettime(clockid_t which, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(which, t);
    if (which == CLOCK_REALTIME) t->tv_sec += ahead();
    return rc;
}
time_t time(time_t *to)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return to ? *to = t.tv_sec : t.tv_sec;
}
'''


def clock_library():
    """Of a clock that can be set; None: no compiler."""
    to, cc = path('clock.so'), shutil.which('cc') or shutil.which('gcc')
    if os.path.exists(to):
        return to
    if not cc:
        return None
    with open(path('clock.c'), 'w') as f:
        f.write(CLOCK)
    done = subprocess.run([cc, '-shared', '-fPIC', '-O1', '-o', to, path('clock.c'), '-ldl'], capture_output=True)
    return to if done.returncode == 0 else None


@contextlib.contextmanager
def clock_jumps(place):
    if not place.clock:
        raise Skip('NO COMPILER FOR A CLOCK THAT JUMPS')
    for seconds in (86400, -86400, 0):
        with open(path('clock.new'), 'w') as f:
            f.write(str(seconds))
        os.chmod(path('clock.new'), 0o644)
        os.rename(path('clock.new'), path('clock'))
        time.sleep(0.1)
    yield None, 60


# ---- nodes

@contextlib.contextmanager
def node_stops(place):
    n = place.nodes[1]
    os.kill(n.pid, signal.SIGSTOP)
    time.sleep(6)
    os.kill(n.pid, signal.SIGCONT)
    yield re.escape(n.address), 60


@contextlib.contextmanager
def computing_stops(place):
    """Its connections answer, its steps do not end. The stream may be over by then: another text is asked for."""
    n = place.nodes[1]
    which = computing(n.pid, n.threads())
    if not which:
        raise Skip('NO THREAD OF THE NODE COMPUTES')
    answers = []
    asks = threading.Thread(target=lambda: answers.append(place.server.ask(LONG, TOKENS)))
    try:
        with stopped(which):
            asks.start()
            noticed = wait_for('health notices', 20, lambda: place.server.health() != 'ok')
    except OSError as e:
        raise Skip(f'THREADS CANNOT BE STOPPED: {e}') from e
    asks.join(60)
    if answers and answers[0][0] not in (None, place.fair[LONG]):
        failed.append(f'{place.name}: 200 with another text: {answers[0][0]!r}')
    if not noticed:
        failed.append(f'{place.name}: computing threads of a node stopped for 20 s: health says ok')
    yield re.escape(n.address), 60


@contextlib.contextmanager
def node_dies(place):
    n = place.nodes[2]
    n.end()
    time.sleep(1)
    place.nodes[2] = place.node(2, at=n.address)
    yield re.escape(n.address), 60


@contextlib.contextmanager
def another_version(place):
    """One line says so; texts end with the node's name, and are right as soon as it is itself again."""
    other = os.environ.get('WEATHER_OTHER', os.path.join(os.path.dirname(BINARY), 'tests/weather/foreign_node'))
    if not os.access(other, os.X_OK):
        raise Skip(f'THERE IS NO {other}')
    n, before = place.nodes[0], len(place.server.log)
    n.end()
    foreign = place.node(0, binary=os.path.abspath(other), at=n.address)
    yield f'{re.escape(n.address)}, which has a part of the model, is lost or refuses', 10
    foreign.end()
    place.nodes[0] = place.node(0, at=n.address)
    log = place.server.log[before:]
    if len([line for line in log if re.search(r'speaks protocol .*, this is .*: texts end', line)]) != 1:
        failed.append(f'{place.name}: not one line says that it is another version: {log}')


@contextlib.contextmanager
def leader_stops(place):
    os.kill(place.server.pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(place.server.pid, signal.SIGCONT)
    yield '127.0.0.1', 60


def main():
    good = path('good')
    subprocess.run([BINARY, 'export', '-m', 'builtin', '-o', good], check=True, capture_output=True)
    places = [('plain', None, 0), ('layers', 'cpu:1;cpu:1', 0), ('columns', 'cpu:1&cpu:1', 0), ('nodes', None, 3)]
    for name, devices, nodes in places:
        p = Place(name, good, devices, nodes)
        p.good = good
        if nodes:
            p.run("a node's weights shrink and grow back", lambda p: shrinks_and_grows(p, p.copies[1][1]))
            p.run('a node is stopped for 6 s', node_stops)
            p.run("a node's computing threads are stopped", computing_stops)
            p.run('a node dies and comes back', node_dies)
            p.run('a node comes back as another version', another_version)
            p.run('the leader is stopped for 8 s', leader_stops)
            p.run('the clock jumps', clock_jumps)
        else:
            p.run('the weights shrink and grow back', shrinks_and_grows)
            p.run('the weights are replaced', is_replaced)
            p.run('the weights are deleted', is_deleted)
            p.run('the folder of pages is full', folder_is_full)
            p.run('the folder of pages loses its rights', folder_loses_rights)
            p.run('descriptors run out', no_descriptors)
            p.run('threads run out', no_threads)
            p.run('memory of the control group runs out', no_memory)
            p.run('the clock jumps', clock_jumps)
            p.run('it is stopped for 8 s', leader_stops)
        for program in [p.server, *p.nodes]:
            program.end()
    for what in failed:
        print(what)
    print(f'weather: {len(tried)} rows, {len(failed)} wrong, {len(skipped)} skipped')
    return bool(failed) or not tried


if __name__ == '__main__':
    try:
        STATUS = main()
    finally:
        clean()
        shutil.rmtree(FOLDER, ignore_errors=True)
    sys.exit(STATUS)
