"""Drives a headless Chromium through the DevTools protocol. Standard library only.

The protocol goes over two pipes (--remote-debugging-pipe), one JSON text and a zero byte each way.
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 30  # seconds until something that should have happened counts as a failure


def find_chromium():
    """The binary: $KV8_CHROMIUM, or what is installed; None when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("KV8_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


class Browser:
    def __init__(self, binary):
        self.profile = tempfile.mkdtemp(prefix="kv8-chromium-")
        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile}"]
        flags += ["--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--disable-background-networking", "--disable-component-update"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium refuses to run as root with it
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        launch = ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "launch"]
        launch += [str(read_commands), str(write_answers), binary, *flags, "about:blank"]
        self.process = subprocess.Popen(
            launch,
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self.waiting = b""
        self.last_id = 0
        self.pages = {}  # by session

    def close(self):
        os.close(self.commands)
        os.close(self.answers)
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **parameters):
        """The result of a command; what else arrives meanwhile goes to its page."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(end - time.monotonic())
            if answer is None:
                raise AssertionError(f"{method}: no answer")
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self, seconds):
        """The next message, or None when none comes in time."""
        end = time.monotonic() + seconds
        while b"\0" not in self.waiting:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise AssertionError(f"Chromium ended: exit code {self.process.poll()}")
            self.waiting += data
        text, self.waiting = self.waiting.split(b"\0", 1)
        message = json.loads(text)
        page = self.pages.get(message.get("sessionId"))
        if page and "method" in message:
            page.take(message["method"], message["params"])
        return message

    def page(self, width=1280, height=800):
        """A new tab in a profile of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        tab = {"url": "about:blank", "browserContextId": context}
        target = self.call("Target.createTarget", **tab)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        return page


class Page:
    def __init__(self, browser, session, target):
        self.browser = browser
        self.session = session
        self.target = target
        self.requests = []  # addresses asked for
        self.problems = []  # exceptions, and what Chromium itself finds wrong

    def take(self, method, parameters):
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("warning", "error"):
            # A status of 400 and more is an answer, not a problem of the page.
            if parameters["entry"]["source"] != "network":
                self.problems.append(parameters["entry"]["text"])

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        del self.browser.pages[self.session]

    def resize(self, width, height, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def open(self, url):
        self.call("Page.navigate", url=url)
        there = f"location.href.startsWith({json.dumps(url)})"
        self.wait_for(f"{there} && document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of a JavaScript expression; of a promise, what becomes of it."""
        how = {"awaitPromise": True, "returnByValue": True}
        result = self.call("Runtime.evaluate", expression=expression, **how)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, selector):
        """The text of the last element that matches; empty when none does."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].at(-1)"
        return self.evaluate(f"{found}?.textContent ?? ''")

    def wait_for(self, expression, seconds=PATIENCE):
        """Its first value that is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > end:
                shown = self.evaluate("document.body.innerText")
                raise AssertionError(f"never true: {expression}\n{shown}")
            time.sleep(0.03)

    def pass_time(self, seconds):
        """Takes what the page reports meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.browser.receive(end - time.monotonic())

    def move_to(self, selector, x=0.5, y=0.5):
        """Moves the mouse to a point of an element, in shares of its size."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height]; })()"
        )
        at = {"x": box[0] + box[2] * x, "y": box[1] + box[3] * y}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        return at

    def click(self, selector):
        at = self.move_to(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def type(self, text):
        """Types into what has the focus."""
        for character in text:
            self.call("Input.dispatchKeyEvent", type="char", text=character)

    def press(self, key, text=""):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowRight": 39, "ArrowDown": 40}
        about = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        if key == "Enter":
            text = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
