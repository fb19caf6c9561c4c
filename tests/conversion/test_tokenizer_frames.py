"""The special tokens around texts are those of the tokenizer of a folder, whatever its network is."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from tokenizers import processors

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text import frames
from data_pipelines.text.frames import BERT, GPT, ROBERTA, XLNET, XLNET_STREAM, Frame
from data_pipelines.text.framing import pack
from data_pipelines.text.kinds import check_values
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.conversion.test_tokenizer_folders import word_pieces
from tests.helpers.invocation import invoke
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.t5 import T5, T5Config
from xmodels.runs import fine_tuned
from xmodels.runs.loaded import load

PIECES = [*SPECIAL_TOKENS, "a", "b"]
NETWORKS = {"bert": (Bert, BertConfig), "roberta": (Roberta, RobertaConfig)}
BERT_PAIR, ROBERTA_PAIR = "[CLS] a [SEP] b [SEP]", "[CLS] a [SEP] [SEP] b [SEP]"
WHOLE = "PreTrainedTokenizerFast"
FRAMES = (BERT, ROBERTA, XLNET, XLNET_STREAM, GPT)


def checkpoint_of(model, **fields):
    network, config = NETWORKS[model]
    config = config(
        vocabulary_size=len(PIECES), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8,
        max_sequence_length=16, **fields,
    )  # fmt: skip
    held = TokenizerFiles(
        {"vocab.txt": "".join(f"{piece}\n" for piece in PIECES).encode()},
        {"tokenizer": "wordpiece", "do_lower_case": True},
    )
    return Checkpoint(model, config, folder.values_of("backbone", network(config).initialize()), held)


def template(pair, single="[CLS] $A [SEP]", tokens=("[CLS]", "[SEP]")):
    return processors.TemplateProcessing(single, pair, [(token, PIECES.index(token)) for token in tokens])


def theirs(path, model, named, post=None, **more):
    """A folder of Hugging Face of that network, with the tokenizer that others put into it."""
    convert.save(checkpoint_of(model, **more), f"hf:{path}")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (path / name).unlink(missing_ok=True)
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "unk", "mask")}
    stored = {"do_lower_case": True, **special, **({"tokenizer_class": named} if named else {})}
    (path / "tokenizer_config.json").write_text(json.dumps(stored))
    if post != "no json":
        ids = {piece: index for index, piece in enumerate(PIECES)}
        made = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
        usual = word_pieces()
        made.normalizer, made.pre_tokenizer = usual.normalizer, usual.pre_tokenizer
        made.add_special_tokens(list(SPECIAL_TOKENS))
        if post is not None:
            made.post_processor = post
        made.save(str(path / "tokenizer.json"))
    return f"hf:{path}"


def packed(source, *texts):
    """Returns the tokens of texts as the network reads them, and their segments."""
    loaded = load(source)
    ids = [loaded.tokenizer.encode(text).ids for text in texts]
    found, segments = pack(ids[0], ids[1] if texts[1:] else None, loaded.tokenizer.vocabulary, 16, loaded.reading.frame)
    return " ".join(loaded.tokenizer.vocabulary.tokens[index] for index in found), segments


# The class, a post-processor beside it, and what AutoTokenizer of transformers 5 makes of the pair "a", "b" with them.
BY_CLASS = [
    ("BertTokenizer", "no json", BERT_PAIR), ("BertTokenizerFast", "no json", BERT_PAIR),
    ("BertTokenizer", processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)), BERT_PAIR),
    ("RobertaTokenizer", processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)), ROBERTA_PAIR),
    ("RobertaTokenizerFast", None, ROBERTA_PAIR),
    (WHOLE, processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)), BERT_PAIR),
    (WHOLE, processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)), ROBERTA_PAIR),
    ("TokenizersBackend", template("[CLS] $A [SEP] [SEP] $B [SEP]"), ROBERTA_PAIR),
    (WHOLE, processors.Sequence([processors.ByteLevel(), template("[CLS] $A [SEP] $B:1 [SEP]:1")]), BERT_PAIR),
    (WHOLE, None, "a b"), (WHOLE, processors.ByteLevel(), "a b"),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize(("named", "post", "pair"), BY_CLASS, ids=lambda value: str(value)[:40])
def test_a_pair_is_framed_as_the_tokenizer_of_the_folder_does_it(model, named, post, pair, tmp_path):
    source = theirs(tmp_path / "theirs", model, named, post)
    found, segments = packed(source, "a", "b")
    assert found == pair and packed(source, "a")[0] == pair.partition(" [SEP]")[0].removesuffix(" b") + " [SEP]" * (
        "[SEP]" in pair
    )
    assert max(segments) == (model == "bert" and pair != ROBERTA_PAIR)  # a RoBERTa has one segment


@pytest.mark.extra("transformers")
@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize(("named", "post", "pair"), BY_CLASS, ids=lambda value: str(value)[:40])
def test_transformers_frames_such_pairs_so(model, named, post, pair, tmp_path):
    import transformers

    theirs(tmp_path / "theirs", model, named, post)
    made = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    assert " ".join(made.convert_ids_to_tokens(made("a", "b")["input_ids"])) == pair


@pytest.mark.parametrize(
    ("pair", "single"),
    [
        ("$A [SEP] $B:1 [SEP]:1 [CLS]:2", "$A [SEP] [CLS]:2"), ("[CLS] $A [SEP] [MASK] $B [SEP]", "[CLS] $A [SEP]"),
        ("[CLS] $B:1 [SEP]:1 $A [SEP]", "[CLS] $A [SEP]"), ("[CLS] $A $B:1", "[CLS] $A"),
    ],
)  # fmt: skip
def test_a_template_is_read_as_the_library_reads_it(pair, single, tmp_path):
    tokens = ("[CLS]", "[SEP]", "[MASK]")
    source = theirs(tmp_path / "theirs", "bert", WHOLE, template(pair, single, tokens), num_segments=3)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "theirs/tokenizer.json"))
    for texts in (("a",), ("a", "b")):
        found = library.encode(*texts)
        assert packed(source, *texts) == (" ".join(found.tokens), found.type_ids)


@pytest.mark.parametrize(
    ("pair", "single"), [("$A $B:1", "[CLS] $A [SEP]"), ("[CLS] $A [SEP] $A [SEP] $B", "[CLS] $A [SEP]")]
)
def test_a_template_that_no_frame_of_ours_says_is_refused(pair, single, tmp_path):
    source = theirs(tmp_path / "theirs", "bert", WHOLE, template(pair, single))
    with pytest.raises(CheckpointError, match="tokenizer.json: `post_processor` puts .* around one text and two"):
        load(source)


def test_a_folder_that_names_no_class_is_read_by_the_files_that_it_has(tmp_path):
    source = theirs(tmp_path / "a", "roberta", None, "no json")
    assert packed(source, "a", "b")[0] == BERT_PAIR  # word pieces, which only BERT's class reads
    source = theirs(tmp_path / "b", "roberta", None, "no json")
    stored = json.loads((tmp_path / "b/config.json").read_text())
    (tmp_path / "b/config.json").write_text(json.dumps({**stored, "tokenizer_class": "RobertaTokenizer"}))
    assert packed(source, "a", "b")[0] == ROBERTA_PAIR


@pytest.mark.long
@pytest.mark.parametrize("model", NETWORKS)
def test_a_frame_goes_through_conversions_and_fine_tuning(model, tmp_path, capsys):
    named, pair = ("BertTokenizer", BERT_PAIR) if model == "roberta" else ("RobertaTokenizer", ROBERTA_PAIR)
    source = theirs(tmp_path / "theirs", model, named, None)
    convert.save(convert.load(source), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'again'}")
    for each in (source, str(tmp_path / "ours"), f"hf:{tmp_path / 'again'}"):
        assert packed(each, "a", "b")[0] == pair
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "again/tokenizer.json"))
    assert " ".join(library.encode("a", "b").tokens) == pair
    (tmp_path / "t.tsv").write_text("text\ttext_pair\tlabel\n" + "a\tb\tx\nb\ta\ty\n" * 4)
    assert not invoke(
        "finetune", init_checkpoint=source, model_dir=str(tmp_path / "run"), train_file=str(tmp_path / "t.tsv"), text_column="text",
        text_pair_column="text_pair", label_column="label", train_batch_size=4, max_seq_length=16, num_train_epochs=1,
    )  # fmt: skip
    predictor = fine_tuned.load_predictor(str(tmp_path / "run"))
    graph = GraphTokenizer(predictor.tokenizer, "core", predictor.task.reading.frame)
    served = graph.features([tf.constant(["a"]), tf.constant(["b"])], 16)
    for features in (predictor.features([("a", "b")]), served):
        row = np.array(features["token_ids"])[0]
        assert " ".join(PIECES[index] for index in row[row > 0]) == pair


def test_a_network_without_a_tokenizer_of_others_keeps_its_frame(tmp_path):
    convert.save(checkpoint_of("roberta"), f"hf:{tmp_path / 'hf'}")
    convert.save(checkpoint_of("roberta"), str(tmp_path / "ours"))
    for source in (f"hf:{tmp_path / 'hf'}", str(tmp_path / "ours")):
        assert load(source).reading.frame == ROBERTA
        assert "frame" not in load(source).tokenizer.describe()


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.template)
def test_a_template_is_what_was_read(frame):
    assert Frame.of(frame.template).parts == frame.parts


@pytest.mark.parametrize(
    "template",
    ["", "[CLS]", "[CLS] A [SEP]", "A B", "A (B", "A (B:x)", "(A) B", "A (A) (B)", "B (A)", "A (B) (C)", "A (B)" + " x" * 300, "A ()"],
)  # fmt: skip
def test_a_frame_that_is_none_is_refused(template):
    assert frames.problem(template)
    with pytest.raises(DataError, match="`frame`: expected special tokens around a text A"):
        check_values({"tokenizer": "wordpiece", "frame": template}, "x")


def test_segments_end_at_those_of_the_network():
    assert dataclasses.replace(BERT, parts=BERT.with_parts(BERT.template, 1).parts).has_segments is False
    assert np.array_equal(BERT.with_parts(XLNET.template, None).parts, XLNET.parts)


def encoder_decoder(path, named):
    """A folder of a T5 with word pieces, as networks for Chinese have them."""
    config = T5Config(
        vocabulary_size=len(PIECES),
        hidden_dim=8,
        num_layers=1,
        num_heads=2,
        head_dim=4,
        intermediate_dim=8,
        max_sequence_length=16,
    )
    held = checkpoint_of("bert").tokenizer
    convert.save(Checkpoint("t5", config, folder.values_of("backbone", T5(config).initialize()), held), f"hf:{path}")
    written = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    assert written.encode("a b").tokens == ["a", "b", "[SEP]"]  # as ours reads it
    (path / "tokenizer.json").unlink()
    stored = {"do_lower_case": True, **({"tokenizer_class": named} if named else {})}
    (path / "tokenizer_config.json").write_text(json.dumps(stored))
    return f"hf:{path}"


@pytest.mark.parametrize("named", ["BertTokenizer", None])
def test_sources_of_an_encoder_decoder_are_framed_by_its_tokenizer(named, tmp_path):
    source = encoder_decoder(tmp_path / "theirs", named)
    convert.save(convert.load(source), str(tmp_path / "ours"))
    for each in (source, str(tmp_path / "ours")):
        loaded = load(each)
        vocabulary = loaded.tokenizer.vocabulary
        ids = loaded.tokenizer.encode("a b").ids
        framed = [loaded.writing.add_special_tokens(ids, vocabulary, 16, of_target) for of_target in (False, True)]
        assert [" ".join(PIECES[i] for i in row) for row in framed] == ["[CLS] a b [SEP]", "a b [SEP]"]
        assert loaded.writing.first_id(vocabulary) is None
