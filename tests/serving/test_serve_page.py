"""The page of a server in a browser: texts in, answers out, by keyboard too, in two languages, and no script from a label."""

import contextlib
import json
import shutil
import threading
import time

import pytest
import tensorflow as tf

from xmodels.serving.folder import LABELS, find_model, labels_of
from xmodels.serving.limits import Limits
from xmodels.serving.model import Model

for package in ("starlette", "uvicorn", "prometheus_client", "playwright"):
    pytest.importorskip(package)

from tests.helpers.served_app import app_of  # noqa: E402
from xmodels.serving import server  # noqa: E402

pytestmark = pytest.mark.extra("starlette", "uvicorn", "prometheus_client", "playwright")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LABEL = "<img src=x onerror=alert(1)>"
TEXT = "👩‍🚀 Ann lives in 北京."
NUMBERS = ("start", "order", "layer")  # inputs of `attention` that are no texts
WRITTEN = [" once", " upon", " a", " time", "，从前", "。"]


class Answers(tf.Module):
    """Fixed answers in the shapes of tasks."""

    def classify(self, text):
        rows = tf.shape(text)[0]
        return {
            "label": tf.repeat(tf.constant([LABEL]), rows),
            "probabilities": tf.tile(tf.constant([[0.25, 0.75]]), [rows, 1]),
        }

    def cautious(self, text):
        """The likeliest label is not the one that a threshold has chosen."""
        return {**self.classify(text), "label": tf.repeat(tf.constant(["so so"]), tf.shape(text)[0])}

    def early(self, text, speed):
        layer = tf.cast(tf.round(3.0 - 2.0 * speed), tf.int32)
        rows = tf.shape(text)[0]
        return {**self.classify(text), "layer": tf.repeat(layer, rows), "uncertainty": tf.repeat(speed, rows)}

    def tag(self, text):
        rows = tf.shape(text)[0]
        columns = {"entity": ["Ann", "北京"], "type": ["PER", LABEL], "start": [4, 17], "end": [7, 19]}
        return {name: tf.tile(tf.constant([value]), [rows, 1]) for name, value in columns.items()}

    def attention(self, text, layer):
        """Each word of a text takes most of the first one in layer 1, and of the last one in layer 2."""
        words = tf.concat([["[CLS]"], tf.strings.split(text)], axis=0)
        count = tf.size(words)
        place = tf.where(layer == 1, 0, count - 1)
        weight = tf.repeat(tf.one_hot([place], count, 0.6, 0.1), count, axis=0)
        return {"token": tf.strings.join([" ", words]), "weight": weight, "num_layers": tf.constant(2)}

    def write(self, prompt):
        rows = tf.shape(prompt)[0]
        return {"continuation": tf.repeat("".join(WRITTEN), rows), "num_tokens": tf.fill([rows], len(WRITTEN))}

    def write_on(self, prompt, written, count):
        stop = tf.minimum(tf.shape(written)[1] + count, len(WRITTEN))
        text = tf.strings.reduce_join(tf.constant(WRITTEN)[:stop])
        return {
            "continuation": text[None],
            "num_tokens": stop[None],
            "written": tf.range(stop)[None],
            "is_finished": (stop == len(WRITTEN))[None],
        }

    def rank(self, query, candidates):
        lengths = tf.cast(tf.strings.length(candidates), tf.float32)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        return {"order": order, "scores": lengths, "probabilities": tf.nn.softmax(lengths)}


