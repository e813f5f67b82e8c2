"""page_stand_in.py - a server of fixed replies under the real page: for what the built-in model does not write."""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARKDOWN = '''# A heading

A paragraph with **bold**, *leaning*, ***both***, ~~gone~~, `code_here` and snake_case_names.
Its second line, and a formula $a^2 + b^2 = c^2$, at $5 and $10.

## Lists

1. First, with [a link](https://example.org/a_(b)) and [a bad one](javascript:alert(1))
2. Second
   - inner *one*
   - inner two

     with a paragraph
3. Third

- [x] done
- [ ] to do

```python
def longest(text):
    """The longest word, of equals the first."""
    return max(text.split(), key=len)  # <b>no markup</b>, and a line that is rather too long for a phone
```

| Drink | Caffeine | Cups |
|:------|:--------:|-----:|
| Tea   | **some** | 3    |
| Coffee with a long name | a `lot|more` | 12 |

> A quote
> of two lines

$$
\\int_0^1 x\\,dx = \\frac12
$$

---

<img src=x onerror=alert(1)> <script>alert(2)</script> ![picture](https://example.org/p.png)
See https://example.org/page. Done.
'''


class StandIn:
    """`reply`: the next answers' text; `pieces` of it a chunk; `delay` seconds between chunks; `status`: refuses with
    it; `reading`: steps told of the prompt; `cut`: chunks after which the connection breaks. `asked`: bodies so far."""

    def __init__(self, page, policy, **props):
        self.reply, self.pieces, self.delay, self.status, self.reading, self.cut = MARKDOWN, 4, 0, 0, 0, 0
        self.prompt, self.asked, self.thought = 100, [], ''
        self.props = {'model': 'stand-in', 'model_path': '/m', 'n_ctx': 8192, 'chat_template': 'x',
                      'default_generation_settings': {'temperature': 1, 'top_k': 0, 'strategy': None, 'seed': -1},
                      'chat_generation_settings': {'temperature': 0.8, 'top_k': 40, 'strategy': None, 'seed': -1},
                      'generation_fields': {'temperature': {'doc': 'divides the logits'},
                                            'top_k': {'doc': 'only the K likeliest tokens'},
                                            'strategy': {'doc': 'other defaults: a, b', 'words': ['std', 'greedy']}},
                      **props}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *_):
                pass

            def answer(self, status, body, kind='application/json', **headers):
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {'Content-Type': kind, 'Content-Length': len(data), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.path == '/':
                    self.answer(200, page, 'text/html; charset=utf-8', **{'Content-Security-Policy': policy})
                elif self.path == '/props':
                    self.answer(200, outer.props)
                else:
                    self.answer(404, {})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                outer.asked.append((self.path, body))
                if outer.status:
                    self.answer(outer.status, {'error': {'message': 'it is refused here'}})
                elif self.path == '/apply-template':
                    self.answer(200, {'prompt': '', 'tokens': [7, 8, 9]})
                else:
                    try:
                        self.stream(body)
                    except OSError:  # the page went on without it
                        self.close_connection = True

            def stream(self, body):
                chat = 'messages' in body
                self.send_response(200)
                self.send_header('Content-Type', 'text/event-stream')
                self.send_header('Connection', 'close')
                self.end_headers()
                self.close_connection = True

                def put(value):
                    self.wfile.write(f'data: {value if isinstance(value, str) else json.dumps(value)}\n\n'.encode())
                    time.sleep(outer.delay)
                for i in range(outer.reading):
                    put({'choices': [], 'prompt_progress': {'total': 8190, 'cache': 0, 'processed': 2048 * (i + 1)}})
                text = outer.reply
                parts = [text[i:i + outer.pieces] for i in range(0, len(text), outer.pieces)]
                if outer.thought and chat:
                    delta = {'reasoning_content': outer.thought}
                    put({'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})
                offset = 0
                for i, part in enumerate(parts):
                    if outer.cut and i == outer.cut:
                        return
                    odds = -0.1 - (i * 7 % 50) / 10
                    one = {'index': 0, 'finish_reason': None, 'token_ids': [1000 + i]}
                    if chat:
                        one['delta'] = {'content': part}
                        one['logprobs'] = {'content': [{'token': part, 'logprob': odds, 'bytes': list(part.encode())}]}
                    else:
                        one['text'] = part
                        one['logprobs'] = {'tokens': [part], 'token_logprobs': [odds], 'text_offset': [offset]}
                    if not i:
                        one['prompt_token_ids'] = body.get('prompt') if isinstance(body.get('prompt'), list) else list(
                            range(outer.prompt + 10 * len(body.get('messages', []))))
                    offset += len(part)
                    put({'choices': [one]})
                put({'choices': [{'index': 0, 'delta': {}, 'text': '', 'finish_reason': 'stop', 'token_ids': []}]})
                put({'choices': [], 'usage': {'prompt_tokens': outer.prompt + 12, 'completion_tokens': len(parts),
                                              'prompt_tokens_details': {'cached_tokens': 64}}})
                put('[DONE]')

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
