"""Every command on the pages is one that the command line takes: the verb, its flags and their values are known."""

import importlib

import pytest

from launch.__main__ import verbs
from tests.helpers.pages import LEFT_OUT, PAGES, commands, fenced, inline

OF_ALL_VERBS = {"help", "flagfile"}


def of_pages(part):
    return [(page.name, words) for page in PAGES for words in commands(part(page.read_text(encoding="utf-8")))]


def unknown_flags(verb, words):
    """The names of flags among words that a verb does not have."""
    known = importlib.import_module(f"launch.{verb}").COMMAND.values
    names = {word[2:].partition("=")[0] for word in words if word.startswith("--")} - OF_ALL_VERBS
    return {name for name in names if name not in known and name.removeprefix("no") not in known}


WHOLE, INSIDE = of_pages(fenced), of_pages(inline)


@pytest.mark.parametrize(("page", "words"), [*WHOLE, *INSIDE])
def test_the_verb_and_its_flags_are_known(page, words):
    verb, *arguments = words
    assert verb in verbs(), f"{page}: no verb {verb}"
    assert not unknown_flags(verb, arguments), f"{page}: {' '.join(words)}"


@pytest.mark.parametrize(
    ("page", "words"), [each for each in WHOLE if not any(dots in word for dots in LEFT_OUT for word in each[1])]
)
def test_a_whole_command_can_be_given_as_it_stands(page, words, capsys):
    try:
        importlib.import_module(f"launch.{words[0]}").COMMAND.parse(words[1:])
    except SystemExit as stop:
        assert stop.code == 0, f"{page}: {' '.join(words)}\n{capsys.readouterr().err}"


def test_commands_are_found_and_what_is_wrong_with_them():
    assert len(WHOLE) > 150 and {page for page, _ in WHOLE} >= {"README.md", "siamese.md", "mt_dnn.md"} and INSIDE
    text = "```sh\n(xmodels predict --model_dir='a b' \\\n  --txet=x > out) # xmodels\nxmodels doctor: so\n```\n`xmodels encode`"
    assert list(commands(fenced(text))) == [["predict", "--model_dir=a b", "--txet=x"]]
    assert list(commands(inline(text))) == [["encode"]]
    assert unknown_flags("predict", ["--model_dir=a b", "--txet=x"]) == {"txet"}
    assert not unknown_flags("finetune", ["--nocrf", "--crf"])
