"""Evaluation sets that are read by length have the scores, the answers and the order of those that are read as they come."""

import json

import numpy as np
import pytest

from tests.helpers.invocation import invoke
from xmodels.jobs.finetune import decisive

TAGS = {"ann": "B-PER", "york": "B-LOC", "rome": "B-LOC"}
WORDS = "ann saw york and rome once more".split()


def sentences(count):
    for number in range(count):
        length = 1 + number * 5 % 13
        yield [WORDS[(number + place * (1 + number % 3)) % len(WORDS)] for place in range(length)]


def write(folder):
    for name, count in (("train", 24), ("dev", 37)):
        found = list(sentences(count))
        rows = [f"{' '.join(words)}\t{'long' if len(words) > 6 else 'short'}\n" for words in found]
        (folder / f"{name}.tsv").write_text("".join(["text\tlabel\n", *rows]), "utf-8")
        tagged = ["".join(f"{word}\t{TAGS.get(word, 'O')}\n" for word in words) for words in found]
        (folder / f"{name}.conll").write_text("\n".join(tagged), "utf-8")


@pytest.mark.parametrize("task", [pytest.param("classify", marks=pytest.mark.long), "tag"])
def test_scores_and_answers_are_the_same(task, small_bert, tmp_path, monkeypatch):
    write(tmp_path)
    ending, metric = ("tsv", "macro_f1") if task == "classify" else ("conll", "entity_f1")
    found, widths, compared = [], [], []
    plain = decisive.stack_batches

    def seen(pairs):
        outputs, examples = zip(*(pairs := list(pairs)), strict=True)
        widths.append({len(each["token_ids"][0]) for each in examples})
        return plain(pairs)

    def in_two_passes_too(self, source):
        means, answers = in_one_pass(self, source)
        monkeypatch.setattr(self, "_evaluate_and_predict", None)
        for one, two in zip((means, answers), in_one_pass(self, source), strict=True):
            compared.append(np.testing.assert_equal(one, two))
        return means, answers

    in_one_pass = decisive.Evaluation._means_and_answers
    monkeypatch.setattr(decisive, "stack_batches", seen)
    monkeypatch.setattr(decisive.Evaluation, "_means_and_answers", in_two_passes_too)
    for least in (1, 10**6):
        monkeypatch.setattr(decisive, "LEAST_BATCHES", least)
        run = tmp_path / f"run{least}"
        flags = {"best_metric": metric} if task == "classify" else {}
        assert invoke(
            "finetune", task=task, init_checkpoint=small_bert, train_file=tmp_path / f"train.{ending}",
            eval_file=tmp_path / f"dev.{ending}", test_file=tmp_path / f"dev.{ending}", model_dir=run, num_train_epochs=1,
            train_batch_size=4, max_seq_length=16, length_buckets="8", learning_rate=1e-2, jit_compile="false", **flags,
        ) == 0  # fmt: skip
        found.append(json.loads((run / "results.json").read_text("utf-8")))
    assert compared
    assert widths[0] == {8, 16} and widths[-1] == {16}
    ours, theirs = (each.get("results", each) for each in found)
    scores = {
        name: value
        for name, value in theirs.items()
        if isinstance(value, float) and name.startswith(("evaluation", "test"))
    }
    assert f"test {metric}" in scores
    assert {name: ours[name] for name in scores} == pytest.approx(scores, abs=1e-5)
    errors = [(tmp_path / f"run{least}/errors.jsonl") for least in (1, 10**6)]
    if errors[0].exists():
        assert errors[0].read_text("utf-8") == errors[1].read_text("utf-8")