class Rows(tf.Module):
    """Fixed answers of tasks whose networks read several rows for one question."""

    def choose(self, context, question, choices):
        lengths = tf.cast(tf.strings.length(choices), tf.float32)
        return {"choice": tf.argmax(lengths, axis=1), "probabilities": tf.nn.softmax(lengths)}

    def compare(self, text, text_pair):
        return {"similarity": tf.fill(tf.shape(text), 0.5)}

    def encode(self, text):
        return {"vector": tf.fill([tf.size(text), 3], 0.5)}

    def label(self, text, text_pair):
        return Answers().classify(text)

    def find(self, question, context):
        return {name: value[:, 1] for name, value in self.n_best(question, context).items()}

    def n_best(self, question, context):
        columns = {"answer": ["", "York"], "start": [-1, 7], "end": [-1, 11], "score": [0.75, 0.25]}
        return {name: tf.constant([value]) for name, value in columns.items()}

    def attention(self, *asked):
        """The tokens are the words of all inputs, numbers among them; each takes of each alike."""
        *inputs, layer = asked
        words = [tf.strings.split(each if each.dtype == tf.string else tf.strings.as_string(each)) for each in inputs]
        token = tf.strings.join([" ", tf.concat(words, axis=0)])
        return {"token": token, "weight": tf.fill([tf.size(token)] * 2, 0.25), "num_layers": layer * 0 + 2}


@contextlib.contextmanager
def serving(made, methods, path):
    """The address of a server of a SavedModel with these signatures: methods, and what they take."""
    if not BROWSER:
        pytest.skip("no Chromium")
    signatures = {
        name: tf.function(method, autograph=False).get_concrete_function(*specs)
        for name, (method, specs) in methods.items()
    }
    tf.saved_model.save(made, str(path / "1"), signatures=signatures)
    (path / "1" / LABELS).parent.mkdir()
    (path / "1" / LABELS).write_text(json.dumps(["so so", LABEL]))
    folder = find_model(str(path), "page")
    app = app_of(Model(folder), Limits(), labels_of(folder))
    listening = server.listen("127.0.0.1", 0)
    ready = []

    class Kept(server.Server):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            ready.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Server", Kept)
        thread = threading.Thread(target=server.run, args=(app, listening, Limits(client_timeout=5.0)))
        thread.start()
        while not (ready and ready[0].started):
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        ready[0].should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    made = Answers()
    text, query = (tf.TensorSpec([None], tf.string, name) for name in ("text", "query"))
    methods = {
        "serving_default": (made.classify, [text]),
        "cautious": (made.cautious, [text]),
        "early": (made.early, [text, tf.TensorSpec([], tf.float32, "speed")]),
        "tag": (made.tag, [text]),
        "attention": (made.attention, [tf.TensorSpec([], tf.string, "text"), tf.TensorSpec([], tf.int32, "layer")]),
        "write": (made.write, [tf.TensorSpec([None], tf.string, "prompt")]),
        "stream_write": (
            made.write_on,
            [
                tf.TensorSpec([1], tf.string, "prompt"),
                tf.TensorSpec([1, None], tf.int32, "written"),
                tf.TensorSpec([], tf.int32, "count"),
            ],
        ),
        "rank": (made.rank, [query, tf.TensorSpec([None, None], tf.string, "candidates")]),
    }
    with serving(made, methods, tmp_path_factory.mktemp("answers")) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    if not BROWSER:
        pytest.skip("no Chromium")
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as made:
        yield made


@contextlib.contextmanager
def opened(browser, address):
    """The page, in English; whatever its console says or a dialog shows fails the test."""
    context = browser.new_context(locale="en-US")
    made, said = context.new_page(), []
    made.set_default_timeout(15_000)
    made.on("console", lambda message: said.append(message.text))
    made.on("pageerror", lambda error: said.append(str(error)))
    made.on("dialog", lambda dialog: (said.append("a dialog"), dialog.dismiss()))
    made.goto(address)
    made.wait_for_selector("textarea")
    yield made
    context.close()
    assert not said


def texts(page, selector):
    return [each.inner_text() for each in page.query_selector_all(selector)]


def choose(page, signature):
    page.select_option("#signature", signature)


def answer(page):
    page.click("#ask")
    page.wait_for_selector("#result:not(.busy) #raw:not([hidden])")


