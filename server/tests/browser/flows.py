#!/usr/bin/env python3
"""Flows of the what-if page in a real browser, and how long its interactions take.

    python3 server/tests/browser/flows.py target/release/trainyard [--screenshots DIR] [--latency]

Needs Chromium and the package `playwright`; axe-core's rules are checked too where `axe-playwright-python` is there.
A server is started on a free port of this machine and stopped at the end. With --latency the sliders of models up to 175
billion parameters are moved and the times from a change to the pictures are printed.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from playwright.sync_api import expect, sync_playwright

CONFIG = {
    "model_type": "llama", "_name_or_path": "someone/tiny-llama", "num_hidden_layers": 16, "hidden_size": 2048,
    "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 2048,
}
TOKEN = "0123456789abcdef0123456789abcdef"
MARKUP = "<img src=x onerror=\"document.title='owned'\">"
# Of a change to the pictures, in milliseconds, at the 95th percentile.
LATENCY_MAX = 300


class Server:
    """A server on a free port, and where it is."""

    def __init__(self, program, *arguments):
        command = [program, "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(timeout=10) == 0, "Ctrl-C ends the server with exit code 0"


class Tab:
    """A page that notes what it must not do: fail, ask other hosts, break its own policy."""

    def __init__(self, browser, url, fragment="", **options):
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.wrong = []
        self.url = url
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self.heard)
        self.page.on("request", self.asked)
        self.page.goto(url + fragment)

    def heard(self, message):
        # Refusals are answers; the browser calls them errors.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(f"console: {message.text}")

    def asked(self, request):
        if not request.url.startswith((self.url, "blob:")):
            self.wrong.append(f"asked {request.url}")

    def settled(self, scenario="Scenario A"):
        """Waits until the newest draft of a scenario is shown."""
        part = self.scenario(scenario)
        expect(part.locator(".status")).to_contain_text("Draft", timeout=20000)
        self.page.wait_for_function("name => !document.querySelector(`[aria-label='${name}']`).classList.contains('stale')", arg=scenario, timeout=20000)

    def proved(self, scenario="Scenario A"):
        expect(self.scenario(scenario).locator(".status")).to_contain_text("Proved", timeout=60000)

    def scenario(self, name="Scenario A"):
        return self.page.locator(f"section[aria-label='{name}']")

    def field(self, label, scenario="Scenario A"):
        return self.scenario(scenario).get_by_label(f"{label}, exactly")

    def plan(self, scenario="Scenario A"):
        return self.scenario(scenario).locator(".plan").inner_text()

    def figure(self, term, scenario="Scenario A"):
        return self.scenario(scenario).locator(".figures div", has=self.page.locator(f"dt:text-is('{term}')")).locator("dd").inner_text()

    def pictures(self, scenario="Scenario A"):
        return [self.scenario(scenario).locator(f"[data-chart='{name}'] svg").inner_html() for name in ("front", "memory", "step")]

    def close(self):
        assert not self.wrong, self.wrong
        self.context.close()


def change(tab, act, scenario="Scenario A"):
    """Does something that leads to a new plan, and waits for it."""
    done = tab.page.evaluate("performance.getEntriesByName('interaction').length")
    act()
    tab.page.wait_for_function("done => performance.getEntriesByName('interaction').length > done", arg=done, timeout=20000)
    tab.settled(scenario)


def picks_a_model_and_moves_sliders(browser, url, shots):
    tab = Tab(browser, url, viewport={"width": 1400, "height": 1000})
    tab.settled()
    tab.proved()
    shots(tab, "first")
    seen = [(tab.plan(), tab.figure("Time"), tab.figure("Cost"), tab.pictures())]
    part = tab.scenario()
    steps = [
        lambda: part.get_by_role("combobox", name="Model").select_option("bert-large"),
        lambda: tab.field("Data, tokens").fill("20 B") if tab.field("Data, tokens").count() else tab.field("Data").fill("20 B"),
        lambda: part.get_by_role("radio", name="fastest").check(),
        lambda: tab.field("Budget, USD").fill("300"),
        lambda: tab.field("Budget, USD").fill("none"),
        lambda: tab.field("Instances at most").fill("3"),
        lambda: part.get_by_role("checkbox", name="p4d", exact=True).uncheck(),
        lambda: part.get_by_label("Terms").select_option("spot"),
    ]
    for act in steps:
        change(tab, act)
        seen.append((tab.plan(), tab.figure("Time"), tab.figure("Cost"), tab.pictures()))
    for before, after in zip(seen, seen[1:]):
        assert before != after, "a change is seen"
    change(tab, lambda: tab.field("Deadline").fill("2 h"))
    expect(part.locator(".missed")).to_contain_text("no plan ends within 2 h")
    shots(tab, "missed")
    tab.close()


def holds_fields_and_takes_plans_of_the_front(browser, url, shots):
    tab = Tab(browser, url, "#model=llama-2-7b&families=p4d")
    tab.settled()
    part = tab.scenario()
    choose = lambda label, value: change(tab, lambda: part.get_by_role("combobox", name=label).select_option(value))
    choose("Precision", "tf32")
    assert "tf32" in tab.plan(), tab.plan()
    choose("Tensor", "4")
    assert "tensor 4" in tab.plan(), tab.plan()
    before = tab.figure("Step")
    change(tab, lambda: tab.field("Tokens of a sample").fill("512"))
    assert tab.figure("Step") != before
    change(tab, lambda: tab.field("Instances at most").fill("3"))
    change(tab, lambda: part.get_by_label("exactly as many").check())
    assert tab.plan().startswith("3 ×"), tab.plan()
    link = tab.page.wait_for_function("() => location.hash.includes('exactly') && location.href").json_value()
    field = tab.field("Instances at most")
    field.fill("many")
    expect(part.locator(".wrong:visible")).to_have_text("Write a whole number of machines such as 16.")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("4")
    expect(part.locator(".wrong:visible")).to_have_count(0)
    tab.settled()
    for box in part.locator("[data-part=families] input:checked").all():
        box.uncheck()
    expect(part.locator(".problem")).to_have_text("No machines are chosen. Choose at least one family under Machines.")
    tab.close()
    other = Tab(browser, url, link.removeprefix(url))
    other.settled()
    assert other.plan().startswith("3 ×") and "tensor 4" in other.plan(), other.plan()
    other.close()
    front = Tab(browser, url, "#model=bert-large")
    front.settled()
    front.proved()
    dot = front.scenario().locator(".dot").last
    dot.hover()
    machines = dot.get_attribute("aria-label").split(",")[0]
    expect(front.scenario().locator(".preview")).to_contain_text(machines)
    shots(front, "preview")
    dot.press("Enter")
    expect(front.scenario().locator(".status")).to_contain_text("Opened from the front")
    assert front.plan().startswith(machines), front.plan()
    assert "`" not in front.scenario().inner_text()
    front.close()


def presses_the_nearest_plan_of_the_front(browser, url, shots):
    """Plans on demand and reserved are so near to each other that both are in reach of one press."""
    for options in ({}, {"has_touch": True, "viewport": {"width": 390, "height": 844}}):
        tab = Tab(browser, url, **options)
        tab.settled()
        tab.proved()
        expect(tab.scenario().locator("[data-list=reasons] h3")).to_have_text("Why this plan")
        expect(tab.scenario().locator(".status")).not_to_contain_text("goal")
        expect(tab.scenario().locator("[data-part=left-out]")).to_contain_text("Not considered: g5")
        dot = tab.scenario().locator(".dot[aria-label*='on-demand']").first
        dot.evaluate("dot => dot.scrollIntoView({ block: 'center' })")
        box = dot.locator("circle").last.bounding_box()
        place = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 3)
        press = tab.page.touchscreen.tap if options else tab.page.mouse.click
        press(*place)
        expect(tab.scenario().locator(".status")).to_contain_text("Opened from the front, on-demand")
        assert tab.plan().startswith(dot.get_attribute("aria-label").split(",")[0]), tab.plan()
        expect(tab.scenario().locator("[data-list=reasons] h3")).to_contain_text("Why the recommended plan (")
        expect(tab.scenario().locator("[data-list=warnings] h3")).to_contain_text("the recommended plan (")
        shots(tab, "taken")
        with tab.page.expect_download() as download:
            tab.page.get_by_role("button", name="Save plan").click()
        assert json.loads(download.value.path().read_text())["reasons"] == [], "they are not those of the saved plan"
        tab.close()


def is_used_with_the_keyboard_alone(browser, url, shots):
    tab = Tab(browser, url, "#model=bert-large")
    tab.settled()
    page = tab.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#scenarios")).to_be_focused()
    assert page.evaluate("location.hash") == "#model=bert-large", "the scenario stays"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-valuetext')"):
            break
    slider = page.evaluate("document.activeElement.labels[0].textContent")
    assert slider.startswith("Data"), slider
    before = page.evaluate("document.activeElement.getAttribute('aria-valuetext')")
    change(tab, lambda: page.keyboard.press("ArrowRight"))
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") != before
    for slider in tab.scenario().locator("input[type=range]").all():
        for key in ("ArrowRight", "ArrowLeft"):
            end = slider.evaluate("(one, key) => one.value === (key === 'ArrowRight' ? one.max : one.min)", key)
            slider.focus()
            before = slider.get_attribute("aria-valuetext")
            for _ in range(20):
                page.keyboard.press(key)
            assert end or slider.get_attribute("aria-valuetext") != before, f"{slider.get_attribute('id')} is stuck at {before}"
    # Samples as the model has them: of others no plan may fit.
    tab.scenario().get_by_label("Tokens of a sample", exact=True).press("End")
    tab.settled()
    shots(tab, "keyboard")
    unnamed = page.evaluate("""() => [...document.querySelectorAll('button, input:not([hidden]), select, svg')]
        .filter((one) => one.checkVisibility() && !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
        .map((one) => one.outerHTML)""")
    assert not unnamed, unnamed
    tab.close()


def reads_a_configuration(browser, url, shots):
    tab = Tab(browser, url)
    tab.settled()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "config.json")
        path.write_text(json.dumps(CONFIG))
        change(tab, lambda: drop(tab.page, path.name, path.read_text()))
        assert "1 x" not in tab.plan()
        expect(tab.scenario().locator("[data-part='model-about']")).to_contain_text("llama")
        expect(tab.page.locator("#notice")).to_have_text("Opened config.json.")
        shots(tab, "config")
        unknown = pathlib.Path(folder, "unknown.json")
        unknown.write_text(json.dumps({"model_type": MARKUP}))
        tab.page.locator("#file").set_input_files(unknown)
        expect(tab.page.locator("#notice")).to_contain_text(f"the model type {MARKUP.lower()} is not known")
        large = pathlib.Path(folder, "large.json")
        large.write_text(" " * (50 << 20))
        tab.page.locator("#file").set_input_files(large)
        expect(tab.page.locator("#notice")).to_contain_text("large.json is 50 MiB")
    link = tab.page.evaluate("location.href")
    tab.close()
    # A link holds the configuration too.
    other = Tab(browser, url, link.removeprefix(url))
    other.settled()
    expect(other.scenario().locator("[data-part='model-about']")).to_contain_text("llama")
    other.close()


def drop(page, name, text):
    transfer = page.evaluate_handle(
        "([name, text]) => { const transfer = new DataTransfer(); transfer.items.add(new File([text], name)); return transfer; }", [name, text])
    page.dispatch_event(".inputs", "drop", {"dataTransfer": transfer})


def compares_two_scenarios(browser, url, shots):
    tab = Tab(browser, url, viewport={"width": 1500, "height": 1100})
    tab.settled()
    change(tab, lambda: tab.page.get_by_role("button", name="Compare").click(), "Scenario B")
    second = tab.scenario("Scenario B")
    change(tab, lambda: second.get_by_label("Terms").select_option("spot"), "Scenario B")
    table = tab.page.locator("#comparison-table")
    expect(table.locator("tr", has_text="Cost").locator("td").nth(2)).to_contain_text("−")
    expect(tab.page.locator("#comparison-words")).to_contain_text("cheaper than A")
    expect(tab.page.locator("#comparison-words")).to_contain_text("B asks for terms spot instead of on-demand")
    expect(table.locator("tr", has_text="Asked: terms").locator("td").nth(1)).to_have_text("spot")
    tab.proved("Scenario A")
    tab.proved("Scenario B")
    shots(tab, "compare")
    link = tab.page.evaluate("location.href")
    other = Tab(browser, url, link.removeprefix(url), viewport={"width": 420, "height": 900})
    other.settled("Scenario B")
    assert other.plan("Scenario B") and other.scenario("Scenario B").get_by_label("Terms").input_value() == "spot"
    wide = other.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels too wide for a phone"
    expect(other.scenario().locator(".pinned")).to_be_visible()
    expect(other.scenario().locator(".pinned")).to_contain_text(" USD")
    shots(other, "phone")
    other.close()
    second.get_by_label("Terms").select_option("on-demand")
    tab.page.wait_for_timeout(30)
    tab.page.get_by_role("button", name="Close the second").click()
    expect(tab.page.locator("section.scenario")).to_have_count(1)
    expect(tab.scenario().locator(".results")).to_have_attribute("aria-busy", "false")
    tab.close()


def saves_and_opens_a_plan(browser, url, shots, program):
    tab = Tab(browser, url)
    tab.settled()
    change(tab, lambda: tab.field("Deadline").fill("5 d"))
    tab.proved()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Save plan").click()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "plan.json")
        download.value.save_as(path)
        simulated = subprocess.run([program, "simulate", path], capture_output=True, text=True)
        assert simulated.returncode == 0, simulated.stderr
        other = Tab(browser, url)
        other.settled()
        other.page.locator("#file").set_input_files(path)
        expect(other.scenario().locator(".status")).to_contain_text("Opened plan.json")
        assert other.plan() == tab.plan()
        assert other.field("Deadline").input_value() == "5 d"
        shots(other, "opened")
        path.write_text(path.read_text().replace('"trainyard.plan/1"', '"trainyard.plan/9"'))
        other.page.locator("#file").set_input_files(path)
        expect(other.page.locator("#notice")).to_contain_text("trainyard.plan/9")
        expect(other.scenario().locator(".results")).to_have_attribute("aria-busy", "false")
        other.close()
    tab.close()


def changes_an_opened_plan(browser, url, shots, program):
    """What the page has no field for stays as it was, also in the link."""
    job = ["--model", "gpt2", "--samples", "1000000", "--global-batch", "64", "--instances", "p3.8xlarge", "--max-instances", "2"]
    planned = subprocess.run([program, "plan", *job, "-q", "--format", "json"], check=True, capture_output=True, text=True)
    tab = Tab(browser, url)
    tab.settled()
    drop(tab.page, "mine.json", planned.stdout)
    expect(tab.page.locator("#notice")).to_contain_text("stays as the plan's job has it: cluster.instances")
    assert tab.field("Data, tokens").input_value() == "1.024 B"
    shots(tab, "kept")
    change(tab, lambda: tab.field("Deadline").fill("90 d"))
    assert "p3.8xlarge" in tab.plan(), tab.plan()
    tab.page.wait_for_function("() => location.hash.includes('deadline')")
    link = tab.page.evaluate("location.href")
    tab.close()
    other = Tab(browser, url, link.removeprefix(url))
    other.settled()
    assert "p3.8xlarge" in other.plan(), other.plan()
    other.close()


def opens_what_is_kept(browser, shots, program):
    with tempfile.TemporaryDirectory() as folder:
        history = str(pathlib.Path(folder) / "history.db")
        job = ["--model", "gpt2", "--tokens", "1e9", "--global-batch", "64", "--instances", "p3.*", "--max-instances", "2"]
        subprocess.run([program, "plan", *job, "-q", "--history", history], check=True, stdout=subprocess.DEVNULL)
        with Server(program, "--history", history) as server:
            tab = Tab(browser, server.url)
            tab.settled()
            button = tab.page.get_by_role("button", name="History", exact=True)
            expect(button).to_have_attribute("aria-expanded", "false")
            button.press("Enter")
            expect(tab.page.locator("#history-table tbody tr")).to_have_count(1)
            expect(button).to_have_attribute("aria-expanded", "true")
            shots(tab, "history")
            tab.page.locator("#history-table").get_by_role("button").press("Enter")
            expect(tab.scenario().locator(".status")).to_contain_text("Opened")
            expect(tab.scenario().locator("select[data-field=model]")).to_have_value("gpt2")
            button.press("Enter")
            expect(tab.page.locator("#history")).to_be_hidden()
            tab.close()


def shares_a_scenario_as_a_link(browser, url, shots):
    fragment = "#model=llama-2-7b&deadline=604800&families=p4d,p5&instances=8&objective=time"
    tab = Tab(browser, url, fragment, color_scheme="dark")
    tab.settled()
    part = tab.scenario()
    assert part.get_by_role("combobox", name="Model").input_value() == "llama-2-7b"
    assert tab.field("Deadline").input_value() == "7 d"
    assert part.get_by_role("radio", name="fastest").is_checked()
    tab.proved()
    shots(tab, "dark")
    tab.close()
    hostile = Tab(browser, url, "#model=" + MARKUP.replace("=", "%3D") + "&instances=1e99&batch=-1&families=%3Cb%3E&config=%7B%22a")
    expect(hostile.scenario().locator(".problem")).to_be_visible()
    assert hostile.page.title() == "Trainyard: what if" and hostile.page.locator("img").count() == 0
    shots(hostile, "hostile")
    hostile.close()


def downloads_launch_files(browser, url, shots):
    """Against a server whose catalogs are made to have a target, so that the flow is tested whatever targets there are."""
    tab = Tab(browser, "about:blank")
    tab.url = url

    def catalogs(route):
        answer = route.fetch().json()
        answer["exports"] = [{"name": "other", "title": "another"}, {"name": "script", "title": "a <script>"}]
        route.fulfill(json=answer)

    tab.page.route("**/api/v1/catalogs", catalogs)
    tab.page.route("**/api/v1/export/script", lambda route: route.fulfill(json={"target": "script", "files": [{"name": "launch.sh", "content": "run\n"}]}))
    tab.page.route("**/api/v1/export/other", lambda route: route.fulfill(status=422, json={"status": 422, "type": "bad-input", "detail": "it does not start this"}))
    tab.page.goto(url)
    tab.settled()
    tab.proved()
    tab.page.get_by_role("button", name="Download").click()
    expect(tab.scenario().locator(".problem")).to_have_text("it does not start this")
    tab.scenario().get_by_label("Launch files for").select_option("script")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "launch.sh"
    expect(tab.scenario().locator(".problem")).to_be_hidden()
    tab.close()


def asks_for_the_token(browser, program, shots):
    with Server(program, "--token", TOKEN) as server:
        tab = Tab(browser, server.url)
        field = tab.page.locator("#token-dialog input")
        expect(tab.page.locator("#token-wrong")).to_be_hidden()
        # What cannot stand in a header is not sent.
        field.fill("\u0442\u043e\u043a\u0435\u043d")
        field.press("Enter")
        expect(field).to_be_visible()
        field.fill("wrong")
        shots(tab, "token")
        field.press("Enter")
        expect(tab.page.locator("#token-wrong")).to_be_visible()
        field.fill(TOKEN)
        field.press("Enter")
        tab.settled()
        tab.close()


def shows_what_counts(browser, url, shots):
    """A field says exactly what is asked, and refuses what may be read in two ways."""
    tab = Tab(browser, url)
    tab.settled()
    asked = []
    tab.page.on("request", lambda request: request.post_data and asked.append(json.loads(request.post_data)))
    for label, text, shown in [
        ("Deadline", "1 d 6 h 30 min", "1 d 6 h 30 min"), ("Deadline", "2 weeks", "14 d"), ("Deadline", "1_000 h", "41 d 16 h"),
        ("Budget, USD", "1234567", "1,234,567"), ("Budget, USD", "12,345", "12.345 K"), ("Data, tokens", "1.5e9", "1.5 B"),
    ]:
        field = tab.field(label)
        change(tab, lambda field=field, text=text: field.fill(text))
        field.blur()
        assert field.input_value() == shown, (label, text, field.input_value())
    job = asked[-1]["job"]
    assert job["goal"] == {"objective": "cost", "deadline": "41 d 16 h", "budget": 12345} and job["data"] == {"tokens": 1.5e9}, job
    for label, text in [
        ("Data, tokens", "1,5 B"), ("Data, tokens", "0.5"), ("Budget, USD", "5.000"), ("Budget, USD", "1 2 3"),
        ("Instances at most", "1.5"), ("Deadline", "1m"), ("Deadline", "50 min 10 h"),
    ]:
        field = tab.field(label)
        before = field.input_value()
        field.fill(text)
        expect(field).to_have_attribute("aria-invalid", "true")
        field.fill(before)
        expect(field).to_have_attribute("aria-invalid", "false")
    tab.settled()
    tab.page.emulate_media(media="print")
    expect(tab.scenario().locator(".asked")).to_contain_text("deadline: 41 d 16 h; budget: 12.345 K USD")
    shots(tab, "print")
    tab.close()


def tries_again(browser, url, shots):
    """What fails for now wipes nothing that is still so, and can be tried again."""
    tab = Tab(browser, url)
    tab.settled()
    tab.proved()
    part, page = tab.scenario(), tab.page
    plan = tab.plan()
    page.route("**/api/v1/simulate", lambda route: route.abort())
    part.locator(".dot").first.press("Enter")
    expect(part.locator(".problem")).to_contain_text("the server does not answer")
    assert tab.plan() == plan
    shots(tab, "again")
    page.unroute("**/api/v1/simulate")
    part.get_by_role("button", name="Try again").click()
    expect(part.locator(".status")).to_contain_text("Opened from the front")
    expect(part.locator(".problem")).to_be_hidden()
    busy = {"status": 503, "type": "busy", "detail": "too many requests wait for a search"}
    fails = {"proof"}
    page.route("**/api/v1/plan", lambda route: route.fulfill(status=503, json=busy) if route.request.post_data_json["effort"] in fails else route.fallback())
    change(tab, lambda: tab.field("Deadline").fill("20 d"))
    expect(page.locator("#notice")).to_contain_text("No proof for Scenario A: too many requests wait")
    fails.clear()
    page.locator("#notice").get_by_role("button", name="Try again").click()
    tab.proved()
    expect(page.locator("#notice")).to_be_empty()
    fails.add("draft")
    tab.field("Deadline").fill("21 d")
    expect(part.locator(".problem")).to_contain_text("too many requests wait")
    fails.clear()
    part.get_by_role("button", name="Try again").click()
    tab.proved()
    tab.close()


def keeps_the_rules_of_accessibility(browser, url):
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        print("axe-playwright-python is not there: its rules were not checked")
        return
    for scheme in ("light", "dark"):
        tab = Tab(browser, url, "#compare=1", bypass_csp=True, color_scheme=scheme)
        tab.settled("Scenario B")
        tab.page.get_by_role("button", name="History", exact=True).click()
        expect(tab.page.locator("#history caption")).to_be_visible()
        keeps_them(Axe(), tab)
        tab.close()
    alone = Tab(browser, url, "#model=llama-2-7b&method=lora&amount=1e8", bypass_csp=True, viewport={"width": 390, "height": 844})
    alone.settled()
    alone.proved()
    keeps_them(Axe(), alone)
    alone.close()


def keeps_them(rules, tab):
    tab.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = rules.run(tab.page).response["violations"]
    assert not found, json.dumps([(one["id"], one["help"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found], indent=1)


MODELS = ["gpt2", "gpt2-xl", "bert-large", "resnet50", "llama-2-7b", "gpt3-13b", "llama-2-70b", "gpt3-175b"]
CHANGES = [
    ("amount", "Data", ["2e9", "5e9", "2e10", "1e11", "3e11"]),
    ("batch", "Global batch, samples a step", ["64", "128", "256", "1024", "1536"]),
    ("deadline", "Deadline", ["3 d", "10 d", "30 d", "100 d", "none"]),
    ("budget", "Budget, USD", ["1e4", "1e5", "1e6", "1e7", "none"]),
    ("instances", "Instances at most", ["4", "8", "12", "16", "32", "64", "128"]),
]


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measures_interactions(browser, url):
    """Every value once, so that no answer is one that was kept."""
    everything = []
    for model in MODELS:
        tab = Tab(browser, url, f"#model={model}")
        expect(tab.scenario().locator(".status")).not_to_be_empty(timeout=30000)
        tab.page.wait_for_timeout(300)
        own = []
        for _, label, values in CHANGES:
            label = "Data, tokens" if label == "Data" and model != "resnet50" else "Data, samples" if label == "Data" else label
            for value in values:
                done = tab.page.evaluate("performance.getEntriesByName('interaction').length")
                tab.page.evaluate(
                    """([label, value]) => {
                        const field = document.querySelector(`[aria-label="${label}, exactly"]`);
                        field.value = value;
                        field.dispatchEvent(new Event("input"));
                    }""", [label, value])
                tab.page.wait_for_function("done => performance.getEntriesByName('interaction').length > done", arg=done, timeout=60000)
                took = tab.page.evaluate("performance.getEntriesByName('interaction').at(-1).duration")
                own.append((took, f"{label} {value}"))
        times = [took for took, _ in own]
        slowest = max(own)
        print(f"{model:<12} {len(own):>3} changes  median {quantile(times, 0.5):6.0f} ms  p95 {quantile(times, 0.95):6.0f} ms  slowest {slowest[0]:6.0f} ms ({slowest[1]})")
        everything += times
        tab.close()
    p95 = quantile(everything, 0.95)
    print(f"{'all':<12} {len(everything):>3} changes  median {quantile(everything, 0.5):6.0f} ms  p95 {p95:6.0f} ms  slowest {max(everything):6.0f} ms")
    return p95


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    # Only the flow that shows a history has one.
    os.environ["TRAINYARD_HISTORY"] = "off"
    chromium = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)

    def shots(tab, name):
        if arguments.screenshots:
            arguments.screenshots.mkdir(parents=True, exist_ok=True)
            tab.page.screenshot(path=arguments.screenshots / f"{name}.png", full_page=True)

    with sync_playwright() as playwright, Server(arguments.program) as server:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if arguments.latency:
            p95 = measures_interactions(browser, server.url)
            browser.close()
            sys.exit(0 if p95 <= LATENCY_MAX else f"p95 is {p95:.0f} ms, but at most {LATENCY_MAX} ms are wanted")
        flows = {
            "picks a model and moves sliders": lambda: picks_a_model_and_moves_sliders(browser, server.url, shots),
            "holds fields and takes plans of the front": lambda: holds_fields_and_takes_plans_of_the_front(browser, server.url, shots),
            "presses the nearest plan of the front": lambda: presses_the_nearest_plan_of_the_front(browser, server.url, shots),
            "is used with the keyboard alone": lambda: is_used_with_the_keyboard_alone(browser, server.url, shots),
            "reads a configuration": lambda: reads_a_configuration(browser, server.url, shots),
            "compares two scenarios": lambda: compares_two_scenarios(browser, server.url, shots),
            "saves and opens a plan": lambda: saves_and_opens_a_plan(browser, server.url, shots, arguments.program),
            "changes an opened plan": lambda: changes_an_opened_plan(browser, server.url, shots, arguments.program),
            "opens what is kept": lambda: opens_what_is_kept(browser, shots, arguments.program),
            "shares a scenario as a link": lambda: shares_a_scenario_as_a_link(browser, server.url, shots),
            "downloads launch files": lambda: downloads_launch_files(browser, server.url, shots),
            "shows what counts": lambda: shows_what_counts(browser, server.url, shots),
            "tries again": lambda: tries_again(browser, server.url, shots),
            "asks for the token": lambda: asks_for_the_token(browser, arguments.program, shots),
            "keeps the rules of accessibility": lambda: keeps_the_rules_of_accessibility(browser, server.url),
        }
        for name, flow in flows.items():
            if arguments.only in name:
                flow()
                print(f"ok  {name}")
        browser.close()


if __name__ == "__main__":
    main()
