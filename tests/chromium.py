"""A real Chromium, driven through a pipe with nothing but the standard library.

Messages of the DevTools protocol are JSON, ended by NUL, on file descriptors 3 (to the browser) and 4 (from it).
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {
    "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "PageDown": 34,
    "PageUp": 33, "Tab": 9, "Escape": 27, "Enter": 13,
}  # fmt: skip


def find_chromium():
    """Path of the browser; root installs it where it is missing, and nobody goes without."""
    for attempt in range(2):
        for name in NAMES:
            if found := shutil.which(name):
                return found
        if attempt == 0 and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
            quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
            subprocess.run(["apt-get", "update"], check=False, **quiet)
            subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], check=False, **quiet)
    raise RuntimeError(f"the report is tested in a real browser: install one of {NAMES} (Debian: apt install chromium)")


class Chromium:
    """One browser; `open` gives a page."""

    def __init__(self, timeout=60.0):
        self.timeout = timeout
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._number, self._received, self.events = 0, b"", []
        to_read, self._to = os.pipe()
        self._from, from_write = os.pipe()
        # the browser wants 3 and 4, which may be taken here: move its ends away first, and place them in the child
        high = [os.dup(to_read), os.dup(from_write)]
        command = f'exec 3<&{high[0]} 4>&{high[1]}; exec "$@"'
        arguments = [find_chromium(), *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        environment = os.environ | {"HOME": self._folder.name}
        self._process = subprocess.Popen(
            ["bash", "-c", command, "chromium", *arguments], pass_fds=high, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (to_read, from_write, *high):
            os.close(end)

    def _read(self, deadline):
        """The next message, or None after the deadline."""
        while b"\0" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                return None
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError(f"chromium has ended (exit code {self._process.wait()})")
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def send(self, method, session=None, **parameters):
        """Call a method and wait for its result; events that come meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        deadline = time.monotonic() + self.timeout
        while (answer := self._read(deadline)) is not None:
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)
        raise TimeoutError(f"chromium gave no answer to {method} in {self.timeout:g} s")

    def wait_for(self, method, session):
        """Wait until an event has come (or had come) and return its parameters."""
        deadline = time.monotonic() + self.timeout
        while True:
            for event in self.events:
                if event["method"] == method and event.get("sessionId") == session:
                    return event["params"]
            message = self._read(deadline)
            if message is None:
                raise TimeoutError(f"chromium sent no {method} in {self.timeout:g} s")
            if "method" in message:
                self.events.append(message)

    def open(self, path, fragment="", **settings):
        """A new page with a file."""
        return Page(self, path, fragment, **settings)

    def close(self):
        """End the browser and remove its folder."""
        try:
            self.send("Browser.close")
            self._process.wait(20)
        except (RuntimeError, TimeoutError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()


class Page:
    """A tab with a file in it; it records requests, console messages and errors."""

    def __init__(self, browser, path, fragment="", *, width=1280, height=900, phone=False, dark=False, script=True):
        self.browser, self.url = browser, Path(path).resolve().as_uri()
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.send(f"{domain}.enable")
        self.resize(width, height, phone=phone)
        self.media("screen", dark=dark)
        if not script:
            self.send("Emulation.setScriptExecutionDisabled", value=True)
        # about:blank has loaded before: its events are not meant
        self.browser.events.clear()
        began = time.monotonic()
        self.send("Page.navigate", url=self.url + fragment)
        browser.wait_for("Page.loadEventFired", self.session)
        self.load_seconds = time.monotonic() - began

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def resize(self, width, height, *, phone=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def media(self, kind, *, dark=False):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", media=kind, features=[scheme, still])

    def js(self, expression):
        """The value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def focus(self, selector):
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")

    def press(self, key, times=1, modifiers=0):
        """A key, as the keyboard sends it."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        for _ in range(times):
            self.send("Input.dispatchKeyEvent", type="rawKeyDown", **code)
            self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text):
        """Text into what has the focus, instead of what is selected there."""
        for character in text:
            self.send("Input.dispatchKeyEvent", type="keyDown", text=character, key=character)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=character)

    def fill(self, selector, text):
        """Type into an empty or emptied field."""
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.focus(selector)
        self.type(text)

    def choose(self, selector, value):
        """An option of a select, with the event that choosing it sends."""
        self.js(
            f"{{const s = document.querySelector({json.dumps(selector)}); s.value = {json.dumps(value)};"
            "s.dispatchEvent(new Event('change', {bubbles: true}));}"
        )

    def point(self, selector):
        """Move the mouse to the middle of an element, and say where that is."""
        box = self.js(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2];})()"
        )
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
        return box

    def click(self, selector):
        x, y = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, *, full=False):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full, **self._clip(full))
        Path(path).write_bytes(base64.b64decode(data["data"]))

    def _clip(self, full):
        if not full:
            return {}
        size = self.js("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        return {"clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}}

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def requests(self):
        """Addresses that were asked for."""
        return [e["params"]["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def complaints(self):
        """Errors and warnings of the page and its console, refused content and dialogues among them."""
        console = [e["params"] for e in self._events("Runtime.consoleAPICalled")]
        thrown = [e["params"]["exceptionDetails"] for e in self._events("Runtime.exceptionThrown")]
        logged = [e["params"]["entry"] for e in self._events("Log.entryAdded")]
        dialogues = [e["params"] for e in self._events("Page.javascriptDialogOpening")]
        return console + thrown + logged + dialogues

    def _events(self, method):
        return [e for e in self.browser.events if e["method"] == method and e.get("sessionId") == self.session]

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