def test_labels_are_bars_and_never_html_in_both_languages(page):
    page.fill("#field-text", "A text.")
    answer(page)
    assert texts(page, ".bars .label") == [LABEL, "so so"] and texts(page, ".bars .number") == ["75.0%", "25.0%"]
    assert page.query_selector("#answer img") is None
    page.click("[data-language=zh]")
    assert page.get_attribute("html", "lang") == "zh-CN" and page.inner_text("#ask") == "提交"
    page.fill("#field-text", "这部电影很好看。")
    answer(page)
    assert "75.0%" in texts(page, ".bars .number") and "这部电影很好看。" in page.text_content("#request")
    page.reload()
    page.wait_for_selector("textarea")
    assert page.inner_text("#ask") == "提交"  # it is remembered


def test_the_label_that_a_threshold_has_chosen_keeps_its_own_probability(page):
    choose(page, "cautious")
    page.fill("#field-text", "A text.")
    answer(page)
    assert texts(page, ".bars .label") == [LABEL, "so so"] and texts(page, ".bars .number") == ["75.0%", "25.0%"]
    assert texts(page, ".bars .best .label") == ["so so"]


def test_entities_are_marked_by_characters(page):
    choose(page, "tag")
    page.fill("#field-text", TEXT)
    answer(page)
    kinds = texts(page, "#answer mark small")
    assert kinds == ["PER", LABEL] and texts(page, "#answer mark") == [f"Ann{kinds[0]}", f"北京{kinds[1]}"]
    page.click("summary")
    assert json.loads(page.inner_text("#response"))["outputs"]["type"] == [["PER", LABEL]]


def test_the_slider_asks_anew_and_candidates_stand_in_order(page):
    choose(page, "early")
    page.fill("#field-text", "A text.")
    answer(page)
    assert "Left the network behind layer: 3" in page.inner_text("#answer")
    page.focus("#field-speed")
    page.keyboard.press("End")
    page.locator("#answer", has_text="layer: 1").wait_for()
    choose(page, "rank")
    page.fill("#field-query", "which")
    page.fill("#field-candidates", "a\n\nccc\nbb\n")
    answer(page)
    assert texts(page, ".bars .label") == ["1. ccc", "2. bb", "3. a"]


def shares(page):
    """Of the tokens: how dark they are, from 0 to 1."""
    return page.eval_on_selector_all(
        ".token", "all => all.map((each) => Number(each.style.getPropertyValue('--share')))"
    )


def test_a_token_under_the_pointer_or_the_focus_shows_what_it_takes_of(page):
    page.fill("#field-text", "very good <b>film</b>")
    answer(page)
    page.wait_for_selector(".token")
    assert texts(page, ".token") == ["[CLS]", "very", "good", "<b>film</b>"] and not any(shares(page))
    page.hover(".token >> nth=2")
    assert shares(page) == pytest.approx([1, 1 / 6, 1 / 6, 1 / 6], abs=1e-6)
    assert page.inner_text("#attention-told").startswith("“good” takes most of: [CLS] 60.0%, very 10.0%")
    page.mouse.move(0, 0)
    page.select_option("#attention-layer", "2")
    page.wait_for_selector(".tokens:not(:has([aria-pressed=true]))")  # they are drawn anew
    page.locator(".token >> nth=0").focus()
    assert shares(page) == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1], abs=1e-6)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent").strip() == "very"
    assert "“very” takes most of: <b>film</b> 60.0%" in page.inner_text("#attention-told")
    assert (
        page.get_attribute(".token[aria-pressed=true]", "tabindex") == "0"
        and len(page.query_selector_all(".token[tabindex='0']")) == 1
    )
    page.keyboard.press("End")
    assert "“<b>film</b>”" in page.inner_text("#attention-told")
    page.click("[data-language=zh]")
    assert page.inner_text("#attention-title") == "注意力" and page.input_value("#attention-layer") == "2"


def test_no_attention_is_shown_of_what_the_signature_does_not_take(page):
    assert texts(page, "#signature option") == ["cautious", "early", "rank", "serving_default", "tag", "write"]
    choose(page, "rank")
    page.fill("#field-query", "which")
    page.fill("#field-candidates", "a\nbb")
    answer(page)
    assert not page.inner_text("#attention") and not page.inner_text("#error")


def strings(*names, shape=(None,)):
    return [tf.TensorSpec(list(shape), tf.string, name) for name in names]


