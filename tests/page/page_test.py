#!/usr/bin/env python3
"""page_test.py - the web page in Chromium: python3 tests/page/page_test.py build/inferflow [test_…]

Needs Debian's chromium, chromium-driver and python3-selenium; says so and ends with status 0 where one is absent. Each
function test_* gets a browser and a server: the built-in model, or where its name begins with test_stand_in_ one of
fixed replies. Where axe-core is found (a Python package that carries it), nothing serious may be found by it. At the
end of each the console must be empty. PAGE_WIDTH=375 tries all of it as on a phone, PAGE_DARK=1 in the dark."""
import json
import os
import sys
import tempfile
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page_rig import AXE, MISSING, Keys, Page, Server, until  # noqa: E402
from page_stand_in import MARKDOWN, StandIn  # noqa: E402

PHONE = 375


def ask_for(p, **fields):
    """Fields of requests that the page has no setting for, and quick ones."""
    p.js('changeSettings(s => Object.assign(s.fields, arguments[0]))'.replace('arguments[0]', json.dumps(fields)))


def test_first_sight(p, server):
    assert p.one('html').get_attribute('lang') == 'en'
    assert p.d.title == 'builtin'
    assert p.js('return document.activeElement.id') == 'box'
    p.one('#box').send_keys(Keys.TAB)
    assert p.js('return document.activeElement.id') == 'send'
    empty = until(lambda: p.one('.empty')).text
    assert 'builtin' in empty and 'Context 2 048 tokens' in empty and 'toy of 5.5M parameters' in empty, empty
    assert len(p.all('.examples button')) == 3
    assert p.one('#shade').get_attribute('aria-pressed') == 'false'
    ask_for(p, max_tokens=5)
    p.all('.examples button')[0].click()
    p.idle()
    assert p.one('article.user > .text').text == 'Once upon a time' and len(p.replies()) == 1
    p.d.refresh()
    p.ready()
    p.js('document.activeElement.blur()')
    p.shaded()
    p.js('document.activeElement.blur()')
    seen = []
    for _ in range(25):
        p.d.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(p.js('return document.activeElement.id'))
    assert 'box' in seen and 'send' in seen, seen
    for e in p.all('button, input, select, textarea'):
        name = e.get_attribute('aria-label') or e.get_attribute('textContent').strip() or p.js(
            'return arguments[0].closest("label")?.textContent.trim()', e)
        assert name, e.get_attribute('outerHTML')


def test_it_is_small_and_strict(p, server):
    with urllib.request.urlopen(server.url + '/') as r:
        page, policy = r.read(), r.headers['Content-Security-Policy']
    assert len(page) <= 60000, len(page)
    assert "default-src 'none'" in policy and 'unsafe' not in policy, policy
    for word in (b'innerHTML', b'outerHTML', b'insertAdjacent', b'document.write', b'eval('):
        assert word not in page, word


def test_a_reply(p, server):
    p.setting('Max tokens', '40')
    ask_for(p, min_tokens=30)
    p.one('#box').send_keys('Once upon', Keys.SHIFT, Keys.ENTER)
    p.one('#box').send_keys(Keys.NULL)
    assert p.one('#box').get_attribute('value') == 'Once upon\n'
    assert not p.replies()
    p.one('#box').send_keys('a time', Keys.ENTER)
    p.idle()
    assert p.one('article.user > .text').text == 'Once upon\na time'
    assert p.one('#box').get_attribute('value') == '' and p.js('return document.activeElement.id') == 'box'
    assert len(p.replies()) == 1 and len(p.replies()[0]) > 20
    counts = p.one('article.assistant .counts').text
    parts = counts.split(' · ')
    assert parts[-1].startswith('context ') and parts[-1].endswith(' %'), counts
    number, unit = parts[-2].split()
    assert unit == 'tokens/s' and float(number) > 0
    assert ' prompt' in parts[0] and parts[1].endswith(' tokens'), counts
    assert p.one('#speed').get_attribute('textContent') == f'{number} tokens/s'
    raw = p.js('return path().at(-1).text')
    assert p.one('#said').get_attribute('textContent') == 'builtin: ' + raw
    assert not p.all('.token')
    tokens = p.shaded()
    assert 30 <= len(tokens) <= 40, len(tokens)
    assert ''.join(t.get_attribute('textContent') for t in tokens) == raw == p.replies()[0]
    assert {t.value_of_css_property('background-color') for t in tokens} == {'rgba(0, 0, 0, 0)'}
    assert len({t.value_of_css_property('text-decoration') for t in tokens}) > 2
    assert p.one('#legend').is_displayed() and len(p.all('#legend span')) == 6
    assert all(t.get_attribute('tabindex') is None for t in tokens)
    assert ('Cut at its length.' in p.one('article.assistant .counts').text) == (len(tokens) == 40)
    p.say(' and then')
    assert p.replies()[0] == raw and len(p.replies()) == 2
    names = [a.get_attribute('aria-label') for a in p.all('article')]
    assert names == ['You, message 1', 'builtin, message 2', 'You, message 3', 'builtin, message 4'], names


