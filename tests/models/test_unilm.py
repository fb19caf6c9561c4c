"""UniLM: four masks in one network and nothing that leaks, targets written as whole passes would, and the commands."""

import dataclasses
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.ops.unilm import frame_language_models, frame_source_and_target, mask_targets
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.vocabulary import MASK, SEP, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers import translation_run
from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_close
from xmodels.conversion import convert
from xmodels.conversion.positions import extend_positions
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.options import Decoding
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer
from xmodels.jobs.pretrain.start import adapt_checkpoint, check_start
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.ernie import Ernie, ErnieConfig
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.unilm import SIZES, Unilm, UnilmConfig
from xmodels.objectives import unilm
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.measures import smoothed_cross_entropy
from xmodels.objectives.next_sentence import NextSentence
from xmodels.runs.fine_tuned import Source
from xmodels.runs.loaded import in_memory
from xmodels.systems import unilm as system
from xmodels.tasks.base import find
from xmodels.tasks.translate import answer
from xmodels.tasks.translate.answer import Seq2SeqGenerator
from xmodels.training.recipe import Records

SMALL = UnilmConfig(60, 16, 2, 2, 32, max_sequence_length=24)
LENGTH, REAL = 9, 7
OBJECTIVES = {"bidirectional": 0, "left to right": 1, "right to left": 2, "seq2seq": 3}


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    backbone = Unilm(SMALL).initialize()
    rng = np.random.default_rng(0)
    for variable in backbone.variables:
        variable.assign(rng.normal(0, 0.4, variable.shape))
    return backbone


def batch_of(objective, source=4, rows=1):
    return {
        "token_ids": np.random.default_rng(1).integers(5, 60, (rows, LENGTH)).astype("int32"),
        "segment_ids": np.full((rows, LENGTH), 4, "int32"), "padding_mask": np.tile(np.arange(LENGTH) < REAL, (rows, 1)),
        "objective_ids": np.full(rows, objective, "int32"), "source_lengths": np.full(rows, source, "int32"),
    }  # fmt: skip


def seen(objective, source=4):
    return np.array(
        ops.broadcast_to(unilm.visible_of(batch_of(objective, source)).dense(LENGTH, LENGTH), (1, 1, LENGTH, LENGTH))
    )[0, 0]


def test_masks_are_those_of_the_paper():
    i, j = np.arange(LENGTH)[:, None], np.arange(LENGTH)[None]
    real = j < REAL
    assert np.array_equal(seen(0), real & (i >= 0))
    assert np.array_equal(seen(1), (j <= i) & real)
    assert np.array_equal(seen(2), (j >= i) & real)
    assert np.array_equal(seen(2)[:REAL, :REAL], seen(1)[:REAL, :REAL].T)
    for source in (0, 2, 4, REAL):
        assert np.array_equal(seen(3, source), ((j <= i) | (j < source)) & real)
    assert np.array_equal(seen(3, REAL)[:REAL], seen(0)[:REAL]) and np.array_equal(seen(3, 0), seen(1))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_nothing_leaks_into_a_state_that_its_token_may_not_see(name, network):
    """The gradient of each state by each embedding, through both layers."""
    batch = batch_of(OBJECTIVES[name])
    x = tf.constant(ops.convert_to_numpy(network.embed(batch)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        states = x
        for block in network.blocks:
            states = block(states, visible=unilm.visible_of(batch))
        mixed = tf.reduce_sum(states * tf.range(1.0, 17.0), axis=-1)  # (1, L)
    found = np.abs(tape.batch_jacobian(mixed, x).numpy()[0]).max(axis=-1)  # (L, L)
    may = seen(OBJECTIVES[name]) | np.eye(LENGTH, dtype=bool)  # a state holds its own embedding, also of padding
    assert np.array_equal(found[:REAL] > 1e-6, may[:REAL]) and not found[:REAL][~may[:REAL]].any()


def test_without_an_objective_it_is_bert(network):
    bert = Bert(BertConfig(**{f.name: getattr(SMALL, f.name) for f in dataclasses.fields(BertConfig)})).initialize()
    bert.set_weights(network.get_weights())
    batch = batch_of(0)
    for name, value in bert(batch).items():
        np.testing.assert_array_equal(np.array(value), np.array(network(batch)[name]))
        np.testing.assert_array_equal(
            np.array(value), np.array(network(batch, visible=unilm.visible_of(batch))[name]), err_msg="bidirectional"
        )


def types():
    return Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(0x4E00, 0x4E00 + 55))])


