"""Likelihoods of text: windows and memories score each token once and with the right past; words, bytes and answers are counted."""

import json
import math
import pathlib
import shutil
import types

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.batches import running_text
from data_pipelines.corpora.cloze import Question, choices, last_words
from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.detokenize import DETOKENIZERS
from data_pipelines.text.plain_units import CharacterTokenizer, WordTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.parity import read_case
from tests.helpers.samples import make_records
from tests.models.test_gpt_parity import network, write_hugging_face
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.objectives.causal_lm import CausalLM
from xmodels.objectives.perplexity import of_training
from xmodels.runs.fine_tuned import Source, task_of
from xmodels.tasks.language_model import streams, windows
from xmodels.tasks.language_model.network import load_scorer
from xmodels.tasks.language_model.questions import likelihoods
from xmodels.tasks.language_model.scorer import Scorer

TOKENS = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
PROSE = (
    "The house was here.\nA dog and a cat were (mostly) here, and they didn't mind 1,000 mice.\n\nZwölf Boxkämpfer!\n"
    * 3
)


def byte_bpe():
    return ByteBpeTokenizer.read(str(TOKENS / "byte_bpe_vocab.json"))


def stirred(layer, seed=0):
    """The layer with weights that speak clearly."""
    rng = np.random.default_rng(seed)
    for variable in layer.variables:
        variable.assign_add(rng.normal(0, 0.3, variable.shape))
    return layer


