"""Inputs that are longer than a network reads: every command says of which file, how many, and by how many tokens."""

import numpy as np
import pytest

from data_pipelines.corpora.squad import Question
from data_pipelines.text import cuts
from data_pipelines.text.framing import pack_columns
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, TOKENIZER
from xmodels.doctor import labels
from xmodels.doctor.case import case_of
from xmodels.interfaces.reading import Reading
from xmodels.tasks.answer_span.windows import Settings, pack_windows, windows_of
from xmodels.tasks.choose.packing import pack_parts

WORD = NAMES[0]
QUICK = {
    "max_seq_length": 8, "train_batch_size": 4, "num_train_epochs": 1, "distribution_strategy": "one_device",
    "jit_compile": "false",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(small_bert, tmp_path_factory):
    """A run of rows of which half are cut, by 4 tokens each, and what its training printed."""
    folder = tmp_path_factory.mktemp("cut")
    rows = [f"{' '.join([WORD] * (10 if index % 2 else 3))}\t{'ab'[index % 2]}\n" for index in range(8)]
    for name, lines in (("train", rows), ("dev", rows[:1] + rows[::2])):
        (folder / f"{name}.tsv").write_text("text\tlabel\n" + "".join(lines))
    return folder, small_bert


@pytest.mark.long
def test_commands_say_how_many_inputs_are_cut(run, tmp_path, capsys):
    folder, network = run
    files = {"train_file": folder / "train.tsv", "eval_file": folder / "dev.tsv", "init_checkpoint": network}
    assert invoke("finetune", model_dir=tmp_path / "run", task="classify", **files, **QUICK) == 0
    said = capsys.readouterr().out
    told = "4 of 8 inputs (50%) are longer than {} and were cut, by 16 tokens."
    assert f"Warning: {folder / 'train.tsv'}: {told.format('--max_seq_length=8')}" in said
    assert f"{folder / 'dev.tsv'}: " not in said  # none of it is cut

    read = f"Warning: {folder / 'train.tsv'}: {told.format('the 8 tokens that this run reads')}"
    given = {"model_dir": tmp_path / "run", "input_file": folder / "train.tsv"}
    assert invoke("predict", **given) == 0
    assert read in capsys.readouterr().err
    assert invoke("predict", output_file=tmp_path / "o.tsv", **given) == 0
    assert read in capsys.readouterr().err
    assert invoke("predict", model_dir=tmp_path / "run", text=" ".join([WORD] * 10)) == 0
    assert "--text: 1 of 1 inputs (100%)" in capsys.readouterr().err
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=folder / "train.tsv") == 0
    assert read in capsys.readouterr().err
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=folder / "dev.tsv") == 0
    assert " were cut" not in capsys.readouterr().err
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "x", serving_ops="core") == 0
    assert "inputs longer than 8 tokens are cut" in capsys.readouterr().out


def test_few_inputs_that_are_cut_are_a_note():
    assert cuts.Cuts(inputs=5, cut=1, tokens=2).message("a.tsv", "8").startswith("Note: a.tsv: 1 of 5 inputs (20%)")
    assert cuts.Cuts(inputs=5).message("a.tsv", "8") is None


def test_the_doctor_warns_of_texts_that_would_be_cut(capsys):
    case = case_of(
        {"task": "classify", "init_checkpoint": "x", "model_dir": "y", "train_file": "z", "max_seq_length": 8}
    )
    case.texts, case.tokenizer = [WORD, *[f"{WORD} " * 12] * 3], TOKENIZER
    labels.known_text(case)
    assert (
        "Warning: --max_seq_length=8: 75% of the texts of z are longer and would be cut, by 49% of"
        in capsys.readouterr().out
    )


def test_an_input_is_cut_once_however_it_is_read():
    ids, vocabulary = [[7] * 9, [7]], TOKENIZER.vocabulary
    with cuts.count_cuts() as found:
        pack_columns([ids, ids], vocabulary, 12, orders=((0, 1), (1, 0)))
    assert found == cuts.Cuts(inputs=2, cut=1, tokens=9)
    with cuts.count_cuts() as found:
        pack_parts([([7] * 9, [7], [7]), ([7], [7], [7])], np.ones((1, 2), np.float32), TOKENIZER, 10, Reading())
    assert found == cuts.Cuts(inputs=2, cut=1, tokens=4)


def test_windows_cut_questions_only():
    asked = Question("1", f"{WORD} " * 9, f"{WORD} " * 30, [], False, "a.json")
    with cuts.count_cuts() as found:
        (made,) = windows_of([asked], TOKENIZER, Settings(max_query_length=4, doc_stride=4), 16, Reading().frame)
        pack_windows(made, TOKENIZER, 16, Reading().frame)
    assert found == cuts.Cuts(inputs=1, cut=1, tokens=5)