def records_of_pairs(count):
    """Records with 4 and 3 pieces, of which every second has a random second segment."""
    ids = np.arange(10, 17, dtype="int64") * np.ones((count, 1), "int64")
    labels = np.arange(count) % 2
    return {
        "token_ids": ids,
        "segment_lengths": np.array([[4, 3]] * count),
        "next_sentence_labels": labels.astype("int64"),
    }


def test_a_batch_has_one_model_with_the_shares_of_the_paper():
    source = ArraySource(records_of_pairs(64), "pairs")
    keep = ("objective_ids", "token_ids", "padding_mask", "segment_ids", "source_lengths", "next_sentence_labels")
    batches = Batches(source, frame_language_models(types(), 12), 4, 3, keep)
    whole = [batch["objective_ids"].numpy() for batch in batches.training().take(6000)]
    assert all(len(set(batch.tolist())) == 1 for batch in whole)
    shares = np.bincount([batch[0] for batch in whole]) / len(whole)
    np.testing.assert_allclose(shares, [1 / 3, 1 / 6, 1 / 6, 1 / 3], atol=0.015)
    again = [batch["objective_ids"].numpy()[0] for batch in batches.training(consumed=40, first_batch=10).take(20)]
    assert again == [batch[0] for batch in whole[10:30]]
    halves = [batch["objective_ids"].numpy()[0] for batch in batches.training(per_batch=2).take(40)]
    assert halves == [batch[0] for batch in whole[:20] for _ in range(2)]
    other = Batches(source, frame_language_models(types(), 12), 4, 4, keep).training()
    assert [batch["objective_ids"].numpy()[0] for batch in other.take(20)] != [batch[0] for batch in whole[:20]]
    scored = np.concatenate([batch["objective_ids"].numpy() for batch in batches.once()])
    assert set(scored.tolist()) == {0, 1, 2, 3}


def test_rows_of_each_model():
    """A second segment that does not follow is seen by the bidirectional model alone."""
    op, found = frame_language_models(types(), 12), {}
    features = {name: tf.constant(value) for name, value in records_of_pairs(400).items()}
    features["batch_seed"] = tf.cast(tf.range(400), tf.uint64)
    for name, value in op(features).items():
        found[name] = value.numpy()
    for row in range(400):
        objective, follows = found["objective_ids"][row], row % 2 == 0
        ids = found["token_ids"][row][found["padding_mask"][row]].tolist()
        segments = found["segment_ids"][row][found["padding_mask"][row]].tolist()
        if objective == 0:
            assert ids == [2, 10, 11, 12, 13, 3, 14, 15, 16, 3] and segments == [0] * 6 + [1] * 4
        elif objective == 3:
            source = 6 if follows else 4
            assert ids == ([2, 10, 11, 12, 13, 3, 14, 15, 16, 3] if follows else [2, 10, 11, 3, 12, 13, 3])
            assert segments == [4] * source + [5] * (len(ids) - source) and found["source_lengths"][row] == source
        else:
            assert ids == [2, *range(10, 17 if follows else 14), 3] and set(segments) == {objective + 1}


def test_of_pairs_only_the_target_is_hidden_and_its_end_too():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 10, (3000, 2))
    features = {
        "token_ids": tf.constant(rng.integers(5, 60, (3000, 20))), "segment_lengths": tf.constant(lengths),
        "seed": tf.cast(tf.range(3000), tf.uint64),
    }  # fmt: skip
    framed = frame_source_and_target(types(), 23)(features)
    clean, found = framed["token_ids"].numpy(), mask_targets(types(), 0.7, 20)(framed)
    places, weights = found["mask_positions"].numpy(), found["label_weights"].numpy() > 0
    source, end = lengths[:, :1] + 2, lengths.sum(axis=1, keepdims=True) + 2
    assert (places >= source)[weights].all() and (places <= end)[weights].all()
    assert np.array_equal(weights.sum(axis=1), np.maximum(1, np.round(0.7 * lengths[:, 1])))
    ends = ((places == end) & weights).any(axis=1).mean()
    assert ends == pytest.approx((np.maximum(1, np.round(0.7 * lengths[:, 1])) / (lengths[:, 1] + 1)).mean(), abs=0.03)
    masked = np.take_along_axis(found["token_ids"].numpy(), places, 1)[weights]
    assert (masked == types()[MASK]).mean() == pytest.approx(0.8, abs=0.02)
    assert np.array_equal(clean[np.arange(23) < source], found["token_ids"].numpy()[np.arange(23) < source])
    assert (clean[np.arange(3000), end[:, 0]] == types()[SEP]).all()


