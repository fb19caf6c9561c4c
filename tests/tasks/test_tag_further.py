"""Tagging, further: schemes and their faults, texts longer than a window, a chain over tags, places under all tokenizers."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.tag_schemes import BIO, bad_tags, scheme_of, to_bio
from data_pipelines.text.frames import BERT
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, network
from tests.helpers.small_models import PLACES as CITIES
from tests.ops.test_serving_kinds import tokenizers  # noqa: F401  (a fixture)
from tests.tasks.test_tag import call, checkpoint, data  # noqa: F401  (fixtures)
from xmodels.models import folder
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.tag import pictures
from xmodels.tasks.tag.read import as_chains, read_sentences
from xmodels.tasks.tag.score import scores
from xmodels.tasks.tag.serve import Server
from xmodels.tasks.tag.settings import may_stand
from xmodels.tasks.tag.words import Words, encode_words, entities, windows_of, words_of

LETTERS = ("B", "I", "E", "S", "M", "L", "U")


def bad(text, scheme=None):
    tags = text.split()
    return [(each.place, each.reason) for each in bad_tags(tags, scheme or scheme_of([tags]))]


# Schemes


def test_impossible_tags_are_read_as_seqeval_reads_them():
    from seqeval.metrics.sequence_labeling import get_entities

    rng = np.random.default_rng(0)
    for letters in ("BI", "BIES"):  # what seqeval's default knows; L and U are E and S to us
        for _ in range(300):
            tags = [
                "O" if rng.random() < 0.3 else f"{rng.choice(list(letters))}-{rng.choice(['A', 'B'])}"
                for _ in range(rng.integers(1, 9))
            ]
            assert get_entities(to_bio(tags)) == get_entities(tags), tags


def test_what_is_possible_in_its_scheme_is_no_fault():
    for tags in (
        "O B-A I-A B-A O B-B", "I-A I-A B-A O I-B", "B-A I-A E-A S-B O B-A E-A", "B-A M-A M-A E-A S-A", "U-A B-B I-B L-B O",
        "NOUN VERB",
    ):  # fmt: skip
        assert bad(tags) == [] or tags == "NOUN VERB"
    assert scheme_of([["I-A", "O", "I-B"], ["I-A", "B-A"]]).name == "IOB1"
    assert scheme_of([["B-A", "O", "B-B"], ["I-A"]]).name == "BIO"
    names = [scheme_of([tags.split()]).name for tags in ("S-A", "B-A M-A E-A", "U-A")]
    assert names == ["BIOES", "BMES", "BILOU"]


@pytest.mark.parametrize(
    ("tags", "place", "reason"),
    [
        ("B-A O I-A B-A O B-B", 2, "'I-A' behind 'O', expected 'B-A' there"),
        ("B-A I-B O B-A", 1, "'I-B' behind 'B-A', expected 'B-B' there"),
        ("B-A O S-A", 1, "'O' behind 'B-A', expected 'I-A' or 'E-A'"),
        ("S-B B-A", 2, "a sentence that ends with 'B-A', expected 'I-A' or 'E-A'"),
        ("O E-A S-A", 1, "'E-A' behind 'O', expected 'B-A' there"),
        ("B-A M-A O S-A", 2, "'O' behind 'M-A', expected 'M-A' or 'E-A'"),
        ("L-A U-A", 0, "'L-A' at the beginning of a sentence, expected 'B-A' there"),
        ("B-A B-B L-B U-A", 1, "'B-B' behind 'B-A', expected 'I-A' or 'L-A'"),
    ],
)
def test_each_fault_is_named_with_what_was_expected(tags, place, reason):
    assert bad(tags) == [(place, reason)]


def test_faults_are_counted_and_repaired_or_refused_with_their_line(tmp_path, capsys):
    path = tmp_path / "bad.txt"
    path.write_text("Ann B-PER\nmet O\nYork I-LOC\n\nBob B-PER\nin O\nRome B-LOC\n")
    assert read_sentences(str(path), None, None)[0].tags == ["B-PER", "O", "B-LOC"]
    assert "1 impossible tag(s) of BIO repaired" in capsys.readouterr().out
    with pytest.raises(
        DataError, match=r"bad.txt, line 3: 'I-LOC' behind 'O', expected 'B-LOC' there.*--bad_tags=repair"
    ):
        read_sentences(str(path), None, None, "refuse")
    path.write_text("Ann B-PER\nmet O\nYork LOC\n\nBob B-PER\nin O\nRome I-LOC\n")
    with pytest.raises(DataError, match=r"bad.txt, line 3: 'LOC' is no tag of spans, where 3 others are"):
        read_sentences(str(path), None, None, "refuse")
    assert read_sentences(str(path), None, None)[0].tags == ["B-PER", "O", "LOC"]
    assert "Warning: " in capsys.readouterr().out


def test_records_repair_or_refuse_alike(tmp_path, checkpoint, capsys):  # noqa: F811
    (tmp_path / "bad.txt").write_text("ann B-PER\nmet O\nyork I-LOC\n\nbob B-PER\nin O\nrome B-LOC\n")
    flags = {"task": "tag", "input_file": tmp_path / "bad.txt", "vocab_file": checkpoint / "vocab.txt"}
    assert invoke("create_finetuning_data", output_dir=tmp_path / "a", **flags) == 0
    assert "impossible tags that were repaired 1" in capsys.readouterr().out
    assert invoke("create_finetuning_data", output_dir=tmp_path / "b", bad_tags="refuse", **flags) == 3
    assert "impossible tag: 'I-LOC' behind 'O'" in capsys.readouterr().err


# Windows


def test_each_word_counts_once_and_texts_that_fit_are_one_window():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(0, 60))
        opens = (rng.random(count) < 0.6).astype(np.int64)
        row = (list(range(count)), np.cumsum(opens), opens)
        for stride in (None, 1, 5, 10):
            (made,) = windows_of([row], stride, 12, BERT)
            ids = [token for ids, _, counted in made for token, one in zip(ids, counted, strict=True) if one]
            assert ids == np.flatnonzero(opens).tolist()
            assert all(len(ids) <= 10 for ids, _, _ in made) and (len(made) == 1) == (count <= 10)
    with pytest.raises(UsageError, match="--doc_stride=11: windows of 10 tokens"):
        windows_of([row], 11, 12, BERT)


def long_sentences(count, seed):
    """CoNLL lines of sentences that are longer than the windows of the run."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        for _ in range(rng.integers(1, 5)):
            yield from (
                f"{rng.choice(NAMES)} B-PER",
                "lives O",
                "in O",
                "more B-LOC",
                f"{rng.choice(CITIES)} I-LOC",
                ". O",
            )
        yield ""