def test_stop_regenerate_continue(p, server):
    p.setting('Max tokens', '1800')
    ask_for(p, min_tokens=1700)
    p.say('It was a dark night', wait=False)
    until(lambda: p.js('return path().at(-1).ids.length') > 5)
    assert not p.one('#send').is_displayed()
    p.button('Stop').click()
    p.idle()
    n = p.js('return path().at(-1).ids.length')
    assert 5 < n < 1700, n
    until(lambda: json.loads(server.get('/slots')[1]) == [], 10)
    assert 'Stopped.' in p.one('article.assistant .counts').text
    ask_for(p, min_tokens='')
    p.setting('Max tokens', '10')
    before = p.js('return path().at(-1)')
    p.press('Continue')
    p.idle()
    after = p.js('return path().at(-1)')
    assert after['id'] == before['id'] and n < len(after['ids']) <= n + 10 and after['ids'][:n] == before['ids']
    assert after['text'].startswith(before['text']) and after['counts']['prompt'] == before['counts']['prompt']
    assert ''.join(t[0] for t in after['tokens']) == after['text']
    p.press('Regenerate')
    p.idle()
    second = p.replies()[0]
    assert '2/2' in p.one('article.assistant').text
    p.press('Previous branch')
    assert '1/2' in p.one('article.assistant').text and p.replies()[0] != second
    p.press('Next branch')
    assert p.replies()[0] == second
    p.setting('Temperature', '0')
    texts = []
    for _ in range(2):
        p.press('Regenerate')
        p.idle()
        texts.append(p.replies()[0])
    assert texts[0] == texts[1] and '4/4' in p.one('article.assistant').text


def test_edit(p, server):
    p.setting('Max tokens', '8')
    p.say('One')
    p.one('article.user').find_elements('xpath', './/button[.="Edit"]')[0].click()
    p.one('article textarea').send_keys('gone', Keys.ESCAPE)
    assert p.one('article.user > .text').text == 'One' and not p.all('article textarea')
    p.one('article.user').find_elements('xpath', './/button[.="Edit"]')[0].click()
    area = p.one('article textarea')
    area.clear()
    area.send_keys('Two <b>bold</b> <img src=x onerror=alert(1)>')
    p.press('Save and send')
    p.idle()
    assert p.one('article.user > .text').text == 'Two <b>bold</b> <img src=x onerror=alert(1)>'
    assert not p.all('article img, article b')
    assert '2/2' in p.one('article.user').text
    p.press('Previous branch')
    assert p.one('article.user > .text').text == 'One' and len(p.replies()) == 1
    p.one('article.assistant').find_elements('xpath', './/button[.="Edit"]')[0].click()
    area = p.one('article textarea')
    area.clear()
    area.send_keys('The old man was')
    p.press('Save')
    p.press('Continue')  # by hand first, then by the model
    p.idle()
    node = p.js('return path().at(-1)')
    assert node['text'].startswith('The old man was') and node['given'] == 15 and node['ids']
    p.shaded()
    assert p.replies()[0] == node['text']
    p.all('.token')[1].click()
    assert len(until(lambda: p.all('#rivals .rival'))) == 10