def test_pairs_are_asked_about_where_both_segments_are_seen(network):
    objective = unilm.Unilm(SMALL)
    batch = batch_of(0, rows=4) | {
        "objective_ids": np.arange(4, dtype="int32"), "next_sentence_labels": np.array([1, 0, 1, 0]), "example_weights": np.ones(4),
        "mask_positions": np.full((4, 1), 2, "int32"), "labels": np.full((4, 1), 7, "int32"), "label_weights": np.ones((4, 1)),
    }  # fmt: skip
    losses, metrics = objective.score(objective.forward(network, batch), batch, network)
    assert float(losses["next_sentence"][1]) == 1 and float(losses["masked_lm"][1]) == 4
    first = {name: value[:1] for name, value in batch.items()}
    alone, _ = objective.score(objective.forward(network, first), first, network)
    assert float(losses["next_sentence"][0]) == pytest.approx(float(alone["next_sentence"][0]), rel=1e-5)


def test_smoothed_labels_leave_padding_out():
    logits, size = np.random.default_rng(0).normal(size=(1, 7)).astype("float32"), 7
    target = np.full(size, 0.1 / (size - 2))
    target[0], target[3] = 0.0, 0.9
    logs = logits[0] - np.log(np.exp(logits[0]).sum())
    expected = sum(t * (np.log(t) - p) for t, p in zip(target, logs, strict=True) if t)
    found, weight = smoothed_cross_entropy(np.array([3]), logits, np.ones(1, "float32"), 0.1, 0)
    assert float(found) == pytest.approx(expected, rel=1e-5) and float(weight) == 1


@pytest.fixture(scope="module")
def writer():
    """A generator with random weights."""
    tokenizer = WordPieceTokenizer(Vocabulary([*translation_run.SPECIAL, *translation_run.WORDS]))
    config = UnilmConfig(len(tokenizer.vocabulary), 16, 2, 2, 24, max_sequence_length=24)
    backbone = Unilm(config).initialize()
    loaded = in_memory(backbone, tokenizer, "unilm")
    head = unilm.NextToken(config)
    rng = np.random.default_rng(5)
    for variable in (*backbone.variables, *head.variables):
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return Seq2SeqGenerator(dataclasses.replace(loaded, heads=folder.values_of(head.prefix, head)))


def logits_of(writer, source, targets):
    """A whole pass over the source, targets so far (N, T), and a `[MASK]` behind: (N, V)."""
    mask, width = writer.tokenizer.vocabulary[MASK], len(source)
    ids = np.array([[*source, *target, mask] for target in targets], "int32")
    batch = {
        "token_ids": ids, "padding_mask": np.ones(ids.shape, bool), "source_lengths": np.full(len(ids), width),
        "segment_ids": np.where(np.arange(ids.shape[1]) < width, 4, 5) * np.ones_like(ids), "objective_ids": np.full(len(ids), 3),
    }  # fmt: skip
    states = writer.backbone(batch, visible=unilm.visible_of(batch))["sequence_output"][:, -1]
    return np.array(writer.logits(states))


TEXTS = ["the dog ran", "a big green house", "", "it sat in the small red house and they ran", "cat"]


def test_what_is_cached_gives_the_logits_of_whole_passes(writer):
    """Also with sources of several lengths in a batch: targets go on at the place where their own source ends."""
    sources = [writer.source_ids(text) for text in TEXTS if text]
    width, end = max(map(len, sources)), writer.end_id
    padded = np.array([source + [0] * (width - len(source)) for source in sources], "int32")
    lengths = np.array([len(source) for source in sources])
    targets = np.random.default_rng(0).integers(5, 20, (len(sources), 6)).astype("int32")
    features = {
        "token_ids": padded, "padding_mask": np.arange(width) < lengths[:, None],
        "mask_ids": np.full(len(sources), writer.tokenizer.vocabulary[MASK], "int32"),
    }  # fmt: skip
    past = writer.backbone.start(features, 7)
    for position in range(7):
        token = np.full((len(sources), 1), end) if position == 0 else targets[:, position - 1 : position]
        state, past = writer.backbone.decode(ops.cast(token, "int32"), past, position)
        found = np.array(writer.logits(state[:, 0]))
        for row, source in enumerate(sources):
            expected = logits_of(writer, source, [targets[row, :position]])[0]
            assert_close(found[row], expected, f"row {row}, token {position}", atol=1e-4, rtol=1e-5)