@pytest.fixture(scope="module")
def long_data(tmp_path_factory):
    path = tmp_path_factory.mktemp("long")
    for name, count, seed in (("train.txt", 64, 0), ("dev.txt", 12, 1)):
        (path / name).write_text("\n".join(long_sentences(count, seed)) + "\n")
    return path


QUICK = (
    "--task=tag", "--max_seq_length=12", "--doc_stride=6", "--num_train_epochs=4", "--train_batch_size=16", "--learning_rate=3e-3",
    "--distribution_strategy=one_device", "--log_steps=50", "--nojit_compile", "--crf",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(long_data, tmp_path_factory):
    path = tmp_path_factory.mktemp("chain") / "tagger"
    checkpoint = network("bert", tmp_path_factory.mktemp("network"))  # noqa: F811
    files = f"--train_file={long_data}/train.txt", f"--eval_file={long_data}/dev.txt"
    call("finetune", *QUICK, *files, f"--init_checkpoint={checkpoint}", f"--model_dir={path}")
    return path


@pytest.mark.long
def test_a_chain_learns_from_windows_and_tags_texts_of_any_length(run, long_data, tmp_path, capsys):
    assert json.loads((run / "task.json").read_text())["settings"] == {
        "crf": True, "doc_stride": 6, "freeze_backbone": False, "feature_layers": [], "combine_layers": "mix", "bilstm_dim": 0,
    }  # fmt: skip
    call("evaluate", f"--model_dir={run}", f"--test_file={long_data}/dev.txt", f"--plots={tmp_path}/plots")
    assert "picture: " in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["confusions.png", "types.png"]
    predictor = load(str(run))
    (found,) = predictor.predict(["Ann lives in more York. " * 40])
    assert len(found.spans) == 6 * 40 and min(found.probabilities) > 0
    assert [(e.text, e.type) for e in found.entities] == [("Ann", "PER"), ("more York", "LOC")] * 40
    for each in found.entities:
        assert found.text[each.start : each.end] == each.text
    assert all(before[2:] == tag[2:] for before, tag in zip(found.tags, found.tags[1:], strict=False) if tag[0] == "I")
    alone, _ = predictor.predict(["Ann lives.", "Ann lives in more York. " * 9])  # whatever stands beside it
    (again,) = predictor.predict(["Ann lives."])
    assert (alone.tags, alone.entities) == (again.tags, again.entities)
    np.testing.assert_allclose(alone.probabilities, again.probabilities, atol=1e-4)


def served_as_said(words, run):
    """Whether a graph gives the words of texts the tags that the run gives them."""
    texts = ["more Ann in in York Bob?" * 9, "", "live"]
    found = {name: value.numpy() for name, value in words(text=tf.constant(texts)).items()}
    for row, expected in enumerate(load(str(run)).predict(texts)):
        assert [tag.decode() for tag in found["tag"][row] if tag] == expected.tags
        np.testing.assert_allclose(found["probability"][row, : len(expected.tags)], expected.probabilities, atol=1e-4)


@pytest.mark.long
def test_a_chain_has_no_place_with_hugging_face(run, tmp_path, capsys):
    assert invoke("convert_checkpoint", **{"from": run, "to": f"hf:{tmp_path}/theirs"}) == 4
    assert "it has no place for --crf, with which it has learnt" in capsys.readouterr().err
    assert not (tmp_path / "theirs").exists()


@pytest.mark.long
def test_a_chain_in_a_graph_says_what_the_run_says(run):
    served_as_said(Server(load(str(run)), "core").words, run)


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_a_chain_is_exported(run, tmp_path, serving_ops):
    call("export_model", f"--model_dir={run}", f"--export_dir={tmp_path}/served", f"--serving_ops={serving_ops}")
    served_as_said(tf.saved_model.load(str(tmp_path / "served/1")).signatures["words"], run)
    assert "a chain over all words" in (tmp_path / "served/README.md").read_text()


def test_records_hold_the_windows_of_the_file(long_data, checkpoint, tmp_path):  # noqa: F811
    flags = {
        "vocab_file": checkpoint / "vocab.txt",
        "max_seq_length": 12,
        "doc_stride": 5,
        "output_dir": tmp_path / "r",
    }
    assert invoke("create_finetuning_data", task="tag", input_file=long_data / "train.txt", **flags) == 0
    from xmodels.jobs.finetune.options import Options
    from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of

    sources = []
    for files in ({"train_file": str(long_data / "train.txt")}, {"data_dir": str(tmp_path / "r")}):
        numbers = {"max_seq_length": 12, "doc_stride": 5, "crf": True}
        options = Options(
            task="tag", init_checkpoint=str(checkpoint), model_dir=str(tmp_path / "m"), **numbers, **files
        )
        reader = reader_of(options)
        sources.append(reader.read(load_checkpoint_and_tokenizer(options, reader)[1]).source)
    reader = reader_of(dataclasses.replace(options, max_seq_length=8))
    tokenizer = load_checkpoint_and_tokenizer(reader.options, reader)[1]
    with pytest.raises(UsageError, match="--max_seq_length=8: holds 6 tokens of a text, but .* has texts of 10"):
        reader.read(tokenizer)
    table, records = sources
    assert table.num_examples > 64 and table.text_ids.tolist() == records.text_ids.tolist()
    assert set(table.arrays) == set(records.arrays) and "word_ids" in table.arrays
    for name, value in table.arrays.items():
        np.testing.assert_array_equal(value, records.arrays[name], err_msg=name)


def test_labels_are_cut_with_the_tokens_in_batches_by_length():
    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches
    from data_pipelines.batches.grouping import Buckets

    lengths = np.array([3, 9, 4, 16, 2, 12])
    mask = np.arange(16) < lengths[:, None]
    ids = np.where(mask, 1 + np.arange(16), 0).astype(np.int32)
    arrays = {
        "token_ids": ids,
        "padding_mask": mask,
        "labels": 2 * ids,
        "label_weights": mask.astype(np.float32),
        "word_ids": 3 * ids,
    }
    batches = Batches(ArraySource(arrays, "x"), lambda features: features, 2, 0, tuple(arrays), Buckets((4, 16)))
    seen = [batch for batch, _ in zip(batches.training(), range(3), strict=False)]
    assert {batch["labels"].shape[1] for batch in seen} == {4, 16}
    for batch in seen:
        np.testing.assert_array_equal(batch["labels"], 2 * batch["token_ids"])
        np.testing.assert_array_equal(batch["word_ids"], 3 * batch["token_ids"])
        np.testing.assert_array_equal(batch["label_weights"] > 0, batch["padding_mask"])


def test_a_chain_is_legal_also_behind_words_without_a_piece():
    labels = ["O", "B-A", "I-A", "B-B", "I-B"]
    rows = [np.array([2, 2, 0]), np.array([2]), np.array([2, 4]), np.array([1])]
    made = as_chains(rows, [0, 1, 1, 2], labels)
    assert [each.tolist() for each in made] == [[1, 2, 0], [1], [2, 3], [1]]
    chain = may_stand(labels)
    assert chain["may_start"] == [True, True, False, True, False]
    assert chain["may_follow"][1] == [True, True, True, True, False] == chain["may_follow"][2]
    assert chain["may_follow"][0] == [True, True, False, True, False]
    assert may_stand(["NOUN", "O"])["may_follow"] == [[True] * 2] * 2


def test_flags_of_tagging_are_refused_elsewhere_and_wrong_values_named(data, checkpoint, tmp_path, capsys):  # noqa: F811
    given = {"init_checkpoint": checkpoint, "train_file": data / "train.txt", "model_dir": tmp_path / "m"}
    for flag in ("--crf", "--bad_tags=refuse"):
        assert invoke("finetune", "--task=classify", flag, **given) in (2, 3)
        assert "has no such flag" in capsys.readouterr().err
    assert invoke("finetune", "--task=tag", "--max_seq_length=16", "--doc_stride=15", **given) == 2
    assert "--doc_stride=15: windows of 14 tokens" in capsys.readouterr().err


# Features of a frozen network


@pytest.mark.long
def test_a_bilstm_reads_the_mixed_layers_of_a_frozen_network(data, checkpoint, tmp_path):  # noqa: F811
    path, files = tmp_path / "frozen", (f"--train_file={data}/train.txt", f"--eval_file={data}/dev.txt")
    flags = (
        "--freeze_backbone",
        "--feature_layers=-1,0",
        "--bilstm_dim=24",
        "--num_train_epochs=12",
        "--max_seq_length=16",
        "--jit_compile",
        "--crf",
    )
    quick = [
        each
        for each in QUICK
        if each.split("=")[0]
        not in ("--max_seq_length", "--nojit_compile", "--doc_stride", "--crf", "--num_train_epochs")
    ]
    call("finetune", *quick, *flags, *files, f"--init_checkpoint={checkpoint}", f"--model_dir={path}")
    before, after = (folder.read_weights(str(p / folder.WEIGHTS)) for p in (checkpoint, path / "backbone"))
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert after["objective.tag.mix.shares"].any()  # the mix has learnt
    found = load(str(path)).predict(["Ann met Bob in New York.", "Ann"])
    assert [e.text for e in found[0].entities] == ["Ann", "Bob", "New York"]
    np.testing.assert_allclose(found[1].probabilities, load(str(path)).predict(["Ann"])[0].probabilities, atol=1e-5)
    call(
        "export_model", f"--model_dir={path}", f"--export_dir={tmp_path}/served", "--serving_ops=core"
    )  # compares both


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--feature_layers=-1"], "--feature_layers: are of a network that does not learn"),
        (["--freeze_backbone", "--feature_layers=-1,x"], "--feature_layers=-1,x: expected numbers"),
        (["--freeze_backbone", "--feature_layers=-1,5"], "--feature_layers=-1,5: the network shows 2 layers"),
        (["--freeze_backbone", "--combine_layers=concat"], "--combine_layers=concat: needs several"),
    ],
)
def test_features_that_cannot_be_had_are_refused(data, checkpoint, tmp_path, capsys, flags, message):  # noqa: F811
    given = {"init_checkpoint": checkpoint, "train_file": data / "train.txt", "model_dir": tmp_path / "m"}
    assert invoke("finetune", "--task=tag", "--max_seq_length=16", *flags, **given) == 2
    assert message in capsys.readouterr().err


