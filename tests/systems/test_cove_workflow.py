"""CoVe by commands: a translator is trained over given vectors, and its encoder, which stays as it is, compares texts."""

import itertools
import types

import numpy as np
import pytest

import xmodels
from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.models.backbone import named_weights
from xmodels.models.cove import Cove, CoveConfig
from xmodels.models.folder import read_weights
from xmodels.systems import cove
from xmodels.training.optimizers.groups import divide

PEOPLE, FOOD = "john mary anna".split(), {"bread": "brot", "soup": "suppe", "fish": "fisch"}
WIDTH = 32


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path, draw = tmp_path_factory.mktemp("cove"), np.random.default_rng(0)
    sides = ([], [])
    for _ in range(200):
        one, food = draw.choice(PEOPLE), draw.choice(list(FOOD))
        sides[0].append(f"{one} eats {food} today .")
        sides[1].append(f"heute isst {one} {FOOD[food]} .")
    for name, lines in zip(("en", "de"), sides, strict=True):
        (path / name).with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = [*PEOPLE, *FOOD, "eats", "."]  # but not "today"
    vectors = draw.normal(size=(len(known), WIDTH)) / 2
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(known, vectors.astype("float32"), strict=True)]
    (path / "glove.txt").write_text("\n".join(lines) + "\n")
    text = {"input_file": f"{path}/en.txt,{path}/de.txt", "tokenizer": "words", "vocab_size": 40}
    assert invoke("train_vocabulary", **text, output_file=path / "words") == 0
    pairs = {"input_file": path / "en.txt", "target_file": path / "de.txt", "packing": "parallel", "max_seq_length": 8}
    assert invoke("create_pretraining_data", **pairs, vocab_file=path / "words", output_dir=path / "records") == 0
    learnt = {"num_train_steps": 3, "train_batch_size": 8, "save_checkpoints_steps": 3, "learning_rate": 0.1}
    given = {"init_vectors": f"glove:{path}/glove.txt", "freeze_vectors": True}
    assert invoke(
        "pretrain", system="cove", size="tiny", data_dir=path / "records", model_dir=path / "run", **learnt, **given
    ) == 0  # fmt: skip
    return path / "run"


@pytest.mark.long
def test_the_table_is_that_of_the_given_vectors_and_zeros(run):
    table = read_weights(str(run / "backbone/weights.safetensors"))["backbone.embedding.embeddings"]
    vocabulary = open_tokenizer(str(run.parent / "words")).vocabulary
    assert not table[[vocabulary[token] for token in ("today", "brot", "[UNK]", "[PAD]")]].any()
    first = np.array((run.parent / "glove.txt").read_text().split("\n")[0].split()[1:], "float32")
    np.testing.assert_array_equal(table[vocabulary["john"]], first)


def test_word_vectors_and_encoder_do_not_learn_a_task_unless_they_are_told_to():
    flags = types.SimpleNamespace(freeze_backbone=False)
    recipe = cove.finetuning("classify", CoveConfig(9, 12), flags)
    names = [f"backbone.{name}" for name in named_weights(Cove(CoveConfig(9, 12)).initialize())]
    assert {group.begins for group in divide(recipe.groups, names).values()} == {None}
    assert recipe.network == {"dropout": 0.0, "maxout_norm": "batch"}
    assert not cove.finetuning("classify", CoveConfig(9, 12), flags, cove.FineTuningOptions(freeze=False)).groups
    with pytest.raises(UsageError, match="--set=maxout_norm=group: must be one of: layer, batch"):
        cove.finetuning("classify", CoveConfig(9, 12), flags, cove.FineTuningOptions(maxout_norm="group"))


@pytest.mark.long
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_task_learns_its_head_alone_and_is_exported(run, tmp_path, norm):
    choices = itertools.product(PEOPLE, PEOPLE, FOOD, FOOD)
    rows = [f"{a} eats {food} .\t{b} eats {other} .\t{food == other}" for a, b, food, other in choices]
    (tmp_path / "train.tsv").write_text("\n".join(["text\ttext2\tlabel", *rows]) + "\n")
    table = {"train_file": tmp_path / "train.tsv", "text_column": "text", "text_pair_column": "text2"}
    learnt = {"num_train_epochs": 0.3, "train_batch_size": 8, "max_seq_length": 12, "set": f"maxout_norm={norm}"}
    assert invoke("finetune", task="classify", init_checkpoint=run, model_dir=tmp_path / "task", **table, **learnt) == 0
    before, after = (read_weights(str(path / "backbone/weights.safetensors")) for path in (run, tmp_path / "task"))
    for name, value in before.items():
        if name.startswith("backbone."):
            np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert any("network.encoder" in name for name in after)
    assert any("moving_mean" in name for name in after) == (norm == "batch")
    (record,) = xmodels.predict(model_dir=str(tmp_path / "task"), text="john eats soup .", text_pair="mary eats soup .")
    assert record["label"] in ("True", "False")
    assert invoke("export_model", model_dir=tmp_path / "task", export_dir=tmp_path / "served", serving_ops="core") == 0
