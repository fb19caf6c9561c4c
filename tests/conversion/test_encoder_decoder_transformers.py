"""What we write of BART, T5 and Marian is read by `transformers`, which computes, writes and tokenizes the same."""

import json
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from data_pipelines.text.frames import ROBERTA, T5
from data_pipelines.text.framing import pack
from tests.helpers.parity import assert_close
from xmodels.conversion import convert
from xmodels.conversion.tokenizer_writing import as_pair
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import beam_search_targets
from xmodels.interfaces.reading import BART_READING
from xmodels.models import bart, folder, marian, t5
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.classify.task import Classify

TOKENIZERS = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
SMALL_BART = {
    "hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 24, "max_sequence_length": 30, "num_decoder_layers": 1,
}  # fmt: skip
SMALL_T5 = {
    "hidden_dim": 16, "num_layers": 2, "num_heads": 3, "intermediate_dim": 24, "head_dim": 4, "num_buckets": 8,
    "max_distance": 12,
}  # fmt: skip
VERSION_1_1 = {"gated": True, "tied_output": False, "scaled_output": False, "activation": "gelu_tanh"}


def byte_bpe():
    names = ("vocab.json", "byte_bpe_vocab.json"), ("merges.txt", "byte_bpe_merges.txt")
    files = {ours: (TOKENIZERS / golden).read_bytes() for ours, golden in names}
    return TokenizerFiles(files, {"tokenizer": "byte_bpe", "do_lower_case": False, "add_prefix_space": False})


def sentence_pieces():
    files = {"spiece.model": (TOKENIZERS.parent / "t5/unigram.model").read_bytes()}
    return TokenizerFiles(files, {"tokenizer": "sentencepiece", "num_sentinels": 100})


def pair_of_models():
    return as_pair(TokenizerFiles(sentence_pieces().files, {"tokenizer": "sentencepiece"}))


