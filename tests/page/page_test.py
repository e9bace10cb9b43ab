"""The page at / and what it asks for: by itself, and in a real browser where there is Chromium."""

import json
import pathlib
import re
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "server"), str(TESTS / "cli")]
from browser import Browser, find_chromium  # noqa: E402
from kv8_cli import calibrated  # noqa: E402
from kv8_server import PROMPT, Client, Server, ServerTestCase, completion, request  # noqa: E402

CHROMIUM = find_chromium()
LIVE = "document.getElementById('live').textContent === 'live'"
ANSWERED = "document.querySelector('.turn.assistant') && !document.querySelector('.busy')"

# Answers chats with these events, one byte at a time, whatever is asked.
FAKE_ANSWER = """
const real = window.fetch;
window.fetch = (path, options) => {
  if (!path.endsWith("/chat/completions")) return real(path, options);
  const bytes = new TextEncoder().encode(EVENTS);
  let at = 0;
  const body = new ReadableStream({
    pull(to) { at < bytes.length ? to.enqueue(bytes.slice(at, ++at)) : to.close(); } });
  return Promise.resolve(new Response(body));
};
"""
# Lets the model write until max_tokens.
ENDLESS = """
const real = window.fetch;
window.fetch = (path, options = {}) => {
  if (!options.body) return real(path, options);
  const body = JSON.stringify({ ...JSON.parse(options.body), ignore_eos: true });
  return real(path, { ...options, body });
};
"""
# Keeps every length that the answer had.
WATCH_LENGTHS = """
window.lengths = new Set();
new MutationObserver(() => {
  const text = document.querySelector(".turn.assistant .text");
  if (text) window.lengths.add(text.textContent.length);
}).observe(document.getElementById("log"), { subtree: true, childList: true, characterData: true });
"""


def run_in(page, script):
    page.evaluate(f"(() => {{ {script} }})()")


def fill(page, field, value):
    """Puts a value into a settings field."""
    page.evaluate(f"document.getElementById({json.dumps(field)}).value = {json.dumps(str(value))}")


def say(page, text):
    page.click("#message")
    page.type(text)
    page.press("Enter")


class StateTestCase(ServerTestCase):
    def state(self):
        status, headers, body = self.ask(request("GET", "/kv8/state"))
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        return json.loads(body)

    def wait_until_idle(self):
        # An open page keeps its connections.
        self.wait_until(lambda: self.state()["requests"]["running"] == 0, "requests run on")

    def pages(self):
        """The holders of every page."""
        self.wait_until(lambda: self.state()["pool"], "nobody maps the pools")
        pool = self.state()["pool"]
        numbers, lengths = pool["runs"][::2], pool["runs"][1::2]
        return [pool["holders"][n] for n, length in zip(numbers, lengths) for _ in range(length)]


