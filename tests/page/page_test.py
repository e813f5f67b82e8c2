#!/usr/bin/env python3
"""page_test.py - the web page in Chromium: python3 tests/page/page_test.py build/inferflow

Needs Debian's chromium, chromium-driver and python3-selenium; says so and ends with status 0 where one is absent. Each
function test_* gets a browser and a server with the built-in model. At the end of each the console must be empty."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

MISSING = [what for what, there in (('python3-selenium', webdriver), ('chromium', shutil.which('chromium')),
                                    ('chromium-driver', shutil.which('chromedriver'))) if not there]


class Server:
    def __init__(self, binary, *flags):
        self.process = subprocess.Popen([binary, 'serve', '--port', '0', *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        until(lambda: self.get('/health')[0] == 200)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def close(self):
        self.process.terminate()
        assert self.process.wait(10) == 0


def until(what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        try:
            value = what()
            if value:
                return value
        except Exception as e:  # stale elements, elements to come
            value = e
        time.sleep(0.02)
    raise AssertionError(f'never true: {value!r}')


class Page:
    def __init__(self, url, width=1000, dark=False):
        o = webdriver.ChromeOptions()
        for flag in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'):
            o.add_argument(flag)
        o.binary_location = shutil.which('chromium')
        o.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.d = webdriver.Chrome(service=Service(shutil.which('chromedriver')), options=o)
        self.d.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                               {'width': width, 'height': 700, 'deviceScaleFactor': 1, 'mobile': width < 500})
        self.d.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})
        self.d.get(url)
        self.allowed = []  # console messages that are meant

    def js(self, code, *args):
        return self.d.execute_script(code, *args)

    def all(self, css):
        return self.d.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.d.find_element(By.CSS_SELECTOR, css)

    def button(self, name):
        found = [b for b in self.all('button') if b.is_displayed() and name in (b.text, b.get_attribute('aria-label'))]
        return found[-1]

    def ready(self):
        until(lambda: self.one('#model').text == 'builtin')
        return self

    def idle(self):
        until(lambda: not self.js('return running') and self.one('#send').is_enabled())
        return self

    def say(self, text, wait=True):
        self.one('#box').send_keys(text, Keys.ENTER)
        return self.idle() if wait else self

    def replies(self):
        return [e.get_attribute('textContent') for e in self.all('article.assistant > .text')]

    def setting(self, label, value):
        if not self.one('#settings').is_displayed():
            self.button('Settings').click()
        for e in self.all('#settings label'):
            if e.text.strip() == label:
                field = e.find_element(By.CSS_SELECTOR, 'input, textarea')
                field.clear()
                field.send_keys(value, Keys.TAB)
                return
        raise AssertionError(f'no setting {label}')

    def close(self):
        log = [e for e in self.d.get_log('browser') if not any(a in e['message'] for a in self.allowed)]
        hosts = self.js('return performance.getEntriesByType("resource").map(e => new URL(e.name).origin)')
        origin = self.js('return location.origin')
        self.d.quit()
        assert not log, log
        assert set(hosts) <= {origin}, hosts


def test_first_sight(p, server):
    assert p.one('html').get_attribute('lang') == 'en'
    assert p.d.title == 'builtin'
    assert p.js('return document.activeElement.id') == 'box'
    p.one('#box').send_keys(Keys.TAB)
    assert p.js('return document.activeElement.id') == 'send'
    p.d.refresh()
    p.ready()
    p.js('document.activeElement.blur()')
    seen = []
    for _ in range(25):
        p.d.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(p.js('return document.activeElement.id'))
    assert 'box' in seen and 'send' in seen, seen
    for e in p.all('button, input, textarea'):
        name = e.get_attribute('aria-label') or e.get_attribute('textContent').strip() or p.js(
            'return arguments[0].closest("label")?.textContent.trim()', e)
        assert name, e.get_attribute('outerHTML')


def test_a_reply(p, server):
    p.setting('Max tokens', '40')
    p.js("settings.fields.min_tokens = '30'")
    p.one('#box').send_keys('Once upon', Keys.SHIFT, Keys.ENTER)
    p.one('#box').send_keys(Keys.NULL)
    assert p.one('#box').get_attribute('value') == 'Once upon\n'
    assert not p.replies()
    p.one('#box').send_keys('a time', Keys.ENTER)
    p.idle()
    assert p.one('article.user > .text').text == 'Once upon\na time'
    assert p.one('#box').get_attribute('value') == '' and p.js('return document.activeElement.id') == 'box'
    assert len(p.replies()) == 1 and len(p.replies()[0]) > 20
    number, unit = p.one('article.assistant .tools').text.split('\n')[-1].split()[-2:]
    assert unit == 'tokens/s' and float(number) > 0
    assert p.one('#speed').text == f'{number} tokens/s'
    tokens = p.all('.token')
    assert 30 <= len(tokens) <= 40, len(tokens)
    assert ''.join(t.get_attribute('textContent') for t in tokens) == p.replies()[0]
    colours = {t.value_of_css_property('background-color') for t in tokens}
    assert len(colours) > 2, colours
    assert all(t.get_attribute('tabindex') is None for t in tokens)
    before = p.replies()
    assert ('Cut at its length.' in p.one('article.assistant .tools').text) == (len(tokens) == 40)
    p.say(' and then')
    assert p.replies()[0] == before[0] and len(p.replies()) == 2


def test_stop_and_regenerate(p, server):
    p.setting('Max tokens', '1800')
    p.js("settings.fields.min_tokens = '1700'")
    p.say('It was a dark night', wait=False)
    until(lambda: len(p.all('.token')) > 5)
    p.button('Stop').click()
    p.idle()
    n = len(p.all('.token'))
    assert 5 < n < 1700, n
    until(lambda: json.loads(server.get('/slots')[1]) == [], 3)
    p.js("settings.fields.min_tokens = ''")
    p.setting('Max tokens', '10')
    p.button('Regenerate').click()
    p.idle()
    second = p.replies()[0]
    assert '2/2' in p.one('article.assistant').text
    p.button('Previous branch').click()
    assert '1/2' in p.one('article.assistant').text and p.replies()[0] != second
    p.button('Next branch').click()
    assert p.replies()[0] == second
    p.setting('Temperature', '0')
    texts = []
    for _ in range(2):
        p.button('Regenerate').click()
        p.idle()
        texts.append(p.replies()[0])
    assert texts[0] == texts[1] and '4/4' in p.one('article.assistant').text


def test_edit(p, server):
    p.setting('Max tokens', '8')
    p.say('One')
    p.all('article.user button')[-2].click()
    area = p.one('article textarea')
    area.clear()
    area.send_keys('Two <b>bold</b> <img src=x onerror=alert(1)>')
    p.button('Save').click()
    p.idle()
    assert p.one('article.user > .text').text == 'Two <b>bold</b> <img src=x onerror=alert(1)>'
    assert not p.all('article img, article b')
    assert '2/2' in p.one('article.user').text
    p.all('article.user button')[0].click()
    assert p.one('article.user > .text').text == 'One' and len(p.replies()) == 1


def test_microscope(p, server):
    p.setting('Max tokens', '12')
    p.setting('Seed', '7')
    p.js("settings.fields.min_tokens = '12'")
    p.say('The captain looked at')
    p.button('Settings').click()
    node = p.js('return talk.nodes.at(-1)')
    ids = node['ids']
    assert len(ids) == 12 and len(node['tokens']) == 12
    p.all('.token')[5].click()
    rivals = until(lambda: p.all('#rivals .rival'))
    assert len(rivals) == 10
    odds = [float(r.text.split('\n')[-1].split()[0]) for r in rivals]
    assert odds == sorted(odds, reverse=True) and 0 < sum(odds) <= 100.5, odds
    p.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not p.one('#rivals').is_displayed()
    p.all('.token')[5].click()
    rivals = until(lambda: p.all('#rivals .rival') and p.one('#rivals').is_displayed() and p.all('#rivals .rival'))
    pick = next(i for i, r in enumerate(rivals) if 'chosen' not in r.get_attribute('class'))
    rivals[pick].click()
    p.idle()
    new = p.js('return talk.nodes.at(-1)')
    assert new['ids'][:5] == ids[:5] and new['ids'][5] != ids[5] and len(new['ids']) == 6 + 12
    assert new['prompt_ids'] == node['prompt_ids']
    assert ''.join(t[0] for t in new['tokens']) == new['text'] == p.replies()[0]
    body = json.dumps({'tokens': new['ids']}).encode()  # what is shown is what these ids say
    with urllib.request.urlopen(urllib.request.Request(server.url + '/detokenize', body)) as r:
        assert json.loads(r.read())['content'].strip() == new['text'].strip()
    assert '2/2' in p.one('article.assistant').text
    p.button('Previous branch').click()
    assert p.js('return talk.nodes[path().at(-1)].ids') == ids


def test_without_a_template(p, server):
    p.js('chat = false')
    p.js("settings.fields.min_tokens = '30'")
    p.setting('Max tokens', '30')
    p.say('The captain looked at ☃ and')
    p.say(', then')
    for node in p.js('return path().map(i => talk.nodes[i]).filter(n => n.role === "assistant")'):
        assert ''.join(t[0] for t in node['tokens']) == node['text'] and len(node['tokens']) == len(node['ids']) == 30
    assert p.all('.token')


def test_history(p, server):
    p.setting('Max tokens', '6')
    p.setting('System prompt', 'Be brief. ')
    p.say('First talk')
    p.button('New conversation').click()
    assert not p.replies()
    p.say('Second talk')
    second = p.replies()
    p.d.refresh()
    p.ready()
    assert [b.text for b in p.all('#list li button:first-child')] == ['Second talk', 'First talk']
    p.button('Second talk').click()
    assert p.replies() == second and p.all('.token')
    p.button('Settings').click()
    assert p.one('#system').get_attribute('value') == 'Be brief. '
    p.button('Delete First talk').click()
    assert len(p.all('#list li')) == 1


def test_errors_are_told(p, server):
    p.allowed += ['400 (Bad Request)']
    p.setting('Temperature', '1000')
    p.say('x')
    until(lambda: 'temperature' in p.one('#trouble').text)
    assert not p.replies()
    p.setting('Temperature', '')
    p.button('Settings').click()
    p.say('again')
    assert p.one('#trouble').text == '' and len(p.replies()) == 1


def test_small_and_dark(p, server):
    other = Page(server.url, width=375, dark=True).ready()
    other.say('Once upon a time there lived a very old king')
    assert other.js('return document.documentElement.scrollWidth') <= 375
    assert not other.one('#past').is_displayed()
    other.button('Conversations').click()
    assert other.one('#past').is_displayed()
    other.js('byId("menu").click()')
    other.button('Settings').click()
    assert other.js('return document.documentElement.scrollWidth') <= 375
    other.button('Settings').click()
    other.all('.token')[2].click()
    box = until(lambda: other.one('#rivals').is_displayed() and other.one('#rivals').rect)
    assert box['x'] >= 0 and box['x'] + box['width'] <= 375
    def light(page):
        colour = page.one('body').value_of_css_property('background-color')
        return sum(int(v) for v in colour[5:].split(',')[:3])
    assert light(other) < 200 < 600 < light(p)
    other.close()


def test_key(p, server):
    with tempfile.NamedTemporaryFile('w') as f:
        f.write('open sesame\n')
        f.flush()
        locked = Server(BINARY, '--api-key-file', f.name)
        other = Page(locked.url)
        other.allowed += ['401 (Unauthorized)']
        until(lambda: other.one('#door').is_displayed())
        other.one('#key').send_keys('wrong', Keys.ENTER)
        until(lambda: other.one('#key').get_attribute('value') == '' and other.one('#door').is_displayed())
        other.one('#key').send_keys('open sesame', Keys.ENTER)
        other.ready()
        other.setting('Max tokens', '5')
        other.say('Hello')
        assert len(other.replies()) == 1
        assert 'sesame' not in other.js('return JSON.stringify(localStorage)')
        other.close()
        locked.close()


def main():
    if MISSING:
        print('skipped: the page is NOT TESTED: apt install ' + ' '.join(MISSING))
        return 0
    failed = 0
    server = Server(BINARY)
    for name, test in list(globals().items()):
        if not name.startswith('test_') or (ONLY and name not in ONLY):
            continue
        page = Page(server.url).ready()
        try:
            test(page, server)
            page.close()
            print('ok    ', name, flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
            print('FAILED', name, flush=True)
            page.d.quit()
    server.close()
    return failed > 0


if __name__ == '__main__':
    BINARY, ONLY = os.path.abspath(sys.argv[1]), sys.argv[2:]
    sys.exit(main())