# Places


SURFACES = [
    "Ann",
    "ﬁre",
    "re\u0301sume\u0301",
    "ＡＢＣ",
    "👩‍🚀",
    "北",
    "京",
    "U.S.",
    "㍿",
    "№1",
    "naïve",
    "𠀀",
    "ｶﾞ",
    "don't",
]


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"])
def test_entities_are_surfaces_of_the_text_under_every_tokenizer(tokenizers, kind):  # noqa: F811
    pieces = [*"abcdenrz", *(f"##{c}" for c in "abcdenrz")]
    wordpiece = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *pieces], "a test"))
    tokenizer = wordpiece if kind == "wordpiece" else tokenizers[kind]
    words = Words.joined(SURFACES)
    assert [words.text[a:b] for a, b in words.spans] == SURFACES
    (ids, of_tokens, opens), = encode_words([words], tokenizer)  # fmt: skip
    spans = tokenizer.encode(words.text).spans
    for place in np.flatnonzero(opens):  # the first piece of a word stands in it
        assert words.spans[of_tokens[place]][0] <= spans[place][0] < words.spans[of_tokens[place]][1]
    if kind != "words":  # which knows blanks only, so that a piece may cover several words of ours
        assert opens.sum() == len(SURFACES)
    found = entities(words, ["B-X"] * len(SURFACES))
    assert [each.text for each in found] == SURFACES
    plain = words_of("  Ann,  ﬁre\t北京 👩‍🚀. ＡＢＣ ", tokenizer)
    assert all(surface == surface.strip() and surface for surface in (plain.text[a:b] for a, b in plain.spans))
    assert "".join(plain.text[a:b] for a, b in plain.spans) == "".join(plain.text.split())