def attention(made, inputs):
    """The signature of a task whose `attention` takes these, of which those in NUMBERS are no texts."""
    specs = [tf.TensorSpec([], tf.int32 if name in NUMBERS else tf.string, name) for name in (*inputs, "layer")]
    return {"attention": (made.attention, specs)}


def shown_rows(page, values, signature=None):
    """Asks, and gives what can be chosen and the tokens of what is shown at first."""
    if signature:
        choose(page, signature)
    for name, value in values.items():
        page.fill(f"#field-{name}", value)
    answer(page)
    page.wait_for_selector(".token")
    return texts(page, "#attention-row option"), texts(page, ".token")


def row_of(page, label):
    """The tokens of another row."""
    before = texts(page, ".token")
    page.select_option("#attention-row", label=label)
    page.wait_for_function(
        "(before) => [...document.querySelectorAll('.token')].map((x) => x.textContent.trim()).join() !== before.join()",
        arg=before,
    )
    return texts(page, ".token")


def test_the_attention_of_a_ranking_is_that_of_the_best_candidate_until_another_is_chosen(browser, tmp_path):
    made = Rows()
    ranked = Answers().rank, [*strings("query"), *strings("candidates", shape=(None, None))]
    methods = {"serving_default": ranked, **attention(made, ["query", "candidate"])}
    with serving(made, methods, tmp_path) as address, opened(browser, address) as page:
        found = shown_rows(page, {"query": "which", "candidates": "a\n\n<b>ccc</b>\nbb"})
        assert found == (["1. <b>ccc</b>", "2. bb", "3. a"], ["which", "<b>ccc</b>"])
        assert page.inner_text("label[for=attention-row]") == "Candidate"
        page.focus("#attention-row")
        page.keyboard.press("ArrowDown")
        page.locator(".token", has_text="bb").wait_for()
        assert texts(page, ".token") == ["which", "bb"]
        assert page.evaluate("document.activeElement.id") == "attention-row"  # the keyboard goes on from there
        page.locator(".token >> nth=0").focus()
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#attention-told").startswith("“bb” takes most of: which 25.0%")
        page.click("[data-language=zh]")
        page.locator("label[for=attention-row]", has_text="候选").wait_for()
        assert page.input_value("#attention-row") == "1" and texts(page, ".token") == ["which", "bb"]


def test_the_attention_of_a_choice_is_that_of_the_likeliest_one_until_another_is_chosen(browser, tmp_path):
    made = Rows()
    chosen = made.choose, [*strings("context", "question"), *strings("choices", shape=(None, None))]
    methods = {"serving_default": chosen, **attention(made, ["context", "question", "choice"])}
    with serving(made, methods, tmp_path) as address, opened(browser, address) as page:
        found = shown_rows(page, {"question": "why", "choices": "no\nbecause\nso"})
        assert found == (["no", "because", "so"], ["why", "because"])
        assert row_of(page, "so") == ["why", "so"] and page.inner_text("label[for=attention-row]") == "Choice"


def test_texts_that_are_read_apart_have_an_attention_each(browser, tmp_path):
    made = Rows()
    methods = {
        "serving_default": (made.encode, strings("text")),
        "similarity": (made.compare, strings("text", "text_pair")),
        **attention(made, ["text"]),
    }
    with serving(made, methods, tmp_path) as address, opened(browser, address) as page:
        assert shown_rows(page, {"text": "one"}) == ([], ["one"])
        found = shown_rows(page, {"text": "first", "text_pair": "second one"}, "similarity")
        assert found == (["Text", "Second text"], ["first"])
        assert row_of(page, "Second text") == ["second", "one"]