def write_run(path, backbone, objective=None):
    path.mkdir(parents=True)
    tokenizer = byte_bpe()
    write_model(str(path), backbone, objective, tokenizer.files(), tokenizer.describe())
    return str(path)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A model folder that reads 48 tokens."""
    config = Gpt2Config(len(byte_bpe().vocabulary), 16, 2, 2, 32, max_sequence_length=48)
    return write_run(tmp_path_factory.mktemp("gpt2") / "backbone", stirred(Gpt2(config).initialize()))


@pytest.fixture(scope="module")
def transformer_xl(tmp_path_factory):
    """A model folder with two clusters and a memory of 12 states."""
    size = len(byte_bpe().vocabulary)
    config = TransformerXLConfig(size, 16, 2, 2, 32, memory_length=12, cutoffs=(100,), embedding_division=2)
    backbone, objective = TransformerXL(config).initialize(), AdaptiveLM(config)
    return write_run(
        tmp_path_factory.mktemp("xl") / "backbone", stirred(backbone), stirred(objective, seed=1)
    )  # fmt: skip


def eager(path):
    """The scorer of a folder without compiled functions, for many shapes."""
    scorer = load_scorer(Source(path))
    scorer.score, scorer.advance = scorer._score, scorer._advance
    return scorer


def losses_of(scorer, ids):
    """-log p of each token behind the first, all seeing all before them, in one plain pass."""
    batch = {"token_ids": np.array([ids[:-1]]), "padding_mask": np.ones((1, len(ids) - 1), bool)}
    states = scorer.backbone(batch)["sequence_output"]
    logs = np.array(ops.log_softmax(scorer.objective.logits(states, scorer.backbone)))[0]
    return -logs[np.arange(len(ids) - 1), ids[1:]].astype(np.float64)


# Windows


@pytest.mark.parametrize("num_tokens", [2, 5, 9, 10, 11, 38])
@pytest.mark.parametrize(("length", "stride"), [(8, 8), (8, 4), (8, 3), (8, 1), (1, 1), (64, 32)])
def test_windows_score_every_token_once_with_the_context_of_the_usual_walk(num_tokens, length, stride):
    expected, begin, scored = {}, 0, 0
    while scored < num_tokens - 1:  # targets scored, ..., of inputs from `begin` on
        end = min(begin + length, num_tokens - 1)
        expected |= dict.fromkeys(range(scored + 1, end + 1), begin)
        begin, scored = begin + stride, end
    rows = windows.plan(num_tokens, length, stride)
    found = [
        (target, start)
        for start, first, end in zip(rows.starts, rows.first, rows.end, strict=True)
        for target in range(first, end)
    ]
    assert sorted(found) == sorted(expected.items())
    assert (rows.end - rows.first <= stride).all()


def test_a_stride_of_the_whole_window_scores_blocks_and_one_of_1_gives_all_the_context_there_is(gpt2):
    scorer = eager(gpt2)
    ids = np.random.default_rng(0).integers(len(byte_bpe().vocabulary), size=30).astype(np.int32)
    blocks = sum(losses_of(scorer, ids[begin : begin + 9]).sum() for begin in range(0, 29, 8))
    assert windows.score(scorer, ids, 8, 8, 3) == pytest.approx(blocks, rel=1e-5)
    singly = sum(losses_of(scorer, ids[max(0, target - 8) : target + 1])[-1] for target in range(1, 30))
    assert windows.score(scorer, ids, 8, 1, 3) == pytest.approx(singly, rel=1e-5)
    whole = losses_of(scorer, ids).sum()
    assert not math.isclose(blocks, singly, rel_tol=1e-4) and not math.isclose(singly, whole, rel_tol=1e-4)
    for length, stride, batch_size in ((29, 29, 1), (29, 7, 2), (48, 48, 3), (48, 5, 4)):  # also padded windows
        assert windows.score(scorer, ids, length, stride, batch_size) == pytest.approx(whole, rel=1e-5)


def test_neither_the_batch_size_nor_logits_in_parts_change_anything(gpt2, monkeypatch):
    ids = np.random.default_rng(1).integers(300, size=26).astype(np.int32)
    found = [windows.score(eager(gpt2), ids, 12, 5, batch_size) for batch_size in (1, 3, 16)]
    monkeypatch.setattr("xmodels.tasks.language_model.scorer.LOGITS_TOGETHER", 7 * len(byte_bpe().vocabulary))
    found.append(windows.score(eager(gpt2), ids, 12, 5, 2))
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


def test_all_windows_share_one_compiled_function_and_so_do_segments(gpt2, transformer_xl):
    scorer = load_scorer(Source(gpt2))
    ids = np.arange(50, dtype=np.int32)
    compiled = windows.score(scorer, ids, 12, 5, 2)
    assert scorer.score.experimental_get_tracing_count() == 1
    assert compiled == pytest.approx(windows.score(eager(gpt2), ids, 12, 5, 2), rel=1e-6)
    scorer = load_scorer(Source(transformer_xl))
    compiled = streams.score(scorer, ids, 6, 9, 2)
    assert scorer.advance.experimental_get_tracing_count() == 1
    assert compiled == pytest.approx(streams.score(eager(transformer_xl), ids, 6, 9, 2), rel=1e-6)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_likelihoods_are_those_of_hugging_face(row):
    case, backbone = read_case("gpt2/lm_cache_generate"), network("gpt2/lm_cache_generate")
    ids = case.inputs["token_ids"][row].astype(np.int32)
    logits = case.outputs["incremental/lm_logits"][row].astype(np.float64)  # (12, V), without padding
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, np.append(ids[1:], 0)[:, None], axis=1)[:, 0]
    # A vocabulary in which the first token of the row ends documents, so that the others are a text behind it.
    names = [f"w{i}" for i in range(backbone.config.vocabulary_size - 1)]
    names.insert(ids[0], "[SEP]")
    scorer = Scorer(backbone, CausalLM(), WordTokenizer(Vocabulary([*names[:-1], "[UNK]"], required=())))
    scorer.score = scorer._score
    assert windows.score(scorer, ids, 16, 4, 2) == pytest.approx(losses[:-1].sum(), rel=1e-4)
    text = [names[i] for i in ids[1:]]
    for count in (1, 2, 4):
        question = Question(" ".join(text[:-count]), [" " + " ".join(text[-count:]), " w1"], 0, "here")
        ((found, _),), _ = likelihoods(scorer, [question], 16, 2)
        assert found.tokens == ids[-count:].tolist()
        assert found.loss == pytest.approx(losses[-1 - count : -1].sum(), rel=1e-4)
        assert found.is_greedy == (logits[-1 - count : -1].argmax(-1) == ids[-count:]).all()


# Text


def test_perplexities_of_tokens_words_and_bytes_say_the_same(gpt2, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(PROSE, encoding="utf-8")
    flags = {"model_dir": gpt2, "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", **flags, stride=20) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    scorer = load_scorer(Source(gpt2))
    ids = np.array([scorer.tokenizer.vocabulary["[EOS]"], *scorer.tokenizer.encode(PROSE).ids], np.int32)
    assert scores["nll"] == pytest.approx(windows.score(scorer, ids, 48, 20, 1), rel=1e-6)
    assert scores["num_tokens"] == len(ids) - 1 and scores["num_words"] == len(PROSE.split())
    assert scores["num_bytes"] == len(PROSE.encode()) > scores["num_characters"] == len(PROSE)
    assert scores["num_tokens"] * math.log(scores["token_perplexity"]) == pytest.approx(scores["nll"])
    assert scores["num_words"] * math.log(scores["word_perplexity"]) == pytest.approx(scores["nll"])
    assert scores["bits_per_byte"] * scores["num_bytes"] * math.log(2) == pytest.approx(scores["nll"])
    assert scores["bits_per_character"] * scores["num_characters"] * math.log(2) == pytest.approx(scores["nll"])
    assert (scores["stride"], scores["max_seq_length"], scores["read"]) == (20, 48, "verbatim")
    assert "windows of 48 tokens, stride 20" in capsys.readouterr().out


def test_words_are_those_before_detokenization_and_line_ends(gpt2, tmp_path):
    text = " = = Plot = = \n \n He did n't see 1 @,@ 000 mice . \n"
    (tmp_path / "a.txt").write_text(text)
    flags = {"model_dir": gpt2, "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", **flags, detokenize="wikitext") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["num_words"] == len(text.split()) + 3 and scores["num_bytes"] == len(text)
    natural = "== Plot ==\n\nHe didn't see 1,000 mice.\n"
    assert scores["num_tokens"] == len(byte_bpe().encode(natural).ids)


def test_several_files_are_parted_as_documents_are(gpt2, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"File {name}.\n")
    tokenizer = byte_bpe()
    text = running_text.read_verbatim(f"{tmp_path}/*.txt", tokenizer, DETOKENIZERS["none"])
    end = tokenizer.vocabulary["[EOS]"]
    assert text.ids.tolist() == [end, *tokenizer.encode("File a.\n").ids, end, *tokenizer.encode("File b.\n").ids]
    assert (text.words, text.ends, text.bytes, text.documents) == (4, 2, 16, 2)
    rows = ["File a.\n", "", "File b.\n"]
    (tmp_path / "both.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    lines = running_text.read_verbatim(str(tmp_path / "both.jsonl"), tokenizer, DETOKENIZERS["none"])
    np.testing.assert_array_equal(lines.ids, text.ids)
    assert (lines.words, lines.bytes, lines.documents) == (4, 16, 2)


def test_a_vocabulary_without_an_end_of_documents_leaves_the_first_token_out(gpt2, tmp_path):
    words = Vocabulary(["<unk>", *"abcd"], required=(), spelled=True)
    scorer = Scorer(pairs_scorer([]).backbone, None, WordTokenizer(words))
    for name, text in (("a", "a b"), ("b", "c d")):
        (tmp_path / f"{name}.txt").write_text(text)
    for read, settings in ((running_text.read_verbatim, []), (running_text.read_as_records, [{}])):
        assert read(f"{tmp_path}/*.txt", scorer.tokenizer, DETOKENIZERS["none"], *settings).ids.tolist() == [1, 2, 3, 4]
    with pytest.raises(DataError, match="here: no context, and the vocabulary has no token that ends documents"):
        likelihoods(scorer, [Question("", ["a"], 0, "here")], 8, 1)


def test_text_is_read_as_the_records_of_a_run_hold_it(tmp_path, zh_vocabulary):
    plain = {"do_whole_word_mask": False, "segmenter": "none"}
    records = make_records(tmp_path / "records", zh_vocabulary, packing="stream", num_shards=1, **plain)
    settings = json.loads((pathlib.Path(records) / "manifest.json").read_text())["settings"]
    from data_pipelines.batches.dataset import Batches
    from data_pipelines.ops.runs import frame_run
    from data_pipelines.records.source import RecordSource

    labels = [
        b["labels"][b["label_weights"] > 0].numpy() for b in Batches(RecordSource(records), frame_run(32), 1).once()
    ]
    tokenizer = WordPieceTokenizer(Vocabulary.read(zh_vocabulary))
    text = running_text.read_as_records(settings["input_file"], tokenizer, DETOKENIZERS["none"], settings)
    np.testing.assert_array_equal(np.concatenate(labels), text.ids[2:])  # the very first piece of records is no label
    assert text.ids[0] == text.ids[-1] == tokenizer.vocabulary["[SEP]"]
    assert (
        text.documents == (text.ids == tokenizer.vocabulary["[SEP]"]).sum() - 1
        and text.ideographs > text.characters / 2
    )


def test_documents_have_the_size_of_their_text_with_an_end_each(tmp_path):
    (tmp_path / "a.txt").write_text("One here.\nTwo  here.\n\nZwölf!\n", encoding="utf-8")
    settings = {"input_format": "sentences"}
    text = running_text.read_as_records(str(tmp_path / "a.txt"), byte_bpe(), DETOKENIZERS["none"], settings)
    whole = "One here. Two  here.\nZwölf!\n"
    sizes = (text.words, text.ends, text.bytes, text.characters, text.documents)
    assert sizes == (len(whole.split()), 2, len(whole.encode()), len(whole), 2)
    assert byte_bpe().decode(text.ids) == whole.replace("\n", "")
    (tmp_path / "words.txt").write_text("the <unk> didn't\n<unk> the -\n")
    words = WordTokenizer(Vocabulary([*SPECIAL_TOKENS, "the"]), segmenter="presegmented")
    text = running_text.read_as_records(
        str(tmp_path / "words.txt"), words, DETOKENIZERS["none"], {"input_format": "documents"}
    )
    assert len(text.ids) - 1 == text.words + text.ends == 8 and text.unknown == 4


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece", "characters", "words"])
def test_a_text_cut_into_parts_has_the_pieces_of_the_whole(kind, tmp_path, monkeypatch):
    text = "it was  here,\n\n\tand it's 天气 — zwölf\n it was   \n"
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] ▁ it ##s was her ##e and 天 气 , . ' s a i t w".split()
    kinds = {"wordpiece": WordPieceTokenizer, "characters": CharacterTokenizer, "words": WordTokenizer}
    tokenizer = byte_bpe() if kind == "byte_bpe" else kinds[kind](Vocabulary(words))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    whole = tokenizer.encode(text).ids
    for together in range(1, 12):
        monkeypatch.setattr(running_text, "TOGETHER", together)
        found = running_text.read_verbatim(str(tmp_path / "a.txt"), tokenizer, DETOKENIZERS["none"])
        assert found.ids[1:].tolist() == whole, together


@pytest.mark.parametrize(
    ("name", "tokenized", "natural"),
    [
        ("wikitext", "It 's 1 @.@ 5 @-@ inch , or $ 2 @,@ 000 ( 5 % ) ; he did n't .", "It's 1.5-inch, or $2,000 (5%); he didn't."),
        ("wikitext", 'He said , " no , " and " <unk> " .', 'He said, "no," and "<unk>".'),
        ("wikitext", "the dogs ' tails and a ' so called ' cat", "the dogs' tails and a 'so called' cat"),
        ("wikitext", " = = = Early life ( 1900 ) = = = \n\n text ", "=== Early life (1900) ===\n\ntext"),
        ("wikitext", "x = y and y = z", "x = y and y = z"),
        ("ptb", "`` Do n't , '' he said -LRB- 1\\/2 of it -RRB- .", '"Don\'t," he said (1/2 of it).'),
        ("ptb", "the company 's <unk> of $ N million", "the company's <unk> of $N million"),
        ("none", "did n't .", "did n't ."),
    ],
)  # fmt: skip
def test_detokenizers(name, tokenized, natural):
    assert DETOKENIZERS[name](tokenized) == natural


@pytest.mark.parametrize(
    ("losses", "kind", "expected"),
    [
        (("adaptive_lm",), "words", {"word_perplexity": 8.0}),
        (("causal_lm",), "byte_bpe", {"token_perplexity": 8.0}),
        (("causal_lm",), "characters", {"bits_per_character": 3.0}),
        (("masked_lm", "next_sentence"), "wordpiece", {}),
    ],
)
def test_training_says_what_its_loss_means(losses, kind, expected):
    means = {"loss": 9.0, "a_cost_of_layers": 9.0 - math.log(8), **dict.fromkeys(losses, math.log(8))}
    assert of_training(means, kind) == pytest.approx(expected)
    assert not of_training({"loss": 1e9, "causal_lm": 1e9}, "words")


# Networks with a memory


def test_a_long_enough_memory_equals_one_pass_whatever_the_segments(transformer_xl):
    scorer = eager(transformer_xl)
    ids = np.random.default_rng(0).integers(300, size=24).astype(np.int32)
    whole = losses_of(scorer, ids).sum()
    for length in (1, 5, 8, 23, 40):  # the last segment is short, or all there is
        assert streams.score(scorer, ids, length, 23, 1) == pytest.approx(whole, rel=1e-5)
    blocks = sum(losses_of(scorer, ids[begin : begin + 6]).sum() for begin in range(0, 23, 5))
    assert streams.score(scorer, ids, 5, 0, 1) == pytest.approx(blocks, rel=1e-5)
    assert not math.isclose(whole, blocks, rel_tol=1e-4)


@pytest.mark.long
def test_with_same_length_a_token_at_a_time_equals_segments(transformer_xl, tmp_path):
    (tmp_path / "a.txt").write_text(PROSE[:100], encoding="utf-8")
    flags = {"model_dir": transformer_xl, "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
    found = []
    for length in (1, 4, 9):
        assert invoke("evaluate", "--same_length", **flags, max_seq_length=length, mem_length=9, clamp_length=6) == 0
        found.append(json.loads((tmp_path / "scores.json").read_text()))
    assert [scores["nll"] for scores in found] == [pytest.approx(found[0]["nll"], rel=1e-5)] * 3
    assert found[0]["same_length"] is True and found[0]["clamp_length"] == 6


def test_streams_side_by_side_are_the_shares_of_the_text(transformer_xl):
    scorer = eager(transformer_xl)
    ids = np.random.default_rng(2).integers(300, size=24).astype(np.int32)  # 23 tokens: 8, 8 and 7
    apart = sum(streams.score(scorer, ids[begin : begin + 9], 3, 6, 1) for begin in (0, 8, 16))
    assert streams.score(scorer, ids, 3, 6, 3) == pytest.approx(apart, rel=1e-5)


@pytest.mark.long
def test_several_memories_make_a_table(transformer_xl, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(PROSE[:100], encoding="utf-8")
    flags = {"model_dir": transformer_xl, "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", **flags, max_seq_length=8, mem_length="0, 12,30") == 0
    table = json.loads((tmp_path / "scores.json").read_text())["results"]
    assert [row["mem_length"] for row in table] == [0, 12, 30]
    assert len({row["nll"] for row in table}) == 3
    assert invoke("evaluate", **flags, max_seq_length=8) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["mem_length"] == 12 and scores["nll"] == pytest.approx(table[1]["nll"])
    printed = capsys.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["30"] for line in printed) and "mem_length" in printed[2]


# Questions, under a network whose probabilities are known: those of pairs of neighbours


class Pairs(keras.Model):
    """The state of a token is its number, as a one-hot vector."""

    def __init__(self, size):
        super().__init__()
        self.config = types.SimpleNamespace(vocabulary_size=size, max_sequence_length=64, hidden_dim=size)

    def call(self, features, training=None):
        return {"sequence_output": ops.one_hot(features["token_ids"], self.config.vocabulary_size)}


class NamesNeighbours(CausalLM):
    def __init__(self, table):
        super().__init__()
        self.table = np.log(table).astype("float32")

    def logits(self, states, backbone):
        return ops.matmul(states, self.table)


WORDS = [*SPECIAL_TOKENS, "the", "cat", "dog", "sat", "ran", "hot", "##dog"]


def pairs_scorer(likely, unlikely=()):
    """Each of `likely`, (word, next word), has probability .5; what is left is spread evenly."""
    tokenizer = WordPieceTokenizer(Vocabulary(WORDS))
    ids = tokenizer.vocabulary.ids
    table = np.full((len(WORDS), len(WORDS)), 1 / len(WORDS))
    for word, following in likely:
        table[ids[word]] = 0.5 / (len(WORDS) - 1)
        table[ids[word], ids[following]] = 0.5
    scorer = Scorer(Pairs(len(WORDS)), NamesNeighbours(table), tokenizer, [ids[word] for word in unlikely])
    scorer.score = scorer._score
    return scorer


def test_a_last_word_is_right_where_each_of_its_tokens_is_the_likeliest():
    scorer = pairs_scorer([("cat", "sat"), ("the", "hot"), ("hot", "##dog"), ("dog", "the")])
    passages = [("the cat", " sat"), ("a the", " hotdog"), ("the dog", " sat"), ("the", " hot")]
    questions = [Question(context, [word], 0, "here") for context, word in passages]
    found, cut = likelihoods(scorer, questions, 64, 3)
    half, rest = -math.log(0.5), -math.log(0.5 / 11)
    assert [x.is_greedy for (x,) in found] == [True, True, False, True] and cut == 0
    np.testing.assert_allclose([x.loss for (x,) in found], [half, 2 * half, rest, half], rtol=1e-5)


def test_an_unlikely_word_is_passed_over_where_the_word_begins():
    scorer = pairs_scorer([("cat", "the"), ("hot", "##dog")], unlikely=["the", "hot"])
    scorer.objective.table[WORDS.index("cat"), WORDS.index("sat")] += 0.1  # the second likeliest
    questions = [Question("the cat", [" sat"], 0, "here"), Question("cat", [" the"], 0, "here")]
    assert [[x.is_greedy for (x,) in likelihoods(scorer, questions, 64, 3, restricted)[0]] for restricted in (False, True)] == [
        [False, True], [True, True],  # the command counts the stop word itself as wrong
    ]  # fmt: skip


def test_a_candidate_is_judged_with_the_rest_of_its_sentence():
    scorer = pairs_scorer([("dog", "ran"), ("the", "cat")])
    # After "the" the cat is likelier; that it is the dog that ran decides only if the rest counts.
    question = Question("the", [" cat ran", " dog ran"], 1, "here")
    ((cat, dog),), _ = likelihoods(scorer, [question], 64, 2)
    half, rest, even = -math.log(0.5), -math.log(0.5 / 11), math.log(12)
    np.testing.assert_allclose([cat.loss, dog.loss], [half + even, rest + half], rtol=1e-5)


def test_a_context_that_is_too_long_loses_its_beginning(gpt2):
    scorer = eager(gpt2)
    text = "one two three four five six seven eight nine ten eleven"
    ((found,),), cut = likelihoods(scorer, [Question(text, [" twelve"], 0, "here")], 10, 2)
    pieces = scorer.tokenizer.encode(f"{text} twelve").ids
    count = len(pieces) - len(scorer.tokenizer.encode(text).ids)
    assert cut == 1 and len(found.tokens) == count
    assert found.loss == pytest.approx(losses_of(scorer, pieces[-11:])[-count:].sum(), rel=1e-5)
    with pytest.raises(DataError, match="here: .* tokens to score, but the network reads 2 at most"):
        likelihoods(scorer, [Question("a", [" house and garden and more"], 0, "here")], 2, 1)


def test_passages_and_questions_are_read_in_their_usual_forms(tmp_path):
    (tmp_path / "lambada.txt").write_text("he did n't see the cat\n\nit was a dog\n")
    (tmp_path / "lambada.jsonl").write_text('{"text": "He didn\'t see the cat"}\n')
    plain = list(last_words(str(tmp_path / "lambada.txt"), DETOKENIZERS["ptb"]))
    assert [(q.context, q.options) for q in plain] == [("he didn't see the", [" cat"]), ("it was a", [" dog"])]
    assert next(last_words(str(tmp_path / "lambada.jsonl"))).options == [" cat"]
    story = "".join(f"{i} Sentence {i} .\n" for i in range(1, 21))
    (tmp_path / "cbt.txt").write_text((story + "21 `` XXXXX 's , '' he said .\tBen\t\tAnn|Ben|Cat\n\n") * 2)
    first, second = choices(str(tmp_path / "cbt.txt"), DETOKENIZERS["ptb"])
    assert first.context.startswith("Sentence 1. Sentence 2.") and first.context.endswith('Sentence 20. "')
    assert first.options == ["Ann's,\" he said.", "Ben's,\" he said.", "Cat's,\" he said."]
    assert first.answer == 1 and second.options == first.options
    rows = [
        {"context": "It rained .", "question": "We got XXXXX .", "candidates": ["dry", "wet"], "answer": "wet"},
        {"question": "XXXXX rained", "choices": ["It", "We"], "answer": 0},
    ]
    (tmp_path / "cbt.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = choices(str(tmp_path / "cbt.jsonl"))
    assert (first.context, first.options, first.answer) == ("It rained . We got", [" dry .", " wet ."], 1)
    assert (second.context, second.options, second.answer) == ("", ["It rained", "We rained"], 0)


def test_the_command_answers_questions(gpt2, tmp_path, capsys):
    (tmp_path / "lambada.txt").write_text("the house was here\nthe cat saw the\n")
    flags = {"model_dir": gpt2, "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", "--stop_word_filter", **flags, form="last_word", test_file=tmp_path / "lambada.txt") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["num_questions"] == 2 and scores["word_perplexity"] == pytest.approx(math.exp(scores["nll"] / 2))
    (tmp_path / "cbt.jsonl").write_text('{"question": "a XXXXX b", "candidates": ["x", "y"], "answer": "y"}\n')
    assert invoke("evaluate", **flags, form="choice", test_file=tmp_path / "cbt.jsonl") == 0
    assert json.loads((tmp_path / "scores.json").read_text())["chance"] == 0.5
    assert "2 questions · accuracy" in capsys.readouterr().out


# Folders and faults


def test_what_is_scored_follows_the_network(gpt2, transformer_xl, tmp_path):
    assert task_of(gpt2) == task_of(transformer_xl) == "language_model"
    assert task_of(write_hugging_face(tmp_path / "hf", "gpt2/lm_cache_generate")) == "language_model"
    write_model(str(tmp_path), Bert(BertConfig(9, 8, 1, 1, 8, max_sequence_length=8)).initialize())
    (tmp_path / "records").mkdir()
    (tmp_path / "records/manifest.json").write_text("{}")
    for path, message in (
        (str(tmp_path), "has no task.json, so it is a pretraining run"),
        ("nowhere", "no such run folder"),
        (str(tmp_path / "records"), "holds records, which --data_dir names, and is no run"),
    ):
        with pytest.raises(CheckpointError, match=message):
            task_of(path)


def test_a_folder_of_hugging_face_is_scored_as_the_model_it_was_made_of(gpt2, tmp_path):
    (tmp_path / "a.txt").write_text(PROSE, encoding="utf-8")
    assert invoke("convert_checkpoint", **{"from": gpt2, "to": f"hf:{tmp_path / 'hf'}"}) == 0
    found = []
    for name in (gpt2, f"hf:{tmp_path / 'hf'}"):
        flags = {"model_dir": name, "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
        assert invoke("evaluate", **flags) == 0
        found.append(json.loads((tmp_path / "scores.json").read_text())["nll"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    (tmp_path / "b.txt").write_text((tmp_path / "a.txt").read_text(), encoding="utf-16")
    assert invoke("evaluate", **flags | {"model_dir": gpt2, "test_file": tmp_path / "b.txt", "encoding": "utf-16"}) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["nll"] == found[0]


def test_faults_are_named(gpt2, transformer_xl, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("some text\n")
    (tmp_path / "blank.txt").write_text(" \n\n")
    (tmp_path / "a.tsv").write_text("text\nsome text\n")
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "cbt.jsonl").write_text('{"question": "no gap", "candidates": ["x", "y"], "answer": "y"}\n')
    (tmp_path / "answer.jsonl").write_text('{"question": "XXXXX", "candidates": ["x", "y"], "answer": "z"}\n')
    (tmp_path / "cbt.txt").write_text("1 One.\n3 Three.\n")
    (tmp_path / "cut.txt").write_text("1 One.\n")
    (tmp_path / "word.txt").write_text("word\n")
    (tmp_path / "bert").mkdir()
    write_model(str(tmp_path / "bert"), Bert(BertConfig(9, 8, 1, 1, 8, max_sequence_length=8)).initialize())
    bare = write_hugging_face(tmp_path / "bare", "gpt2/lm_cache_generate")
    text = {"test_file": tmp_path / "a.txt"}
    cases = [
        (3, "blank.txt: holds no words to score", {"test_file": tmp_path / "blank.txt"}),
        (2, "a.tsv: a table is not text to be read verbatim; give --input_format=tsv", {"test_file": tmp_path / "a.tsv"}),
        (3, "nowhere.txt: matches no file", {"test_file": tmp_path / "nowhere.txt"}),
        (3, "latin.txt, line 1: not valid UTF-8 at byte 4", {"test_file": tmp_path / "latin.txt"}),
        (2, "--max_seq_length=49: the network reads at most 48", {**text, "max_seq_length": 49}),
        (2, "--stride=20: more than a window of 16", {**text, "max_seq_length": 16, "stride": 20}),
        (2, "--mem_length: a Gpt2 has no memory", {**text, "mem_length": 3}),
        (2, "--mem_length=a few: expected whole numbers", {**text, "mem_length": "a few"}),
        (2, "--stride=2: a TransformerXL reads its text once", {**text, "model_dir": transformer_xl, "stride": 2}),
        (2, "--stride is for running text", {**text, "form": "last_word", "stride": 2}),
        (2, "--stop_word_filter is for --form=last_word", {**text, "stop_word_filter": True}),
        (2, "--label_column: --task=language_model has no such flag", {**text, "label_column": 1}),
        (3, "cut.txt: ends after sentence 1 of 21", {"test_file": tmp_path / "cut.txt", "form": "choice"}),
        (3, "word.txt, line 1: expected a passage, the last word", {"test_file": tmp_path / "word.txt", "form": "last_word"}),
        (4, "a Bert does not name the token that follows", {**text, "model_dir": tmp_path / "bert", "task": "language_model"}),
        (4, "bare: holds no vocabulary", {**text, "model_dir": bare}),
        (4, "no such checkpoint", {**text, "model_dir": tmp_path / "none", "task": "language_model"}),
        (3, "cbt.jsonl, line 1: expected one gap XXXXX in the question. Found 0",
         {"test_file": tmp_path / "cbt.jsonl", "form": "choice"}),
        (3, "the answer 'z' is none of the candidates: x, y", {"test_file": tmp_path / "answer.jsonl", "form": "choice"}),
        (3, "cbt.txt, line 2: expected sentence 2 of 21", {"test_file": tmp_path / "cbt.txt", "form": "choice"}),
    ]  # fmt: skip
    for code, message, flags in cases:
        assert invoke("evaluate", **({"model_dir": gpt2} | flags)) == code, message
        assert message in capsys.readouterr().err


def test_weights_that_are_not_finite_are_named(gpt2, tmp_path, capsys):
    shutil.copytree(gpt2, tmp_path / "broken", ignore=shutil.ignore_patterns("SHA256SUMS"))
    values = load_file(f"{gpt2}/weights.safetensors")
    values["backbone.norm.beta"][3] = np.nan
    save_file(values, tmp_path / "broken/weights.safetensors")
    (tmp_path / "a.txt").write_text("some text\n")
    assert invoke("evaluate", model_dir=tmp_path / "broken", test_file=tmp_path / "a.txt") == 4
    assert "weights.safetensors: backbone.norm.beta holds 1 of" in capsys.readouterr().err


def test_a_run_is_read_at_the_length_it_was_trained_on(gpt2, tmp_path, capsys):
    shutil.copytree(gpt2, tmp_path / "run/backbone")
    (tmp_path / "run/config.json").write_text(json.dumps({"settings": {"max_seq_length": 16}}))
    (tmp_path / "run/data_manifest.json").write_text(json.dumps({"settings": {"input_format": "documents"}}))
    (tmp_path / "a.txt").write_text("One text.\nAnd another.\n")
    flags = {"model_dir": tmp_path / "run", "test_file": tmp_path / "a.txt", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", **flags) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert (scores["max_seq_length"], scores["stride"], scores["num_documents"]) == (16, 8, 2)
    assert "Note" not in capsys.readouterr().out
    assert invoke("evaluate", **flags, max_seq_length=20, input_format="verbatim") == 0
    assert "the run was trained on 16 tokens" in capsys.readouterr().out
    assert json.loads((tmp_path / "scores.json").read_text())["num_documents"] == 1


def test_a_vocabulary_of_another_model_is_refused(gpt2, tmp_path, capsys):
    values = load_file(f"{gpt2}/weights.safetensors")
    config = json.loads(pathlib.Path(gpt2, "config.json").read_text())
    config["config"]["vocabulary_size"] -= 1
    (tmp_path / "other").mkdir()
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (tmp_path / "other" / name).write_bytes(pathlib.Path(gpt2, name).read_bytes())
    values["backbone.embedding.token.embeddings"] = values["backbone.embedding.token.embeddings"][:-1]
    save_file(values, tmp_path / "other/weights.safetensors")
    (tmp_path / "other/config.json").write_text(json.dumps(config))
    (tmp_path / "a.txt").write_text("some text\n")
    assert invoke("evaluate", model_dir=tmp_path / "other", test_file=tmp_path / "a.txt") == 4
    assert "are not of the same model" in capsys.readouterr().err