def test_microscope(p, server):
    p.setting('Max tokens', '12')
    p.setting('Seed', '7')
    ask_for(p, min_tokens=12)
    p.say('The captain looked at')
    p.press('Settings')
    node, prompt = p.js('return path().at(-1)'), p.js('return promptIds(talk, path().at(-1))')
    ids = node['ids']
    assert len(ids) == 12 and len(node['tokens']) == 12
    p.shaded()[5].click()
    rivals = until(lambda: p.all('#rivals .rival'))
    assert len(rivals) == 10
    odds = [float(r.text.split('\n')[-1].split()[0]) for r in rivals]
    assert odds == sorted(odds, reverse=True) and 0 < sum(odds) <= 100.5, odds
    p.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not p.one('#rivals').is_displayed()
    p.js('document.querySelector(".tokens").focus()')  # the same by keys
    for _ in range(6):
        p.d.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert p.js('return [...document.querySelectorAll(".token")].indexOf(document.activeElement)') == 5
    p.d.switch_to.active_element.send_keys(Keys.ENTER)
    rivals = until(lambda: p.one('#rivals').is_displayed() and p.all('#rivals .rival'))
    p.d.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert p.js('return document.activeElement.className').startswith('token')
    p.d.switch_to.active_element.send_keys(Keys.ENTER)
    rivals = until(lambda: p.one('#rivals').is_displayed() and p.all('#rivals .rival'))
    pick = next(i for i, r in enumerate(rivals) if 'chosen' not in r.get_attribute('class'))
    rivals[pick].click()
    p.idle()
    new = p.js('return path().at(-1)')
    assert new['ids'][:5] == ids[:5] and new['ids'][5] != ids[5] and len(new['ids']) == 6 + 12
    assert p.js('return promptIds(talk, path().at(-1))') == prompt
    assert ''.join(t[0] for t in new['tokens']) == new['text'] == p.replies()[0]
    body = json.dumps({'tokens': new['ids']}).encode()  # what is shown is what these ids say
    with urllib.request.urlopen(urllib.request.Request(server.url + '/detokenize', body)) as r:
        assert json.loads(r.read())['content'].strip() == new['text'].strip()
    assert '2/2' in p.one('article.assistant').text
    p.press('Previous branch')
    assert p.js('return path().at(-1).ids') == ids


def test_without_a_template(p, server):
    p.js('chat = false')
    ask_for(p, min_tokens=30)
    p.setting('Max tokens', '30')
    p.say('The captain looked at ☃ and')
    p.say(', then')
    for node in p.js('return path().filter(n => n.role === "assistant")'):
        assert ''.join(t[0] for t in node['tokens']) == node['text'] and len(node['tokens']) == len(node['ids']) == 30
    assert p.shaded()


def test_conversations(p, server):
    p.setting('Max tokens', '6')
    p.setting('System prompt of this conversation', 'Be brief. ')
    p.say('First talk')
    p.press('New conversation')
    assert not p.replies() and p.one('#system').get_attribute('value') == ''
    p.say('Second talk')
    second = p.replies()
    p.d.refresh()
    p.ready()
    assert p.titles() == ['Second talk', 'First talk']
    assert p.replies() == second  # where one was
    p.press('First talk')
    assert p.one('#system').get_attribute('value') == 'Be brief. ' and p.replies() != second or len(p.replies()) == 1
    p.press('Second talk')
    assert p.replies() == second and p.one('#system').get_attribute('value') == '' and p.shaded()
    p.press('Rename Second talk')
    p.one('#list input').send_keys('Of ships', Keys.ENTER)
    assert p.titles() == ['Of ships', 'First talk']
    p.press('Rename Of ships')
    p.one('#list input').send_keys('not', Keys.ESCAPE)
    assert p.titles() == ['Of ships', 'First talk']
    p.open_list()
    p.one('#search').send_keys('second')  # in its texts
    until(lambda: p.titles() == ['Of ships'])
    p.one('#search').clear()
    p.one('#search').send_keys('nowhere')
    until(lambda: p.titles() == [] and 'Nothing found' in p.one('#list').text)
    p.one('#search').send_keys(*[Keys.BACKSPACE] * 7)
    p.press('Delete First talk')
    assert p.titles() == ['Of ships'] and 'deleted' in p.one('#note').text
    p.press('Undo')
    until(lambda: p.titles() == ['Of ships', 'First talk'] and not p.one('#note').is_displayed())
    assert p.one('article.user > .text').text == 'First talk'
    p.press('Delete First talk')
    assert not p.replies()
    p.d.refresh()
    p.ready()
    assert p.titles() == ['Of ships']
    with tempfile.TemporaryDirectory() as d:
        p.d.execute_cdp_cmd('Browser.setDownloadBehavior', {'behavior': 'allow', 'downloadPath': d})
        p.press('Of ships')
        p.press('Export Of ships')
        file = until(lambda: [f for f in os.listdir(d) if f.endswith('.md')])[0]
        text = until(lambda: open(os.path.join(d, file)).read())
    assert file == 'Of ships.md' and '# Of ships' in text and 'Second talk' in text and second[0].strip() in text, text


