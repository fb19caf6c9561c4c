"""The commands of the pages on ways to use a network run in the order of the page, on small files under its names, and end with 0."""

import json
import re

import pytest

from tests.helpers import page_files
from tests.helpers.invocation import invoke
from tests.helpers.page_server import Servers
from tests.helpers.pages import LEFT_OUT, LINES, ROOT, commands, fenced, inline, text_of

with_server = pytest.mark.extra("starlette", "uvicorn", "prometheus_client")
PAGES = [
    "classify", "tag", "answer_span", "rank", "regress", "siamese", "features", "mt_dnn", "fast_classify",
    pytest.param("serve", marks=with_server), "probing", "rnn_cnn", "evaluation", "labelled_data",
]  # fmt: skip
NAMES = [getattr(page, "values", [page])[0] for page in PAGES]
EXCLUDED = {
    "pip install xmodels[serve]": "there may be no network; `make test-extras` installs this extra",
    "xmodels finetune --task=classify --init_checkpoint=classifier --init_layers=4,8,12 --teacher=classifier --distill_layers=all "
    "--distill_share=1 --distill_temperature=1 --train_file=train.tsv --eval_file=dev.tsv --model_dir=small":
        "a network of 12 layers takes too long here; `test_teacher_layers` runs a smaller one",
}  # fmt: skip
# Flags that only save time, added to all commands of a verb on a page.
SHORTER = {("rnn_cnn", "pretrain"): ["--num_train_steps=3"]}
# Commands that a page gives in words only, run behind its own.
FURTHER = {
    "siamese": ["search --index=titles --model_dir=siamese --input_file=titles.txt --output_file=found.jsonl"],
    "mt_dnn": ["multitask --tasks_file=page.yaml --set=DATA=data --init_checkpoint=run --model_dir=page --dry_run"],
}
# The file that the last block of JSON on a page shows a line of.
SHOWN = {"answer_span": "answers.jsonl", "rank": "rankings.jsonl", "siamese": "found.jsonl"}
EXPORTS = {'"adaptive"': "early/serving", '"stream_serving_default"': "generator-serving"}


def lines_of(page):
    """The words of each line of shell on a page, and of whole commands in its text."""
    text = text_of(page)
    given = (["xmodels", *words] for words in commands(inline(text)) if len(words) > 1)
    whole = (words for words in given if not any(dots in word for dots in LEFT_OUT for word in words))
    further = (["xmodels", *line.split()] for line in FURTHER.get(page, []))
    return [*commands(fenced(text, "sh"), LINES), *whole, *further]


def run(page, words, servers):
    """Returns the exit code, and prints what comes out."""
    program, *arguments = words
    if program == "curl":
        print(servers.ask(*arguments))
        return 0
    assert program == "xmodels", f"{page}: no way to run {program}; see EXCLUDED"
    verb, *flags = arguments
    if verb == "serve":
        print(servers.start(*flags), end="")
        return 0
    return invoke(verb, *flags, *SHORTER.get((page, verb), []))


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_commands_run_and_write_what_the_page_shows(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    getattr(page_files, page)()
    capfd.readouterr()
    outputs, failed = [], []
    with Servers(EXPORTS) as servers:
        for words in lines_of(page):
            if (line := " ".join(words)) in EXCLUDED:
                continue
            code = run(page, words, servers)
            output, errors = capfd.readouterr()
            outputs.append(output)
            if code != 0:
                failed.append(f"{line}\nexit code {code}: {errors}")
    assert not failed, "\n\n".join(failed)
    assert_shown(page, outputs)
    for block in fenced(text_of(page), "python"):
        exec(block, {})


def assert_shown(page, outputs):
    """Asserts that what a page shows of files and of what is printed has the form of what came out."""
    text = text_of(page)
    if page in SHOWN:
        with open(SHOWN[page], encoding="utf-8") as file:
            assert form(file.readline()) == form(fenced(text, "json")[-1])
    printed = [numberless(output) for output in outputs]
    for block in fenced(text, ""):  # of no language
        assert any(numberless(block) <= lines for lines in printed), block
    for comment in re.findall(r"^# (.*)$", "".join(fenced(text, "sh")), re.MULTILINE):
        if comment.startswith(("{", "Serving ")):
            assert form(comment) in [form(output) for output in outputs], comment


def numberless(text):
    """The lines of a text without numbers and stars, and without those that hold nothing else."""
    lines = (re.sub(r"[\s\d.,*]+", " ", line).strip() for line in text.splitlines())
    return {line for line in lines if line}


def form(text):
    """The keys of JSON, of lists those of the first item; of another text its lines."""
    return keys_of(json.loads(text)) if text.startswith("{") else text.splitlines()


def keys_of(value):
    if isinstance(value, dict):
        return {key: keys_of(inner) for key, inner in value.items()}
    return [keys_of(inner) for inner in value[:1]] if isinstance(value, list) else None


def test_what_is_excluded_shortened_or_added_belongs_to_a_page():
    lines = {page: lines_of(page) for page in NAMES}
    assert set(EXCLUDED) <= {" ".join(words) for page in NAMES for words in lines[page]}
    assert all(any(words[:2] == ["xmodels", verb] for words in lines[page]) for page, verb in SHORTER)
    assert {*FURTHER, *SHOWN} <= set(NAMES)
