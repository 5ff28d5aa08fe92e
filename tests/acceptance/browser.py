"""Debian's Chromium, driven through WebDriver: <https://www.w3.org/TR/webdriver2/>."""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from serving import free_port, wait_for

TAB, ENTER, DOWN, UP, SPACE = "\ue004", "\ue007", "\ue015", "\ue013", " "


class Browser:
    """One headless browser with one window. Its profile is below `scratch`."""

    def __init__(self, scratch: Path) -> None:
        driver = shutil.which("chromedriver")
        assert driver, "chromedriver is not installed: run scripts/setup"
        port = free_port()
        scratch.mkdir(parents=True, exist_ok=True)
        log = scratch / "chromedriver.log"
        environment = {**os.environ, "HOME": str(scratch), "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
        with log.open("wb") as output:
            self.driver = subprocess.Popen(
                [driver, f"--port={port}"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        self.address = f"http://127.0.0.1:{port}"
        try:
            wait_for(port, self.driver, log)
            arguments = [
                *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
                *("--no-first-run", "--hide-scrollbars", "--lang=en", "--no-proxy-server"),
                f"--user-data-dir={scratch / 'profile'}",
            ]
            options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
            answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        except BaseException:
            self.driver.terminate()
            raise
        self.session = f"/session/{answer['sessionId']}"
        # The browser's own first page may be loading, and what it reports is not about ours.
        self.post("/url", url="about:blank")
        self.console()

    def ask(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json; charset=utf-8"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:2000]}") from None

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", self.session + path, body)

    def open(self, address: str) -> None:
        # A change of the fragment alone would not load the page again.
        self.post("/url", url="about:blank")
        self.post("/url", url=address)
        # Where scripts are disabled, the driver may answer before the page is there.
        end = time.monotonic() + 60
        while not self.run("return document.URL !== 'about:blank' && document.readyState === 'complete'"):
            assert time.monotonic() < end, f"{address} is not loaded"
            time.sleep(0.02)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return self.post("/execute/sync", script=script, args=list(arguments))

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's developer tools."""
        return self.post("/goog/cdp/execute", cmd=name, params=parameters)

    def type(self, *keys: str) -> None:
        """Types into whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def resize(self, width: int, height: int = 900) -> None:
        """The size of the page, which may be narrower than any window."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def console(self) -> list[str]:
        """What the page reported since the last call."""
        return [entry["message"] for entry in self.post("/se/log", type="browser")]

    def screenshot(self, path: Path) -> None:
        image = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(image))

    def close(self) -> None:
        try:
            self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(30)
