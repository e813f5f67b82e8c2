"""kit.py - servers and nodes of the weather rows, what they answer, hold and log. Python's own library alone."""
import http.client
import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
import time

FOLDER = tempfile.mkdtemp(prefix='inferflow-weather-')
os.chmod(FOLDER, 0o755)
NOBODY = 65534  # root may do what others may not: servers run as somebody else
started = []


def path(name):
    return os.path.join(FOLDER, name)


def wait_for(what, seconds, ask):
    """Asks until the answer is true; the last answer."""
    end = time.monotonic() + seconds
    while not (got := ask()) and time.monotonic() < end:
        time.sleep(0.05)
    return got or (print(f'    {what}: not within {seconds} s') and None)


def own(*names):
    """Gives files to whoever runs servers."""
    for name in names:
        for top, folders, files in os.walk(name):
            for f in [top] + [os.path.join(top, f) for f in folders + files]:
                if os.geteuid() == 0:
                    os.chown(f, NOBODY, NOBODY)
        if os.path.isfile(name) and os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)


def become_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


class Program:
    """A server or a node. What it logs is kept; `address` is where it listens."""

    def __init__(self, binary, command, *flags, env=None):
        self.log = []
        self.process = subprocess.Popen(
            [binary, command, *map(str, flags)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors='replace', preexec_fn=become_nobody, cwd='/',
            env={**os.environ, 'HOME': FOLDER, **(env or {})})
        self.pid = self.process.pid
        started.append(self.process)
        threading.Thread(target=self.read, daemon=True).start()
        self.address = wait_for(f'{command} listens', 60, self.listening)
        if not self.address:
            raise SystemExit(f'{command} {flags}: no address: {self.text()}')

    def read(self):
        for line in self.process.stdout:
            self.log.append(line)

    def listening(self):
        for line in self.log:
            for word in line.replace('http://', '').replace(',', ' ').split():
                host, _, port = word.rpartition(':')
                if host == '127.0.0.1' and port.isdigit():
                    return word
        return None

    def text(self):
        return ''.join(self.log)

    def is_there(self):
        return self.process.poll() is None

    def rss(self):
        with open(f'/proc/{self.pid}/status') as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith('VmRSS'))

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def threads(self):
        return sorted(int(t) for t in os.listdir(f'/proc/{self.pid}/task'))

    def limit(self, what, soft):
        """Sets a limit of the running process; returns the old one."""
        with open(f'/proc/{self.pid}/limits') as f:
            lines = {line[:26].strip(): line[26:].split()[0] for line in f}
        was = lines[{resource.RLIMIT_FSIZE: 'Max file size', resource.RLIMIT_NOFILE: 'Max open files',
                     resource.RLIMIT_NPROC: 'Max processes'}[what]]
        child = os.fork()
        if not child:  # whose limits these are may set them
            try:
                become_nobody()
                hard = resource.prlimit(self.pid, what)[1]
                resource.prlimit(self.pid, what, (soft, hard))
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise OSError(f'a limit cannot be set to {soft}')
        return resource.RLIM_INFINITY if was == 'unlimited' else int(was)

    def end(self):
        if self.is_there():
            self.process.kill()
        self.process.wait()


class Server(Program):
    def __init__(self, binary, *flags, env=None):
        super().__init__(binary, 'serve', '--port', 0, *flags, env=env)
        if not wait_for('the model is loaded', 120, lambda: self.health() == 'ok'):
            raise SystemExit(f'serve {flags}: {self.text()}')

    def request(self, method, where, body=None, seconds=120):
        c = http.client.HTTPConnection(self.address, timeout=seconds)
        try:
            c.request(method, where, json.dumps(body) if body else None, {'Content-Type': 'application/json'})
            r = c.getresponse()
            return r.status, json.loads(r.read() or b'{}')
        except (OSError, http.client.HTTPException, ValueError) as e:
            return 0, {'error': {'message': f'no reply: {e}'}}
        finally:
            c.close()

    def health(self):
        _, body = self.request('GET', '/health', seconds=5)
        return body.get('status') or body.get('error', {}).get('message', '')

    def ask(self, prompt, tokens=24):
        """The text, or a pair of None and what went wrong."""
        status, body = self.request('POST', '/v1/completions', query(prompt, tokens))
        if status == 200:
            return body['choices'][0]['text'], ''
        return None, f"{status} {body.get('error', {}).get('message', body)}"

    def stream(self, prompt, tokens):
        return Stream(self, prompt, tokens)


def query(prompt, tokens):
    return {'prompt': prompt, 'max_tokens': tokens, 'temperature': 0, 'ignore_eos': True}


class Stream:
    """A text that is generated while something happens; read by a thread of its own."""

    def __init__(self, server, prompt, tokens):
        self.text, self.error, self.over, self.pieces = '', '', False, 0
        self.thread = threading.Thread(target=self.read, args=(server, {**query(prompt, tokens), 'stream': True}))
        self.thread.start()

    def read(self, server, body):
        c = http.client.HTTPConnection(server.address, timeout=180)
        try:
            c.request('POST', '/v1/completions', json.dumps(body), {'Content-Type': 'application/json'})
            r = c.getresponse()
            if r.status != 200:
                self.error = f'{r.status} {r.read().decode(errors="replace")}'
            for line in r if r.status == 200 else ():
                line = line.decode(errors='replace').strip()
                if not line.startswith('data: ') or line == 'data: [DONE]':
                    continue
                event = json.loads(line[6:])
                if 'error' in event:
                    self.error = event['error']['message']
                elif event.get('choices'):
                    self.text += event['choices'][0]['text']
                    self.pieces += 1
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.error = self.error or f'the connection ended: {e}'
        finally:
            c.close()
            self.over = True

    def begun(self, pieces=8):
        return wait_for('the stream has begun', 60, lambda: self.pieces >= pieces or self.over)

    def end(self):
        self.thread.join(200)
        if self.thread.is_alive():
            self.error = self.error or 'the stream hangs'
        return self.text, self.error


def copy_model(of, name):
    """A copy of the model's folder for one program; the path of its weights too."""
    to = path(name)
    shutil.copytree(of, to)
    own(to)
    return to, os.path.join(to, 'model.safetensors')


def clean():
    for p in started:
        if p.poll() is None:
            p.kill()
        p.wait()
    shutil.rmtree(FOLDER, ignore_errors=True)