def masked_logits(writer, source, targets):
    logits = logits_of(writer, source, targets)
    logits[:, list(writer.forbidden)] = -1e9
    return logits


@pytest.mark.long
def test_targets_are_those_of_whole_passes(writer):
    found = writer.generate(TEXTS, Decoding(temperature=0.0), batch_size=5)
    for text, target in zip(TEXTS, found, strict=True):
        source, ids = writer.source_ids(text), []
        while text and len(ids) < writer.limit(len(source), None) and (not ids or ids[-1] != writer.end_id):
            ids.append(int(masked_logits(writer, source, [ids])[0].argmax()))
        assert target == writer.spell(ids), text
    assert len(set(found)) > 2


def test_beams_are_those_of_whole_passes(writer):
    source = writer.source_ids(TEXTS[0])

    def step(token_ids, position, state):
        return masked_logits(writer, source, np.array(token_ids)[:, 1 : int(position) + 1].tolist()), state

    most = writer.limit(len(source), 6)
    ids, _ = beam_search(step, (), np.array([writer.start_id], np.int32), 3, most, writer.end_id, gnmt_penalty(0.6))
    found = writer.generate(TEXTS[:1], Decoding(temperature=0.0, num_beams=3), 6)
    assert found == [writer.spell(np.array(ids)[0, 0, 1:].tolist())]


def with_rules(logits, targets, end, size, least):
    """The logits of the next tokens, where none may complete a run of `size` tokens twice, or end before `least` tokens."""
    for row, target in zip(logits, targets, strict=True):
        runs = {tuple(target[first : first + size]) for first in range(len(target) - size + 1)}
        last = tuple(target[len(target) - size + 1 :])
        for token in range(len(row)):
            if (*last, token) in runs or (token == end and len(target) < least):
                row[token] = -1e9
    return logits


@pytest.mark.long
@pytest.mark.parametrize(
    ("beams", "size", "least"),
    [(5, 3, 6), *(pytest.param(*each, marks=pytest.mark.long) for each in ((5, 2, 0), (3, 1, 9))), (1, 2, 8)],
)
def test_a_least_length_and_runs_that_come_once_are_those_of_whole_passes(writer, beams, size, least):
    """The paper's decoding of summaries has 5 beams, no trigram twice, and a least length."""
    text = TEXTS[3]
    source, most = writer.source_ids(text), 10

    def step(token_ids, position, state):
        targets = np.array(token_ids)[:, 1 : int(position) + 1].tolist()
        return with_rules(masked_logits(writer, source, targets), targets, writer.end_id, size, least), state

    rules = {"no_repeat_ngram_size": size, "min_new_tokens": least}
    found = writer.generate([TEXTS[0], text], Decoding(temperature=0.0, num_beams=beams, **rules), most)[1]
    start = np.array([writer.start_id], np.int32)
    if beams > 1:
        ids, _ = beam_search(step, (), start, beams, most, writer.end_id, gnmt_penalty(0.6))
        expected = np.array(ids)[0, 0, 1:].tolist()
    else:
        expected = []
        for position in range(most):
            expected.append(int(step(np.array([[start[0], *expected]]), position, ())[0][0].argmax()))
            if expected[-1] == writer.end_id:
                break
    assert found == writer.spell(expected)
    written = expected[: expected.index(writer.end_id)] if writer.end_id in expected else expected
    runs = [tuple(written[first : first + size]) for first in range(len(written) - size + 1)]
    assert len(written) >= least and len(set(runs)) == len(runs)
    free = writer.generate([text], Decoding(temperature=0.0, num_beams=beams), most)[0]
    assert found != free, "the rules change nothing here"