def test_two_tabs(p, server):
    ask_for(p, max_tokens=8)
    first = p.d.current_window_handle
    second = p.tab()
    p.ready()
    for handle, words in ((first, 'first tab'), (second, 'second tab')):
        p.to(handle)
        p.say(words)
    p.tab()
    p.ready()
    assert sorted(p.titles()) == ['first tab', 'second tab']
    p.to(first)
    until(lambda: sorted(p.titles()) == ['first tab', 'second tab'])  # without a reload
    p.press('second tab')  # the same one in two tabs, each goes on
    p.say('from one')
    p.to(second)
    until(lambda: 'from one' in p.one('#log').text)
    p.say('from two')
    p.to(first)
    until(lambda: 'from two' in p.one('#log').text)
    p.d.refresh()
    p.ready()
    assert [e.text for e in p.all('article.user > .text')] == ['second tab', 'from one', 'from two']
    p.press('Delete first tab')
    p.to(second)
    until(lambda: p.titles() == ['second tab'])
    p.setting('Temperature', '0.5')
    p.to(first)
    p.setting('Top p', '0.9')
    fields = p.js('return loadSettings().fields')
    assert fields['temperature'] == '0.5' and fields['top_p'] == '0.9', fields


def test_two_tabs_stream_at_once(p, server):
    ask_for(p, max_tokens=400, min_tokens=400)
    first = p.d.current_window_handle
    p.say('here', wait=False)
    second = p.tab()
    p.ready().say('there', wait=False)
    for handle in (first, second):
        p.to(handle)
        p.idle()
    p.tab()
    p.ready()
    assert sorted(p.titles()) == ['here', 'there']
    for words in ('here', 'there'):
        p.press(words)
        assert p.one('article.user > .text').text == words
        assert p.js('return path().at(-1).ids.length') == 400


def test_reload_in_the_middle(p, server):
    p.setting('Max tokens', '1500')
    ask_for(p, min_tokens=1500)
    p.say('A long story', wait=False)
    until(lambda: p.js('return path().at(-1).ids.length') > 28)
    p.d.refresh()
    p.ready()
    assert p.titles() == ['A long story']
    assert p.one('article.user > .text').text == 'A long story'
    node = p.js('return path().at(-1)')
    assert len(node['ids']) > 28 and node['end'] == 'broken' and p.replies()[0]
    ask_for(p, max_tokens=5, min_tokens=5)
    p.press('Continue')
    p.idle()
    assert p.js('return path().at(-1).ids').__len__() == len(node['ids']) + 5
    p.say('x')  # what is written is there before its reply is
    stored = 'return Object.values(JSON.parse(localStorage["inferflow.talk." + talk.id]).nodes).map(n => n.text)'
    assert 'x' in p.js(stored)


def test_storage(p, server):
    ask_for(p, max_tokens=300, min_tokens=300)
    sizes = []
    for i in range(6):  # grows with the text, not with its square
        p.say(f'Go on {i}')
        sizes.append(p.js('return localStorage["inferflow.talk." + talk.id].length'))
    steps = [b - a for a, b in zip(sizes, sizes[1:])]
    assert max(steps) < 1.5 * steps[0], sizes
    whole = p.js('return promptIds(talk, path().at(-1))')
    made = p.d.execute_async_script('''ask('apply-template', {messages: conversation(talk, path().slice(0, -1))})
        .then(r => r.json()).then(r => arguments[0](r.tokens))''')
    assert len(whole) > 5 * 300 and whole == made
    p.js('''let n = 5e6; const old = Object.keys(localStorage).length;
            for (let k = 0; n >= 1; k++) { try { localStorage['fill' + k] = 'x'.repeat(n); } catch { n /= 2; } }''')
    ask_for(p, max_tokens=6, min_tokens=6)
    p.press('New conversation')
    p.say('One too many')
    assert p.one('#full').is_displayed() and len(p.replies()) == 1
    assert any('Go on' in t for t in p.titles())  # nothing was taken away
    p.js('Object.keys(localStorage).filter(n => n.startsWith("fill")).forEach(n => localStorage.removeItem(n))')
    p.say('And now')
    assert not p.one('#full').is_displayed()
    p.d.refresh()
    p.ready()
    assert p.titles() == ['One too many', 'Go on 0']