def test_the_attention_of_an_answer_is_asked_where_the_answer_begins(browser, tmp_path):
    made = Rows()
    methods = {
        name: (method, strings("question", "context"))
        for name, method in (("serving_default", made.find), ("n_best", made.n_best))
    }
    methods |= attention(made, ["question", "context", "start"])
    with serving(made, methods, tmp_path) as address, opened(browser, address) as page:
        values = {"question": "where", "context": "Ann in York"}
        assert shown_rows(page, values, "serving_default") == ([], ["where", "Ann", "in", "York", "7"])
        found = shown_rows(page, values, "n_best")
        assert found == (["The text holds no answer.", "York"], ["where", "Ann", "in", "York", "-1"])
        assert row_of(page, "York")[-1] == "7"


def test_a_pair_that_is_read_in_both_orders_has_an_attention_of_each(browser, tmp_path):
    made = Rows()
    methods = {
        "serving_default": (made.label, strings("text", "text_pair")),
        **attention(made, ["text", "text_pair", "order"]),
    }
    with serving(made, methods, tmp_path) as address, opened(browser, address) as page:
        found = shown_rows(page, {"text": "first", "text_pair": "second"})
        assert found == (["As given", "The other way round"], ["first", "second", "0"])
        assert row_of(page, "The other way round")[-1] == "1"


def test_a_text_is_shown_while_it_is_written(page):
    choose(page, "write")
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
        window.seen.push([document.querySelector('#answer').textContent, document.querySelector('#answer').getAttribute('aria-busy')]);
        }).observe(document.querySelector('#answer'), { childList: true, attributes: true }); }"""
    )
    page.fill("#field-prompt", "It was")
    answer(page)
    seen = page.evaluate("window.seen")
    whole = "It was once upon a time，从前。"
    assert [text for text, busy in seen if text and busy][:2] == [
        "It was once uponTokens: 2",
        "It was once upon a timeTokens: 4",
    ]
    assert seen[-1] == [f"{whole}Tokens: 6", None] and page.inner_text("#answer p").strip() == whole
    assert json.loads(page.text_content("#response"))["outputs"]["is_finished"] == [True]


def test_the_keyboard_is_enough_and_everything_has_a_name(page):
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached == ["Skip to the form", "English", "中文", "signature", "field-text", "ask", "Health", "Metrics"]
    page.focus("#field-text")
    page.keyboard.type("A text.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".bars")
    unnamed = "[...document.querySelectorAll('textarea, select, input')].filter((each) => !each.labels.length).length"
    assert page.evaluate(unnamed) == 0
    assert page.get_attribute("#answer", "aria-live") == "polite" and page.get_attribute("#error", "role") == "alert"


def test_what_is_missing_and_what_the_server_refuses_is_said(page, address):
    choose(page, "rank")
    page.fill("#field-query", "which")
    page.click("#ask")
    assert page.inner_text("#error") == "Please fill in: Candidates, one a line"
    assert page.evaluate("document.activeElement.id") == "field-candidates"
    choose(page, "serving_default")
    page.route("**/*:predict", lambda route: route.fulfill(status=200, body='{"outputs": '))
    page.fill("#field-text", "x")
    page.click("#ask")
    page.locator("#error", has_text="The server does not answer").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, address, scheme):
    """WCAG 2 AA: a contrast of 4.5."""
    page = browser.new_page(color_scheme=scheme)
    page.goto(address)
    colours = page.evaluate(
        """() => {
        const rules = [...document.styleSheets[0].cssRules].flatMap((rule) => [...(rule.cssRules ?? [rule])]);
        const names = rules.filter((rule) => rule.selectorText === ":root").flatMap((rule) => [...rule.style]);
        const style = getComputedStyle(document.documentElement);
        const own = names.filter((name) => name.startsWith("--"));
        return Object.fromEntries(own.map((name) => [name.slice(2), style.getPropertyValue(name).trim()]));
        }"""
    )
    page.close()
    pairs = [("ink", "card"), ("ink", "ground"), ("soft", "card"), ("soft", "ground"), ("soft", "field"), ("ink", "field"),
             ("accent-ink", "accent"), ("wrong", "card"), *(("ink", f"mark-{n}") for n in range(6))]  # fmt: skip
    assert not [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < 4.5]


def contrast(one, other):
    """As WCAG 2 defines it, of #rgb or #rrggbb."""

    def luminance(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
        shares = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)