def test_chinese_characters_and_words_of_a_file_are_its_words(checkpoint):  # noqa: F811
    tokenizer = WordPieceTokenizer(Vocabulary.read(str(checkpoint / folder.VOCABULARY)))
    characters, whole = Words.joined(list("北京in北京")), Words.joined(["北京", "in", "北京"])
    assert characters.text == "北京 i n 北京" and whole.text == "北京 in 北京"
    assert [int(opens.sum()) for _, _, opens in encode_words([characters, whole], tokenizer)] == [6, 3]
    assert [e.text for e in entities(characters, ["B-L", "I-L", "O", "O", "B-L", "I-L"])] == ["北京", "北京"]


# Pictures


def test_words_are_counted_by_type():
    truth = [["B-X", "I-X", "O"], ["B-Y", "O"]]
    said = [["B-X", "B-Y", "O"], ["I-Y", "B-Z"]]
    names, table = pictures.count_types(said, truth)
    assert set(names) == {"X", "Y", "Z", "O"} and names[-1] == "O"
    at = {name: place for place, name in enumerate(names)}
    assert table.sum() == 5 and table[at["X"], at["X"]] == table[at["X"], at["Y"]] == table[at["Y"], at["Y"]] == 1
    assert table[at["O"], at["Z"]] == 1 and bad("B-X I-X", BIO) == []
    assert len(pictures.by_type(scores(said, truth)["types"]).axes[0].get_yticklabels()) == 3