def test_no_storage(p, server):
    p.d.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': '''
        for (const name of ['localStorage', 'sessionStorage'])
          Object.defineProperty(window, name, {get() { throw new DOMException('denied', 'SecurityError'); }});'''})
    p.d.refresh()
    p.ready()
    p.setting('Max tokens', '5')
    p.say('Hello')
    assert len(p.replies()) == 1 and p.titles() == ['Hello']
    assert p.one('#full').is_displayed()


def test_reading_is_told(p, server):
    slow = Server(BINARY, '--chunk', '16', '--threads', '1')
    p.d.get(slow.url)
    p.ready()
    ask_for(p, max_tokens=3)
    p.js('''window.seen = [];
            new MutationObserver(() => document.querySelectorAll('.busy .wait').forEach(e => seen.push(e.textContent)))
              .observe(document.body, {subtree: true, childList: true, characterData: true});
            byId('box').value = 'It was a dark and stormy night on the sea. '.repeat(90);
            send();''')
    p.idle()
    told = p.js('return window.seen.filter(s => /^reading [0-9 ]+ of [0-9 ]+$/.test(s))')
    assert len(set(told)) > 1, p.js('return window.seen')
    p.d.get(server.url)
    slow.close()


def test_conversations_of_old_versions(p, server):
    def node(parent, kids, role, text, ids, pick=0):
        return {'parent': parent, 'kids': kids, 'pick': pick, 'role': role, 'text': text, 'ids': ids,
                'tokens': [[text, -1]] if ids else [], 'prompt_ids': [1, 2] if ids else []}
    old = [{'title': 'Old one', 'nodes': [{'parent': -1, 'kids': [1], 'pick': 0},
                                          node(0, [2, 3], 'user', 'Hello', [], 1),
                                          node(1, [], 'assistant', 'One', [9]), node(1, [], 'assistant', 'Two', [8])]}]
    p.js('''localStorage.clear();
            localStorage["inferflow.settings"] = JSON.stringify({fields: {}, system: "Be kind", shade: true});
            localStorage["inferflow.talks"] = JSON.stringify(arguments[0])''', old)
    p.d.refresh()
    p.ready()
    p.press('Old one')
    assert p.replies() == ['Two'] and '2/2' in p.one('article.assistant').text
    assert p.one('#system').get_attribute('value') == 'Be kind'
    assert p.js('return promptIds(talk, path().at(-1))') == [1, 2]
    assert p.js('return localStorage["inferflow.talks"] ?? null') is None


def test_what_runs_is_stopped(p, server):
    ask_for(p, max_tokens=1500, min_tokens=1500)
    for way in ('New conversation', 'Old', 'Delete Now'):
        p.js('openTalk(newTalk())')
        ask_for(p, max_tokens=3, min_tokens=3)
        p.say('Old')
        ask_for(p, max_tokens=1500, min_tokens=1500)
        p.press('New conversation')
        p.say('Now', wait=False)
        until(lambda: p.js('return path().at(-1).ids.length') > 3)
        p.press(way)
        p.idle()
        until(lambda: json.loads(server.get('/slots')[1]) == [], 10)
        shown = [e.text for e in p.all('article.user > .text')]
        assert shown == (['Old'] if way == 'Old' else []), (way, shown)
        assert ('Now' in p.titles()) == (way != 'Delete Now')
        p.js('for (const t of talks.values()) deleteTalk(t); showPast()')


def test_errors_are_told(p, server):
    p.allowed += ['400 (Bad Request)']
    p.setting('Temperature', '1000')
    p.say('x')
    until(lambda: 'temperature' in p.trouble())
    assert not p.replies()
    p.setting('Temperature', '')
    p.press('Settings')
    ask_for(p, max_tokens=4)
    p.press('Try again')
    p.idle()
    assert p.trouble() == '' and len(p.replies()) == 1


def test_a_lost_server(p, server):
    own = Server(BINARY)
    port = own.url.rsplit(':', 1)[1]
    p.allowed += ['ERR_CONNECTION_REFUSED', 'ERR_INCOMPLETE_CHUNKED_ENCODING', 'ERR_CONNECTION_RESET',
                  'ERR_EMPTY_RESPONSE']
    p.d.get(own.url)
    p.ready()
    ask_for(p, max_tokens=1500, min_tokens=1500)
    p.say('A long story', wait=False)
    until(lambda: p.js('return path().at(-1).ids.length') > 3)
    own.kill()
    p.idle()
    until(lambda: 'The server does not answer.' in p.trouble())
    n = p.js('return path().at(-1).ids.length')
    ask_for(p, max_tokens=5, min_tokens=5)
    p.say('And then?')
    assert 'The server does not answer.' in p.trouble()
    own = Server(BINARY, port=port)
    p.press('Try again')
    p.idle()
    assert p.trouble() == '' and len(p.replies()) == 2 and n > 3
    own.kill()
    p.js('start()')
    until(lambda: 'The server does not answer.' in p.trouble())
    own = Server(BINARY, port=port)
    p.press('Try again')
    until(lambda: p.trouble() == '')
    own.close()
    p.d.get(server.url)


def test_key(p, server):
    with tempfile.NamedTemporaryFile('w') as f:
        f.write('open-sesame\n')
        f.flush()
        locked = Server(BINARY, '--api-key-file', f.name)
        p.allowed += ['401 (Unauthorized)']
        p.d.get(locked.url)
        until(lambda: p.one('#door').is_displayed())
        assert 'This server asks for a key.' in p.one('#door').text
        p.one('#key').send_keys('wrong', Keys.ENTER)
        until(lambda: 'This key is not accepted.' in p.one('#door').text and p.one('#door').is_displayed())
        p.press('Cancel')
        until(lambda: 'asks for a key' in p.trouble())
        p.press('Try again')
        until(lambda: p.one('#door').is_displayed())
        p.one('#key').send_keys('open-sesame', Keys.ENTER)
        p.ready()
        ask_for(p, max_tokens=5)
        p.say('Hello')
        assert len(p.replies()) == 1
        assert 'sesame' not in p.js('return JSON.stringify(localStorage)')
        p.d.get(server.url)
        locked.close()


def test_settings(p, server):
    p.press('Settings')
    p.one('#settings summary').click()
    fields = p.all('#settings .grid > div')
    assert len(fields) >= 19
    for f in fields:
        assert len(f.find_element('css selector', '.help').text) > 8, f.text
    words = [o.text for o in p.all('#settings select option')]
    assert words[0] == 'none' and len(words) == 11, words
    p.setting('Strategy', 'greedy')
    assert p.js('return sampling({}).strategy') == 'greedy' and p.js('return sampling({}).top_k ?? null') is None


def phone_of(server, dark=False):
    return Page(server.url, width=PHONE, dark=dark, height=700).ready()


def test_phone(p, server):
    other = phone_of(server, dark=True)
    ask_for(other, max_tokens=30, min_tokens=30)
    other.say('Once upon a time there lived a very old king')
    other.press('Conversations')
    other.press('New conversation')
    other.say('Second')
    past = other.one('#past')
    assert other.js('return document.documentElement.scrollWidth') <= PHONE
    assert not past.is_displayed()

    def opened():
        other.press('Conversations')
        assert past.is_displayed() and other.js('return byId("past").contains(document.activeElement)')
        return other

    def closed():
        until(lambda: not past.is_displayed())
        assert other.js('return byId("page").inert') is False
    opened().press('Once upon a time there lived a very old king')
    closed()
    assert 'old king' in other.one('article.user').text
    opened().d.switch_to.active_element.send_keys(Keys.ESCAPE)
    closed()
    assert other.js('return document.activeElement.id') == 'menu'
    opened().js('void 0')
    other.d.execute_cdp_cmd('Input.dispatchTouchEvent', {'type': 'touchStart', 'touchPoints': [{'x': 360, 'y': 400}]})
    other.d.execute_cdp_cmd('Input.dispatchTouchEvent', {'type': 'touchEnd', 'touchPoints': []})
    closed()
    opened().press('Close the list')
    closed()
    opened().press('New conversation')
    closed()
    opened().press('Second')
    closed()
    other.press('Settings')
    assert other.js('return document.documentElement.scrollWidth') <= PHONE
    other.press('Settings')
    other.shaded()[2].click()
    box = until(lambda: other.one('#rivals').is_displayed() and other.one('#rivals').rect)
    assert box['x'] >= 0 and box['x'] + box['width'] <= PHONE
    assert other.js('return document.documentElement.scrollWidth') <= PHONE

    def light(page):
        colour = page.one('body').value_of_css_property('background-color')
        return sum(int(v) for v in colour[5:].split(',')[:3])
    assert light(other) < 200 and (DARK or light(p) > 600)
    other.close()


def test_stand_in_markdown(p, server):
    p.say('Show me')
    text = p.one('article.assistant > .text')

    def inner(css):
        return [e.text for e in text.find_elements('css selector', css)]
    assert inner('h2') == ['A heading'] and inner('h3') == ['Lists']
    assert inner('p > strong')[0] == 'bold' and 'leaning' in inner('em') and inner('strong em') == ['both']
    assert inner('del') == ['gone'] and 'code_here' in inner('p > code') and 'snake_case_names' in inner('p')[0]
    assert inner('code.formula') == ['a^2 + b^2 = c^2'] and inner('pre.formula') == ['\\int_0^1 x\\,dx = \\frac12']
    assert '$5 and $10' in inner('p')[0]
    assert len(text.find_elements('css selector', 'ol > li')) == 3 and inner('ol ul em') == ['one']
    assert inner('ol ul p') == ['with a paragraph'] and inner('ul li')[-1] == '☐ to do'
    links = {a.text: a.get_attribute('href') for a in text.find_elements('css selector', 'a')}
    assert links == {'a link': 'https://example.org/a_(b)', 'picture': 'https://example.org/p.png',
                     'https://example.org/page': 'https://example.org/page'}, links
    assert '[a bad one](javascript:alert(1))' in text.text
    assert not text.find_elements('css selector', 'img, script, b') and '<img src=x' in text.text
    assert '# <b>no markup</b>' in inner('.code pre')[0] and inner('.code .bar span') == ['python']
    cells = text.find_elements('css selector', 'td')
    assert [c.text for c in cells] == ['Tea', 'some', '3', 'Coffee with a long name', 'a lot|more', '12']
    assert cells[2].value_of_css_property('text-align') == 'right'
    assert inner('blockquote') == ['A quote\nof two lines'] and len(text.find_elements('css selector', 'hr')) == 1
    p.js('navigator.clipboard.writeText = async text => { window.copied = text; }')
    p.press('Copy code')
    until(lambda: p.js('return window.copied')).startswith('def longest')
    p.all('article.assistant > .tools button')[-1].click()
    assert until(lambda: p.js('return window.copied')) == MARKDOWN
    p.shaded()
    assert p.replies()[0] == MARKDOWN
    assert p.one('article.assistant .counts').text.startswith('112 prompt (64 cached) · ')


def test_stand_in_hostile_markdown(p, server):
    made = '''const box = document.createElement('div'), from = performance.now();
              showMarkdown(box, arguments[0]); return [performance.now() - from, box.textContent.length,
              box.querySelectorAll('script, img, iframe, object, [onclick], [onerror], [style],' +
                                   '[href^="java" i]').length]'''
    for text in ('*a ' * 40000, '**a ' * 30000, '_' * 100000, '[' * 100000, '![a](' * 30000, '`' * 60000,
                 '`a ``b ' * 20000, '>' * 100000, '- ' * 50000, '\n'.join(' ' * i + '- x' for i in range(400)),
                 '$a ' * 40000, '|' * 100000, '|a\n|-\n' + '|' * 50000, '\\(' * 50000, '<' * 100000, 'h' * 100000,
                 '~~a ' * 30000, '#' * 100000, '[a](' + '(' * 50000, '```\n' * 20000, '1. ' * 30000, '$$\n' * 30000,
                 '*' * 50000 + 'a' + '*' * 50000, 'https://' * 20000, '[a' * 40000, '[[a]' * 30000, '> - ' * 20000):
        took, _, bad = p.js(made, text)
        assert took < 3000 and not bad, (text[:20], took)
    for text in ('[x](java\nscript:alert(1))', '[x]( javascript:alert(1))', '<javascript:alert(1)>',
                 '[x](data:text/html,y)', '[x](JaVaScRiPt:alert(1))', '[x](vbscript:y)', '[x](//evil.example)',
                 '[x](/props)', '<iframe src=x></iframe>', '<a href="javascript:alert(1)">x</a>'):
        p.js('window.box = document.createElement("div"); showMarkdown(window.box, arguments[0])', text)
        tags = p.js('return [...window.box.querySelectorAll("*")].map(e => e.tagName)')
        assert set(tags) <= {'P', 'BR'}, (text, tags)


def test_stand_in_progress(p, server):
    server.reading, server.delay, server.reply = 3, 0.4, 'One two three.'
    p.say('A long prompt', wait=False)
    until(lambda: p.one('article.assistant .wait').text == 'reading 2 048 of 8 190')
    until(lambda: p.one('article.assistant .wait').text == 'reading 4 096 of 8 190')
    until(lambda: 'One' in p.one('article.assistant > .text').text)
    assert p.one('article.assistant').get_attribute('aria-busy') == 'true'
    assert p.one('article.assistant .wait').text == ''
    assert p.js('return getComputedStyle(document.querySelector(".busy .md > p"), "::after").content') == '""'
    assert p.one('#said').get_attribute('textContent') == ''
    p.idle()
    assert p.one('article.assistant').get_attribute('aria-busy') == 'false' and not p.all('.busy')
    body = server.asked[-1][1]
    assert body['return_progress'] is True and body['temperature'] == 0.8 and body['top_k'] == 40, body
    p.press('Settings')
    assert 'temperature 0.8, top k 40' in p.one('#held').text
    p.one('#settings summary').click()
    p.setting('Strategy', 'std')
    p.say('Again')
    body = server.asked[-1][1]
    assert body['strategy'] == 'std' and 'top_k' not in body, body


def test_stand_in_broken_off(p, server):
    p.allowed += ['500', '503', 'ERR_']
    server.cut = 2
    p.say('Hello')
    assert 'The server does not answer.' in p.trouble() and p.replies() == ['A head']
    server.cut, server.reply = 0, 'ing, and the rest.'
    p.press('Try again')  # goes on from its ids
    p.idle()
    assert server.asked[-1][0] == '/v1/completions'
    assert p.js('return path().at(-1).text') == '# A heading, and the rest.'
    server.status = 503
    p.say('More')
    assert p.trouble().startswith('it is refused here') and len(p.replies()) == 1
    server.status = 0
    p.press('Try again')
    p.idle()
    assert len(p.replies()) == 2 and p.trouble() == ''
    server.thought, server.reply = 'Let me think.', 'Thought.'
    p.say('Think')
    assert p.all('.thought')[-1].is_displayed() and p.replies()[-1] == 'Thought.'


def test_stand_in_is_accessible(p, server):
    if not AXE:
        print('axe-core is absent: accessibility is NOT TESTED (a Python package that carries it: axe-selenium-python)')
        return
    for width, dark in ((1280, False), (1280, True), (PHONE, False), (PHONE, True)):
        other = Page(server.url, width=width, dark=dark)
        other.allowed += ['500']
        other.ready('stand-in')
        server.status, server.reply = 0, MARKDOWN
        found = [other.serious()]
        other.say('Show me')
        found.append(other.serious())
        other.shaded()
        found.append(other.serious())
        other.all('.token')[3].click()
        until(lambda: other.one('#rivals').is_displayed() or other.trouble())
        found.append(other.serious())
        other.js('closeRivals()')
        other.press('Probabilities')
        if width == PHONE:
            other.press('Conversations')
            found.append(other.serious())
            other.press('Close the list')
        other.press('Settings')
        other.one('#settings summary').click()
        found.append(other.serious())
        other.press('Settings')
        server.status = 500
        other.say('And this?')
        found.append(other.serious())
        other.all('article.user .tools button')[0].click()
        found.append(other.serious())
        other.close()
        assert not any(found), found


def main():
    if MISSING:
        print('skipped: the page is NOT TESTED: apt install ' + ' '.join(MISSING))
        return 0
    failed = 0
    server = Server(BINARY)
    with urllib.request.urlopen(server.url + '/') as r:
        page, policy = r.read().decode(), r.headers['Content-Security-Policy']
    for name, test in list(globals().items()):
        if not name.startswith('test_') or (ONLY and name not in ONLY):
            continue
        stand_in = StandIn(page, policy) if name.startswith('test_stand_in_') else None
        with_it, began, p = stand_in or server, time.time(), None
        try:
            p = Page(with_it.url, width=WIDTH, dark=DARK).ready('stand-in' if stand_in else 'builtin')
            test(p, with_it)
            p.close()
            print(f'ok     {name} {time.time() - began:.1f} s', flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
            print('FAILED', name, flush=True)
            if p:
                p.d.quit()
        if stand_in:
            stand_in.close()
    server.close()
    return failed > 0


if __name__ == '__main__':
    WIDTH, DARK = int(os.environ.get('PAGE_WIDTH', 1280)), 'PAGE_DARK' in os.environ
    BINARY, ONLY = os.path.abspath(sys.argv[1]), sys.argv[2:]
    sys.exit(main())