class WithoutBrowser(StateTestCase):
    def test_the_map_adds_up(self):
        clients = [self.client() for _ in range(2)]
        for client in clients:  # the second finds the first's pages
            client.send(completion(3000, stream=True, prompt=PROMPT * 30)).until(b"data: ")

        def shared():
            return [page for page in self.pages() if len(page["requests"]) == 2]

        self.wait_until(shared, "nothing is shared")
        self.assertGreaterEqual(shared()[0]["count"], 2)
        for client in clients:
            client.close()
        self.assert_idle_and_well()
        self.wait_until_idle()
        cache = self.state()["kv_cache"]
        pages = self.pages()
        self.assertEqual(len(pages), cache["pages"])
        self.assertEqual(sum(b["count"] == 0 for b in pages), cache["free"])
        self.assertEqual(sum(b["cached"] for b in pages), cache["cached"])
        self.assertEqual([b for b in pages if b["requests"]], [])

    def test_time_goes_on_while_nothing_runs(self):
        before = self.state()
        after = self.state()
        self.assertGreater(after["time"], before["time"])
        self.assertEqual(after["tokens"], before["tokens"])

    def test_only_the_state_asks_for_a_key(self):
        server = Server("--log-level", "warning", "--api-key", "right-key")
        self.addCleanup(server.kill)
        for path, status in (("/", 200), ("/kv8/state", 401)):
            with Client(server.port) as client:
                self.assertEqual(client.send(request("GET", path)).answer()[0], status)

    def test_headers_bind_the_page_to_this_server(self):
        status, headers, body = self.ask(request("GET", "/"))
        self.assertEqual((status, headers["content-type"]), (200, "text/html; charset=utf-8"))
        policy = headers["content-security-policy"]
        self.assertTrue(policy.startswith("default-src 'none'; script-src 'sha256-"), policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotRegex(policy, r"https?:|\*")
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertEqual(headers["referrer-policy"], "no-referrer")
        self.assertTrue(body.rstrip().endswith(b"</html>"))


class Browsing(unittest.TestCase):
    """A browser for all tests of a class, a new page for each."""

    @classmethod
    def setUpClass(cls):
        if CHROMIUM is None:
            raise unittest.SkipTest("needs Chromium: scripts/setup.sh --browser, or KV8_CHROMIUM")
        super().setUpClass()
        cls.browser = Browser(CHROMIUM)
        cls.addClassCleanup(cls.browser.close)

    def open(self, server, width=1280, height=800):
        page = self.browser.page(width, height)
        self.addCleanup(page.close)
        self.addCleanup(self.check_manners, page, server)
        page.open(server.about["url"] + "/")
        return page

    def check_manners(self, page, server):
        """No script failed, nothing broke the policy, nobody else was asked."""
        page.pass_time(0.1)
        self.assertEqual(page.problems, [])
        for url in page.requests:
            self.assertTrue(url.startswith((server.about["url"] + "/", "data:")), url)


class PageTest(Browsing, StateTestCase):
    @classmethod
    def setUpClass(cls):
        if CHROMIUM is not None:
            pack = str(calibrated().pack)
            cls.flags = ("--kv-cache-dtype", "fp8_e4m3", "--scale-pack", pack)
            cls.flags += ("--speculative-tokens", "3")
        super().setUpClass()

    def chat(self, **body):
        body["model"] = self.server.about["model"]
        status, _, answer = self.ask(request("POST", "/v1/chat/completions", body))
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["choices"][0]["message"]

    def test_a_message_is_answered_piece_by_piece(self):
        page = self.open(self.server)
        run_in(page, WATCH_LENGTHS + ENDLESS)
        fill(page, "temperature", 0)
        fill(page, "max-tokens", 60)
        fill(page, "system", "You answer briefly.")
        question = "Where do the ships from Łódź go? 你好"
        say(page, question)
        page.wait_for(ANSWERED)
        messages = [
            {"role": "system", "content": "You answer briefly."},
            {"role": "user", "content": question},
        ]
        fields = {"temperature": 0, "max_tokens": 60, "ignore_eos": True}
        expected = self.chat(messages=messages, **fields)
        self.assertEqual(page.text(".turn.user .text"), question)
        self.assertEqual(page.text(".turn.assistant .content"), expected["content"])
        self.assertEqual(page.text(".reasoning .text"), expected.get("reasoning_content", ""))
        self.assertGreater(page.evaluate("window.lengths.size"), 5)
        self.assertRegex(page.text(".foot"), r"\d+ tokens? .*first token \d+ ms")

        # The next message has the conversation before it.
        say(page, "And then?")
        page.wait_for(f"document.querySelectorAll('.turn').length === 4 && {ANSWERED}")
        messages += [{"role": "assistant", **expected}, {"role": "user", "content": "And then?"}]
        expected = self.chat(messages=messages, **fields)
        self.assertEqual(page.text(".turn.assistant .content"), expected["content"])

    def test_characters_may_come_in_pieces_and_text_stays_text(self):
        evil = '<img src="x" onerror="window.hacked = 1">'
        deltas = [
            {"role": "assistant", "reasoning_content": "Grüße, " + evil},
            {"content": "你好 🚢 "},
            {"content": evil},
        ]
        for call in (
            {"id": "c1", "function": {"name": "load", "arguments": ""}},
            {"function": {"arguments": '{"ship":'}},
            {"function": {"arguments": '"<b>Łódź</b>"}'}},
        ):
            deltas.append({"tool_calls": [{"index": 0, **call}]})
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        lines = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks] + ["[DONE]"]
        events = "".join(f"data: {line}\r\n\r\n" for line in lines)
        page = self.open(self.server)
        run_in(page, FAKE_ANSWER.replace("EVENTS", json.dumps(events)))
        say(page, evil)
        page.wait_for(ANSWERED)
        self.assertEqual(page.text(".turn.user .text"), evil)
        self.assertEqual(page.text(".reasoning .text"), "Grüße, " + evil)
        self.assertEqual(page.text(".content"), "你好 🚢 " + evil)
        self.assertEqual(page.text(".call .name"), "calls load")
        self.assertEqual(json.loads(page.text(".call pre")), {"ship": "<b>Łódź</b>"})
        self.assertIn("tool call", page.text(".foot"))
        self.assertEqual(page.evaluate("document.images.length"), 0)
        self.assertEqual(page.evaluate("typeof window.hacked"), "undefined")
        # Even a mistake in the script could not turn text into markup.
        with self.assertRaisesRegex(AssertionError, "TrustedHTML"):
            page.evaluate("document.body.innerHTML = 'x'")
        page.problems.clear()  # Chromium reports the attempt

    def test_stop_ends_the_request_and_keeps_what_came(self):
        page = self.open(self.server)
        run_in(page, ENDLESS)
        fill(page, "max-tokens", 3500)
        say(page, "Tell me a long story.")
        page.wait_for("document.querySelector('.turn.assistant .text')?.textContent.length > 50")
        page.click("#stop")
        page.wait_for(ANSWERED)
        self.assertIn("stopped", page.text(".foot"))
        text = page.text(".turn.assistant .text")
        self.wait_until_idle()
        self.assertEqual(page.text(".turn.assistant .text"), text)
        self.assertTrue(page.evaluate("document.getElementById('stop').hidden"))

    def test_errors_are_told_and_the_message_is_not_lost(self):
        page = self.open(self.server)
        fill(page, "tools", '{"not": "an array"}')
        say(page, "Hello")
        page.wait_for("document.querySelector('#log .error[role=alert]') !== null")
        self.assertIn("tools", page.text("#log .error"))
        self.assertEqual(page.evaluate("document.getElementById('message').value"), "Hello")
        fill(page, "tools", "[")
        page.click("#send")
        page.wait_for("document.querySelectorAll('#log .error').length === 2")
        self.assertIn("not JSON", page.text("#log .error"))
        fill(page, "tools", "")
        fill(page, "temperature", 9)
        page.click("#send")
        page.wait_for("document.querySelectorAll('#log .error').length === 3")
        self.assertIn("Temperature", page.text("#log .error"))
        self.assertEqual(page.evaluate("document.querySelectorAll('.turn').length"), 0)

    def test_the_pool_shows_who_holds_what(self):
        page = self.open(self.server)
        page.wait_for(LIVE)
        free = page.evaluate("document.getElementById('pool').toDataURL()")
        clients = []
        for _ in range(2):  # the second finds the first's pages
            client = self.client()
            client.send(completion(3000, stream=True, prompt=PROMPT * 30)).until(b"data: ")
            clients.append(client)
        pair = r"/request (\d+), request (\d+)/.exec(document.getElementById('groups').textContent)"
        both = page.wait_for(pair)[1:]
        holders = [h for h in self.state()["pool"]["holders"] if len(h["requests"]) == 2]
        self.assertEqual([str(id) for id in holders[0]["requests"]], both)
        self.assertNotEqual(page.evaluate("document.getElementById('pool').toDataURL()"), free)
        legend = page.text("#legend")
        for number in both:
            self.assertRegex(legend, rf"request {number}: \d+, \d+ shared")

        shared = [len(page["requests"]) for page in self.pages()].index(2)
        page.evaluate("document.getElementById('pool').focus()")
        for _ in range(shared + 1):  # the first press chooses page 0
            page.press("ArrowRight")
        self.assertRegex(page.text("#readout"), rf"^Page {shared}: request {both[0]}, .* holders$")
        page.move_to("#pool", 0.001, 0.001)
        self.assertRegex(page.text("#readout"), "^Page 0: ")

        for client in clients:
            client.close()
        page.wait_for("!document.getElementById('legend').textContent.includes('request')")
        self.wait_until_idle()

    def test_figures_are_those_of_the_engine(self):
        page = self.open(self.server)
        self.assertEqual(self.ask(completion(120))[0], 200)
        self.wait_until_idle()
        state = self.state()
        done = sum(state["requests"][how] for how in ("stopped", "length", "cancelled", "failed"))
        page.wait_for(f"document.getElementById('finished').textContent === '{done}'")
        self.assertIn(state["kv_cache"]["scale_pack"], page.text("#pack"))
        self.assertEqual(page.evaluate("document.querySelectorAll('#scales tbody tr').length"), 4)
        for layer, row in enumerate(state["kv_cache"]["layers"]):
            shown = f"document.querySelectorAll('#scales tbody tr')[{layer}].cells"
            cells = page.evaluate(f"[...{shown}].map(cell => cell.textContent)")
            self.assertEqual(cells[0], f"{row['layer']}{' draft' if row['draft'] else ''}")
            for at, side in ((1, "k"), (4, "v")):
                self.assertAlmostEqual(float(cells[at]) / row[f"{side}_scale"], 1, delta=0.005)
                self.assertEqual(int(cells[at + 2].replace(",", "")), row[f"saturated_{side}"])
        speculation = state["speculation"]
        self.assertEqual(page.evaluate("document.querySelectorAll('#positions tr').length"), 3)
        pairs = zip(speculation["accepted_at"], speculation["drafted_at"], strict=True)
        for at, (accepted, drafted) in enumerate(pairs):
            text = page.evaluate(f"document.querySelectorAll('#positions tr')[{at}].textContent")
            self.assertIn(f"{accepted:,} of {drafted:,}", text)

    def test_throughput_moves_with_the_work(self):
        page = self.open(self.server)
        page.wait_for(LIVE)
        client = self.client()
        client.send(completion(3500, stream=True)).until(b"data: ")
        page.wait_for("document.getElementById('running').textContent === '1'")
        page.wait_for("parseFloat(document.getElementById('generated-rate').textContent) > 0")
        client.close()
        page.wait_for("document.getElementById('generated-rate').textContent === '0'")

    def test_a_hidden_page_asks_for_nothing(self):
        page = self.open(self.server)
        page.wait_for(LIVE)
        change = "document.dispatchEvent(new Event('visibilitychange'))"
        for hidden in ("true", "false"):
            how = f"{{ configurable: true, value: {hidden} }}"
            run_in(page, f"Object.defineProperty(document, 'hidden', {how}); {change};")
            page.pass_time(0.3)  # for what is under way
            before = len(page.requests)
            page.pass_time(1.5)
            asked = len(page.requests) - before
            if hidden == "true":
                self.assertEqual(asked, 0)
                self.assertEqual(page.text("#live"), "paused")
            else:
                self.assertGreater(asked, 0)

    def test_fits_a_phone(self):
        page = self.open(self.server)
        page.resize(360, 740, mobile=True)
        for view in ("chat", "engine"):
            page.click(f"nav button[data-view={view}]")
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360, view)
            wide = page.evaluate(
                "[...document.querySelectorAll('.panel, #composer, header')]"
                ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
            )
            self.assertEqual(wide, [], view)
        page.click("nav button[data-view=chat]")
        fill(page, "max-tokens", 5)
        say(page, "Hi")
        page.wait_for(ANSWERED)

    def test_every_control_has_a_name(self):
        page = self.open(self.server)
        page.evaluate("document.getElementById('settings').open = true")
        page.call("Accessibility.enable")
        roles = {"button", "textbox", "spinbutton", "checkbox", "dialog", "image", "log", "table"}
        seen = set()
        for node in page.call("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if node.get("ignored") or role not in roles:
                continue
            seen.add(role)
            self.assertTrue(node.get("name", {}).get("value"), node)
        self.assertLessEqual({"button", "textbox", "spinbutton", "checkbox", "log"}, seen)


class PageWithKey(Browsing):
    def test_asks_for_the_key_and_keeps_it_in_the_tab(self):
        server = Server("--log-level", "warning", "--api-key", "right-key")
        self.addCleanup(server.kill)
        page = self.open(server)
        page.wait_for("document.getElementById('key-dialog').open")
        page.type("wrong-key")
        page.press("Enter")
        page.wait_for("!document.getElementById('key-error').hidden")
        self.assertRegex(page.text("#key-error"), re.compile("key", re.I))
        page.evaluate("document.getElementById('key').select()")
        page.type("right-key")
        page.press("Enter")
        page.wait_for(LIVE)
        self.assertFalse(page.evaluate("document.getElementById('key-dialog').open"))
        self.assertEqual(page.evaluate("[localStorage.length, sessionStorage.length]"), [0, 1])
        fill(page, "max-tokens", 5)
        say(page, "Hello")
        page.wait_for(ANSWERED)
        self.assertEqual(page.evaluate("document.querySelectorAll('#log .error').length"), 0)


if __name__ == "__main__":
    unittest.main()