def test_source_and_target_share_the_positions(writer):
    """24 of them: a long source leaves a quarter of them to its target."""
    cut = writer.source_ids(" ".join(["dog"] * 60))
    assert len(cut) == writer.longest == 18 and cut[0] == writer.opening[0] and cut[-1] == writer.end_id
    assert writer.limit(18, None) == 6 and writer.limit(4, 3) == 3
    writer.generate([" ".join(["dog"] * 60)], Decoding(temperature=0.0))


def count(config):
    width, inner, vocabulary = config.hidden_dim, config.intermediate_dim, config.vocabulary_size
    block = 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
    tables = vocabulary + config.max_sequence_length + config.num_segments
    network = (tables + 2) * width + config.num_layers * block + width * (width + 1)
    return network, network + width * (width + 1) + 2 * width + vocabulary + 2 * (width + 1)


def test_sizes_have_the_published_numbers_of_parameters(network):
    assert network.count_params() == count(SMALL)[0]
    assert count(UnilmConfig(28_996, **SIZES["base"])) == (108_313_344, 108_936_006)
    assert count(UnilmConfig(28_996, **SIZES["large"])) == (333_583_360, 334_666_054)


def test_records_that_do_not_fit_are_named():
    vocabulary, config = types(), dataclasses.replace(SMALL, max_sequence_length=32)
    with pytest.raises(UsageError, match="--max_seq_length=15"):
        system.recipe(vocabulary, Records(sequence_length=16, packing="parallel"), config=config)
    with pytest.raises(UsageError, match="without --masking=static"):
        system.recipe(vocabulary, Records(sequence_length=16, static=True), config=config)
    for wrong in ({"ngrams": 1.5}, {"target_masking_rate": 0.0}, {"label_smoothing": 1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            system.Options(**wrong)


def test_it_begins_as_a_bert():
    """The released code copies the rows of the segments: 2, 3 and 4 from 0, and 5 from 1."""
    values = {n: getattr(SMALL, n) for n in (f.name for f in dataclasses.fields(BertConfig))} | {"num_segments": 2}
    bert = Bert(BertConfig(**values)).initialize()
    checkpoint = Checkpoint("bert", bert.config, folder.values_of("backbone", bert))
    found = adapt_checkpoint(checkpoint, Unilm)
    check_start(found, "a BERT", Unilm, SMALL, None)
    table, rows = (each.values["backbone.embedding.segment.embeddings"] for each in (found, checkpoint))
    assert np.array_equal(table, rows[[0, 1, 0, 0, 0, 1]])
    begun = Unilm(found.config).initialize()
    folder.assign("backbone", begun, found.values, "a BERT")
    batch = batch_of(0) | {"segment_ids": np.tile(np.arange(LENGTH) >= 4, (1, 1)).astype("int32")}
    for given in (batch, batch | {"segment_ids": batch["segment_ids"] + 4}):
        np.testing.assert_array_equal(
            np.array(begun(given)["sequence_output"]), np.array(bert(batch)["sequence_output"])
        )
    assert adapt_checkpoint(checkpoint, Bert) == checkpoint
    with pytest.raises(CheckpointError, match="holds the network 'bert'"):
        check_start(adapt_checkpoint(checkpoint, Ernie), "a BERT", Ernie, ErnieConfig(**values), None)


def test_more_positions_begin_as_the_first_ones_again():
    """The released code copies the table as often as it needs."""
    checkpoint = Checkpoint("unilm", SMALL, folder.values_of("backbone", Unilm(SMALL).initialize()))
    before, longer = SMALL.max_sequence_length, 2 * SMALL.max_sequence_length + 3
    wanted = dataclasses.replace(SMALL, max_sequence_length=longer)
    with pytest.raises(CheckpointError, match="is of another size.* --extend_positions makes the positions"):
        check_start(adapt_checkpoint(checkpoint, Unilm), "one", Unilm, wanted, None)
    found = adapt_checkpoint(checkpoint, Unilm, longer)
    check_start(found, "one", Unilm, wanted, None)
    table, rows = (each.values["backbone.embedding.position.embeddings"] for each in (found, checkpoint))
    assert np.array_equal(table, np.concatenate([rows, rows, rows[:3]]))
    network, original = (Unilm(each.config).initialize() for each in (found, checkpoint))
    folder.assign("backbone", network, found.values, "longer")
    folder.assign("backbone", original, checkpoint.values, "shorter")
    batch = batch_of(3)
    assert_close(network(batch)["sequence_output"], original(batch)["sequence_output"], atol=0)
    wide = {name: np.concatenate([value, value], axis=1) if value.ndim > 1 else value for name, value in batch.items()}
    assert network(wide)["sequence_output"].shape[1] == 2 * LENGTH
    assert extend_positions(checkpoint, before) is checkpoint and extend_positions(checkpoint, 3) is checkpoint


def test_rows_that_are_no_position_are_not_copied():
    config = RobertaConfig(20, 8, 1, 2, 16, max_sequence_length=6)
    checkpoint = Checkpoint("roberta", config, folder.values_of("backbone", Roberta(config).initialize()))
    name = "backbone.embedding.position.embeddings"
    rows, found = checkpoint.values[name], extend_positions(checkpoint, 9)
    first = config.first_position
    assert np.array_equal(found.values[name], np.concatenate([rows, rows[first : first + 3]]))
    folder.assign("backbone", Roberta(found.config).initialize(), found.values, "longer")


@pytest.mark.long
def test_a_fine_tuning_reads_longer_texts_where_it_is_told_to(small_bert, tmp_path, capsys):
    most = convert.load(str(small_bert)).config.max_sequence_length
    flags = {
        "task": "classify", "init_checkpoint": small_bert, "train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "run",
        "max_seq_length": most + 8, "num_train_epochs": 0.1, "train_batch_size": 8, "jit_compile": "false",
    }  # fmt: skip
    assert invoke("finetune", **flags) == UsageError.exit_code
    assert f"the network has {most} positions" in (said := capsys.readouterr().err) and "--extend_positions" in said
    assert invoke("finetune", **flags, extend_positions=True) == 0
    assert f"its {most} positions are extended to {most + 8}" in capsys.readouterr().out
    assert convert.load(str(tmp_path / "run")).config.max_sequence_length == most + 8
    assert invoke("predict", model_dir=tmp_path / "run", text="好" * (most + 4)) == 0


def random_checkpoint(zh_vocabulary):
    tokenizer = TokenizerFiles(
        {"vocab.txt": pathlib.Path(zh_vocabulary).read_bytes()}, {"tokenizer": "wordpiece", "do_lower_case": True}
    )
    config = dataclasses.replace(SMALL, vocabulary_size=len(tokenizer.open().vocabulary))
    backbone, batch = Unilm(config).initialize(), convert.example_batch(config)
    heads = MaskedLM(config), NextSentence(config)
    heads[0].logits(backbone(batch), batch, backbone)
    heads[1].head(backbone(batch)["pooled_output"])
    values = folder.values_of("backbone", backbone)
    for head in heads:
        values |= folder.values_of(head.prefix, head)
    rng = np.random.default_rng(0)
    values = {name: rng.normal(0, 0.2, value.shape).astype("float32") for name, value in values.items()}
    return Checkpoint("unilm", config, values, tokenizer, frozenset({"masked_lm", "next_sentence"})), batch


def test_hugging_faces_names_are_bert_s_with_six_segments(zh_vocabulary, tmp_path):
    checkpoint, _ = random_checkpoint(zh_vocabulary)
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (stored["model_type"], stored["type_vocab_size"], stored["architectures"]) == (
        "bert",
        6,
        ["BertForPreTraining"],
    )
    back = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert (back.model, back.config, back.heads) == ("unilm", checkpoint.config, checkpoint.heads)
    assert all(np.array_equal(back.values[name], value) for name, value in checkpoint.values.items())
    (tmp_path / "theirs/config.json").write_text(json.dumps(stored | {"type_vocab_size": 2}))
    assert convert.model_of(f"hf:{tmp_path / 'theirs'}") == "bert"


def test_an_epsilon_of_bert_in_a_folder_of_unilm_is_told(zh_vocabulary, tmp_path):
    checkpoint, _ = random_checkpoint(zh_vocabulary)
    folder_of = tmp_path / "theirs"
    convert.save(checkpoint, f"hf:{folder_of}")
    stored = json.loads((folder_of / "config.json").read_text())
    for epsilon, doubtful in ((1e-12, True), (1e-5, False), (None, False)):
        given = {name: value for name, value in stored.items() if name != "layer_norm_eps"}
        given |= {} if epsilon is None else {"layer_norm_eps": epsilon}
        (folder_of / "config.json").write_text(json.dumps(given))
        back = convert.load(f"hf:{folder_of}")
        assert back.config.layer_norm_epsilon == (epsilon or 1e-5)
        assert any("`layer_norm_eps` is 1e-12" in warning for warning in back.warnings) == doubtful


@pytest.mark.extra("torch", "transformers")
def test_transformers_computes_the_same_from_what_we_write(zh_vocabulary, tmp_path):
    import torch
    import transformers

    checkpoint, batch = random_checkpoint(zh_vocabulary)
    convert.save(checkpoint, f"hf:{tmp_path}/theirs")
    network = transformers.BertForPreTraining.from_pretrained(str(tmp_path / "theirs"))
    mask = torch.from_numpy(np.where(seen(3), 0.0, -1e4).astype("float32")).expand(2, 1, LENGTH, LENGTH)
    ids = batch["token_ids"][:, :LENGTH]
    segments = np.full_like(ids, 4)
    with torch.no_grad():
        found = network(torch.from_numpy(ids), mask, torch.from_numpy(segments))
    backbone = Unilm(checkpoint.config).initialize()
    folder.assign("backbone", backbone, checkpoint.values, "x")
    given = batch_of(3, rows=2) | {"token_ids": ids, "segment_ids": segments}
    head = MaskedLM(checkpoint.config)
    given["mask_positions"] = np.tile(np.arange(LENGTH, dtype="int32"), (2, 1))
    outputs = backbone(given, visible=unilm.visible_of(given))
    head.logits(outputs, given, backbone)
    folder.assign(head.prefix, head, checkpoint.values, "x")
    real = np.tile(np.arange(LENGTH) < REAL, (2, 1))
    assert_close(head.logits(outputs, given, backbone), found.prediction_logits.numpy(), "logits", real)


SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"


@pytest.fixture(scope="module")
def pretrained(zh_vocabulary, tmp_path_factory):
    """A model folder with random weights and 24 positions, and a table beside it."""
    base, tokenizer = tmp_path_factory.mktemp("pretrained"), open_tokenizer(zh_vocabulary)
    config = dataclasses.replace(SMALL, vocabulary_size=len(tokenizer.vocabulary))
    (base / "unilm").mkdir()
    parts = Unilm(config).initialize(), unilm.NextToken(config)
    folder.write_model(str(base / "unilm"), *parts, tokenizer.files(), tokenizer.describe(), "unilm")
    (base / "table.tsv").write_text("text\ttext_pair\n" + "今天天气很好\t天气\n我们去公园\t公园\n" * 4, "utf-8")
    return base / "unilm"


def tune(pretrained, run, **flags):
    given = {
        "task": "translate", "init_checkpoint": pretrained, "train_file": pretrained.parent / "table.tsv", "model_dir": run,
        "max_seq_length": 16, "max_target_length": 8, "train_batch_size": 4, "num_train_epochs": 0.5, "jit_compile": "false",
        "learning_rate": 0.0, "prefix": "学",
    }  # fmt: skip
    return invoke("finetune", **given | flags)


@pytest.mark.long
def test_a_table_of_pairs_is_learnt_from_the_head_of_the_pretraining(pretrained, tmp_path, capsys):
    table = pretrained.parent / "table.tsv"
    assert tune(pretrained, tmp_path / "run", eval_file=table) == 0
    assert "best masked_lm_accuracy" in capsys.readouterr().out
    before, after = (load_file(path / "weights.safetensors") for path in (pretrained, tmp_path / "run/backbone"))
    assert before.keys() == after.keys() and "objective.masked_lm.head.dense.kernel" in after
    assert all(np.array_equal(before[name], after[name]) for name in before)  # a rate of 0
    written, plain = (answer.load(Source(str(path))) for path in (tmp_path / "run", pretrained))
    assert written.prefix == "学" and written.generate(["今天"]) == plain.generate(["学今天"])


def test_rows_of_a_table_are_those_of_records(pretrained):
    options = finetune.Options(
        task="translate", init_checkpoint=str(pretrained), train_file=str(pretrained.parent / "table.tsv"), model_dir="run",
        max_seq_length=7, max_target_length=4,
    )  # fmt: skip
    reader = find.load_part("translate", "read").Reader("translate", options)
    loaded, tokenizer = load_checkpoint_and_tokenizer(options, reader)
    data = reader.read(tokenizer)
    task, vocabulary = reader.task(loaded.config, data), tokenizer.vocabulary
    arrays = {name: tf.constant(value) for name, value in data.source.arrays.items()}
    batch = task.transform()({**arrays, "seed": tf.cast(tf.range(8), tf.uint64)})
    cls, end = vocabulary["[CLS]"], vocabulary["[SEP]"]
    first = [cls, *tokenizer.encode("今天天气很").ids, end, *tokenizer.encode("天气").ids, end]  # the source is cut
    shown, real = batch["token_ids"].numpy(), batch["padding_mask"].numpy()
    np.testing.assert_array_equal(real, data.source.arrays["padding_mask"])
    assert real[0].sum() == len(first) == 10 and real.shape == (8, 11)
    for row in range(8):
        positions, weights = batch["mask_positions"][row].numpy(), batch["label_weights"][row].numpy() > 0
        shown[row, positions[weights]] = batch["labels"][row].numpy()[weights]
        assert (positions[weights] >= batch["source_lengths"][row].numpy()).all() and weights.any()
    assert shown[0, real[0]].tolist() == first and batch["source_lengths"][0] == 7
    assert batch["segment_ids"][0].numpy()[real[0]].tolist() == [4] * 7 + [5] * 3


def test_what_does_not_suit_one_row_is_said(pretrained, tmp_path, capsys):
    run = tmp_path / "run"
    assert tune(pretrained, run, max_target_length=9) == UsageError.exit_code
    assert "together 25, but source and target share the 24 positions of a unilm" in capsys.readouterr().err
    assert tune(pretrained, run, length_buckets="auto") == UsageError.exit_code
    assert "--length_buckets=auto: not for a unilm" in capsys.readouterr().err


@pytest.mark.long
def test_positions_are_extended_for_longer_rows(pretrained, tmp_path, capsys):
    run = tmp_path / "run"
    assert tune(pretrained, run, max_seq_length=24, extend_positions=True) == 0
    assert "its 24 positions are extended to 32" in capsys.readouterr().out
    assert convert.load(str(run)).config.max_sequence_length == 32


RUN = {
    "system": "unilm", "size": "tiny", "train_batch_size": 8, "num_train_steps": 4, "eval_steps": 1, "jit_compile": "false",
    "set": "hidden_dim=16,num_layers=1,intermediate_dim=32,max_sequence_length=80", "learning_rate": 1e-3,
}  # fmt: skip


@pytest.mark.long
def test_from_text_to_a_writer_and_to_a_classifier(records, parallel_records, tmp_path, capsys):
    assert invoke("pretrain", data_dir=records, model_dir=tmp_path / "first", **RUN) == 0
    assert "language model" in (tmp_path / "first/report.html").read_text("utf-8")
    more = RUN | {"init_checkpoint": tmp_path / "first", "model_dir": tmp_path / "writer", "extend_positions": True}
    more["set"] = more["set"].replace("=80", "=100")
    assert invoke("pretrain", data_dir=parallel_records, **more) == 0
    assert (
        invoke("pretrain", data_dir=parallel_records, length_buckets="auto", **more | {"model_dir": tmp_path / "no"})
        == 2
    )
    said = capsys.readouterr().out
    assert "its 80 positions are extended to 100" in said
    assert "with heads masked_lm" in said and "not used here: next_sentence" in said
    before, after = (load_file(tmp_path / name / "backbone/weights.safetensors") for name in ("first", "writer"))
    assert not np.array_equal(before["objective.masked_lm.head.bias"], after["objective.masked_lm.head.bias"])
    assert invoke("translate", model_dir=tmp_path / "writer", text="今天天气很好。", max_new_tokens=5, num_beams=2) == 0
    assert (
        invoke(
            "export_model",
            model_dir=tmp_path / "writer",
            export_dir=tmp_path / "served",
            serving_ops="text",
            min_new_tokens=3,
        )
        == 0
    )
    assert "A translation has at least 3 tokens" in (tmp_path / "served/README.md").read_text("utf-8")
    flags = {"task": "classify", "init_checkpoint": tmp_path / "first", "train_file": SAMPLES / "train.tsv"}
    numbers = {"max_seq_length": 16, "train_batch_size": 8, "num_train_epochs": 0.02, "jit_compile": "false"}
    assert invoke("finetune", model_dir=tmp_path / "classifier", **flags, **numbers) == 0
