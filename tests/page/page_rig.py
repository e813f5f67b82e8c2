"""page_rig.py - what tests of the web page share: servers and a browser.

Page drives Chromium by what a user sees: names of buttons, labels of settings, texts. Network failures of a browser and
statuses above 399 are written to its console by the browser itself: a test that means them names them in `allowed`."""
import atexit
import glob
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = By = Keys = Service = None
AXE = next((file for folder in sys.path for name in ('axe_core_python/', 'axe_selenium_python/**/')
            for file in glob.glob(folder + '/' + name + 'axe.min.js', recursive=True)), None)

MISSING = [what for what, there in (('python3-selenium', webdriver), ('chromium', shutil.which('chromium')),
                                    ('chromium-driver', shutil.which('chromedriver'))) if not there]


class Server:
    def __init__(self, binary, *flags, port=0):
        self.process = subprocess.Popen([binary, 'serve', '--port', str(port), *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        atexit.register(self.process.kill)  # where a test fails; one that has ended is left alone
        self.url = self.process.stdout.readline().split()[-1]
        until(lambda: self.get('/health')[0] == 200)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def close(self):
        self.process.terminate()
        assert self.process.wait(30) == 0


def until(what, seconds=30):
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
    def __init__(self, url, width=1280, dark=False, height=800):
        o = webdriver.ChromeOptions()
        for flag in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'):
            o.add_argument(flag)
        o.binary_location = shutil.which('chromium')
        o.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.d = webdriver.Chrome(service=Service(shutil.which('chromedriver')), options=o)
        self.size, self.dark = (width, height), dark
        self.allowed = []  # console messages that are meant
        self.as_device()
        self.d.get(url)

    def as_device(self):
        """Makes the tab that is driven a window of the size, on a phone below 500."""
        width, height = self.size
        self.d.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                               {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 500})
        self.d.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [
            {'name': 'prefers-color-scheme', 'value': 'dark' if self.dark else 'light'}]})

    def js(self, code, *args):
        return self.d.execute_script(code, *args)

    def all(self, css):
        return self.d.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.d.find_element(By.CSS_SELECTOR, css)

    def buttons(self, name):
        return [b for b in self.all('button') if b.is_displayed() and name in (b.text, b.get_attribute('aria-label'))]

    def button(self, name):
        return until(lambda: self.buttons(name) or self.list_for(name))[-1]

    def list_for(self, name):
        """On a phone, opens the list of conversations for a button in it."""
        inside = self.js('''return [...document.querySelectorAll('#past button')].some(b =>
            [b.textContent, b.ariaLabel].includes(arguments[0]))''', name)
        if inside:
            self.open_list()
        return []

    def open_list(self):
        if not self.one('#past').is_displayed():
            self.one('#menu').click()
        return self.one('#past')

    def press(self, name):
        """Clicks the last button of the name; where the page draws anew meanwhile, the new one."""
        until(lambda: self.button(name).click() or True)

    def ready(self, model='builtin'):
        until(lambda: self.one('#model').text == model)
        return self

    def idle(self):
        until(lambda: not self.js('return running') and self.one('#send').is_displayed(), 60)
        return self

    def say(self, text, wait=True):
        if self.js('return byId("page").inert'):
            self.press('Close the list')
        self.one('#box').send_keys(text, Keys.ENTER)
        return self.idle() if wait else self

    def tab(self):
        """Opens another tab of the same page and goes there; its handle."""
        url = self.d.current_url
        self.d.switch_to.new_window('tab')
        self.as_device()
        self.d.get(url)
        return self.d.current_window_handle

    def to(self, handle):
        self.d.switch_to.window(handle)

    def replies(self):
        return [e.get_attribute('textContent') for e in self.all('article.assistant > .text')]

    def titles(self):
        return [b.get_attribute('textContent') for b in self.all('#list li > button:first-child')]

    def trouble(self):
        return self.one('#trouble').text

    def shaded(self):
        if self.one('#shade').get_attribute('aria-pressed') != 'true':
            self.press('Probabilities')
        return self.all('.token')

    def setting(self, label, value):
        if self.js('return byId("page").inert'):
            self.press('Close the list')
        if not self.one('#settings').is_displayed():
            self.press('Settings')
        for e in self.all('#settings label'):
            if self.js('return arguments[0].firstChild.textContent', e).strip() == label:
                field = e.find_element(By.CSS_SELECTOR, 'input, textarea, select')
                if field.tag_name != 'select':
                    field.clear()
                field.send_keys(value, Keys.TAB)
                return
        raise AssertionError(f'no setting {label}')

    def serious(self):
        """What axe-core finds, of impact serious or critical; none where it is absent."""
        if not AXE:
            return []
        self.d.execute_cdp_cmd('Page.setBypassCSP', {'enabled': True})
        self.js(open(AXE).read())
        found = self.d.execute_async_script('axe.run().then(arguments[0])')
        return [(v['id'], v['impact'], [n['html'][:160] for n in v['nodes']]) for v in found['violations']
                if v['impact'] in ('serious', 'critical')]

    def log(self):
        return [e for e in self.d.get_log('browser') if not any(a in e['message'] for a in self.allowed)]

    def close(self):
        log, hosts, origin = self.log(), [], self.js('return location.origin')
        hosts = self.js('return performance.getEntriesByType("resource").map(e => new URL(e.name).origin)')
        self.d.quit()
        assert not log, log
        assert set(hosts) <= {origin}, hosts