CASES = {
    "marian": (marian.Marian, marian.MarianConfig, SMALL_BART, pair_of_models, T5),
    "bart": (bart.Bart, bart.BartConfig, SMALL_BART, byte_bpe, ROBERTA),
    "t5": (t5.T5, t5.T5Config, SMALL_T5, sentence_pieces, T5),
    "t5_1_1": (t5.T5, t5.T5Config, SMALL_T5 | VERSION_1_1, sentence_pieces, T5),
}


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    """Our network with random weights, and that of `transformers` from the folder that we wrote."""
    import transformers

    kind, config_class, numbers, make_tokenizer, frame = CASES[request.param]
    tokenizer = make_tokenizer()
    config = config_class(vocabulary_size=len(tokenizer.open().vocabulary), **numbers)
    keras.utils.set_random_seed(3)
    backbone = kind(config).initialize()
    generator = np.random.default_rng(0)
    values = folder.values_of("backbone", backbone)
    values = {name: generator.normal(0, 0.4, value.shape).astype("float32") for name, value in values.items()}
    folder.assign("backbone", backbone, values, "random")
    path = tmp_path_factory.mktemp(request.param) / "theirs"
    checkpoint = Checkpoint(request.param.split("_")[0], config, values, tokenizer)
    convert.save(checkpoint, f"hf:{path}")
    architecture = json.loads((path / "config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(str(path), output_loading_info=True)
    assert not any(report.values())
    return backbone, network.eval(), str(path), frame, tokenizer.open()


def batch_of(backbone):
    rng, size = np.random.default_rng(1), backbone.config.vocabulary_size
    return {
        "token_ids": rng.integers(3, size, (3, 9)).astype("int32"), "target_ids": rng.integers(3, size, (3, 6)).astype("int32"),
        "padding_mask": np.arange(9) < np.array([[9], [7], [4]]),
    }  # fmt: skip


@pytest.mark.extra("torch", "transformers")
def test_logits_are_theirs(both):
    import torch

    backbone, network, *_ = both
    batch = batch_of(backbone)
    found = backbone.logits(backbone(batch)["sequence_output"])
    given = {
        "input_ids": batch["token_ids"], "attention_mask": batch["padding_mask"].astype("int32"),
        "decoder_input_ids": batch["target_ids"],
    }  # fmt: skip
    with torch.no_grad():
        expected = network(**{name: torch.from_numpy(value).long() for name, value in given.items()}).logits
    assert_close(found, expected.numpy(), "logits")


@pytest.mark.one_in(5)
@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize(
    ("settings", "their_settings"),
    [
        ({"num_beams": 3, "length_penalty": 0.5}, {}),
        ({"num_beams": 2, "length_penalty": 1.5, "early_stopping": "never"}, {}),
        ({"num_beams": 4, "length_penalty": -0.5, "early_stopping": "never", "no_repeat_ngram_size": 3}, {}),
        ({"num_beams": 5, "length_penalty": 1.0, "early_stopping": True, "min_new_tokens": 3}, {}),
        ({"num_beams": 3, "length_penalty": 2.0, "repetition_penalty": 1.3, "forces_end": True}, {"forced_eos_token_id": True}),
        ({"num_beams": 3, "length_penalty": 1.0, "first_id": 7}, {"forced_bos_token_id": 7}),
    ],
)  # fmt: skip
def test_beam_search_finds_their_texts(both, settings, their_settings, monkeypatch):
    import torch

    backbone, network, _, _, tokenizer = both
    batch, vocabulary = batch_of(backbone), tokenizer.vocabulary
    end = vocabulary["</s>"]
    start = end if type(backbone) is bart.Bart else vocabulary["<pad>"]
    starts, limits = ops.full((3,), start, dtype="int32"), ops.full((3,), 11, dtype="int32")
    found, scores = beam_search_targets(
        backbone, backbone.logits, batch, Decoding(temperature=0.0, ranked=True, **settings), starts, end, limits, 11
    )
    theirs = {name: settings[name] for name in settings if name not in ("forces_end", "first_id")} | their_settings
    theirs = {name: end if value is True and name.startswith("forced") else value for name, value in theirs.items()}
    for name in ("forced_bos_token_id", "forced_eos_token_id"):  # of the folder of a BART or Marian
        monkeypatch.setattr(network.generation_config, name, None)
    defaults = {"early_stopping": False}
    with torch.no_grad():
        expected = network.generate(
            input_ids=torch.from_numpy(batch["token_ids"]).long(),
            attention_mask=torch.from_numpy(batch["padding_mask"]).long(), max_length=12, do_sample=False,
            num_return_sequences=settings["num_beams"], output_scores=True, return_dict_in_generate=True,
            decoder_start_token_id=start, eos_token_id=end, pad_token_id=vocabulary["<pad>"], **defaults | theirs,
        )  # fmt: skip
    assert cut(found, end) == cut(expected.sequences.numpy(), end)
    np.testing.assert_allclose(np.array(scores).reshape(-1), expected.sequences_scores.numpy(), atol=1e-3, rtol=1e-4)


def cut(rows, end):
    """Rows of ids up to the end token behind the first place."""
    rows = np.array(rows).reshape(-1, np.array(rows).shape[-1]).tolist()
    return [row[: row.index(end, 1) + 1] if end in row[1:] else row for row in rows]


@pytest.mark.extra("torch", "transformers")
def test_tokenizers_frame_alike(both):
    import transformers

    _, _, path, frame, ours = both
    theirs = transformers.AutoTokenizer.from_pretrained(path)
    assert len(theirs) == len(ours.vocabulary)
    lines = [json.loads(line) for line in (TOKENIZERS / "roberta_slow.jsonl").read_text().splitlines()]
    texts = [line["text"] for line in lines if line.get("text") and "<" not in line["text"]][:40]
    assert len(texts) > 10
    for text in texts:
        expected = pack(ours.encode(text).ids, None, ours.vocabulary, 512, frame)[0]
        assert theirs(text)["input_ids"] == expected, text


@pytest.mark.extra("torch", "transformers")
def test_a_classifier_answers_as_theirs(tmp_path):
    import torch
    import transformers

    tokenizer = byte_bpe()
    vocabulary = tokenizer.open().vocabulary
    config = bart.BartConfig(vocabulary_size=len(vocabulary), **SMALL_BART)
    backbone, task = bart.Bart(config).initialize(), Classify(config, "abc", BART_READING)
    features = batch_of(backbone)
    del features["target_ids"]
    features["token_ids"][np.arange(3), features["padding_mask"].sum(axis=1) - 1] = vocabulary["</s>"]
    features["token_ids"] = np.where(features["padding_mask"], features["token_ids"], vocabulary["<pad>"]).astype(
        "int32"
    )
    task.answer(backbone(features), features)  # creates the weights
    values = folder.values_of("backbone", backbone) | folder.values_of(task.prefix, task)
    generator = np.random.default_rng(0)
    values = {name: generator.normal(0, 0.4, value.shape).astype("float32") for name, value in values.items()}
    folder.assign("backbone", backbone, values, "random")
    folder.assign(task.prefix, task, values, "random")
    checkpoint = Checkpoint("bart", config, values, tokenizer, frozenset({"classify"}), ("a", "b", "c"))
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    network = transformers.BartForSequenceClassification.from_pretrained(str(tmp_path / "theirs")).eval()
    with torch.no_grad():
        expected = network(
            torch.from_numpy(features["token_ids"]).long(), torch.from_numpy(features["padding_mask"]).long()
        ).logits
    assert_close(task.answer(backbone(features), features), expected.numpy(), "logits")
    assert convert.load(f"hf:{tmp_path / 'theirs'}").labels == ("a", "b", "c")


@pytest.mark.extra("torch", "transformers")
def test_the_folder_names_the_tokens_between_which_texts_stand(both):
    _, network, path, _, _ = both
    forced = (network.generation_config.forced_bos_token_id, network.generation_config.forced_eos_token_id)
    end = network.config.eos_token_id
    assert forced == {"bart": (0, 2), "marian": (None, end)}.get(path.rsplit("/", 2)[-2].rstrip("0"), (None, None))
