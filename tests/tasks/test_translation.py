"""Encoder-decoders translate: token by token as by whole passes, alone as in a batch, from a SavedModel as from the run."""

import gzip
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers import translation_run
from tests.helpers.invocation import invoke
from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.options import Decoding
from xmodels.models.adaptive_universal_transformer import (
    AdaptiveUniversalTransformer,
    AdaptiveUniversalTransformerConfig,
)
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.models.transformer import Transformer, TransformerConfig
from xmodels.models.transformer_pre_norm import PreNormTransformer
from xmodels.models.universal_transformer import UniversalTransformer, UniversalTransformerConfig
from xmodels.runs.fine_tuned import load_generator as load
from xmodels.runs.loaded import in_memory
from xmodels.tasks.translate.answer import Seq2SeqGenerator
from xmodels.tasks.translate.score import scores as score

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/bleu/corpus"
TEXTS = ["the dog ran", "a big green house", "", "it sat in the small red house and they ran from it to a cat", "cat"]
GREEDY, BEAM = Decoding(temperature=0.0), Decoding(temperature=0.0, num_beams=4)
NETWORKS = {  # with a scale and a seed of weights that give several texts
    "transformer": (Transformer, TransformerConfig, {}, 0.5, 3),
    "transformer_pre_norm": (PreNormTransformer, TransformerConfig, {"position": "learned"}, 1.0, 3),
    "universal_transformer": (UniversalTransformer, UniversalTransformerConfig, {"transition": "convolution"}, 0.5, 3),
    "adaptive_universal_transformer": (AdaptiveUniversalTransformer, AdaptiveUniversalTransformerConfig, {}, 1.0, 4),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("translation")


@pytest.fixture(scope="module")
def run(folder):
    return translation_run.make_run(folder, 120)


@pytest.fixture(scope="module")
def pairs(folder):
    return translation_run.write_pairs(folder, 12, 1)


@pytest.fixture(scope="module")
def translator(run):
    return load(run)


def random_translator(name):
    network, config, more, scale, seed = NETWORKS[name]
    tokenizer = WordPieceTokenizer(Vocabulary([*translation_run.SPECIAL, *translation_run.WORDS]))
    backbone = network(config(len(tokenizer.vocabulary), 16, 2, 2, 24, max_sequence_length=16, **more)).initialize()
    rng = np.random.default_rng(seed)
    for variable in backbone.variables:
        variable.assign(rng.normal(0, scale, variable.shape))
    return Seq2SeqGenerator(in_memory(backbone, tokenizer, "transformer"))


def logits_of(translator, source, targets):
    """A whole pass of the network over a source and targets so far (N, T): (N, V), of the token that follows."""
    token_ids = np.array([source] * len(targets))
    batch = {"token_ids": token_ids, "padding_mask": np.ones(token_ids.shape, bool), "target_ids": np.array(targets)}
    logits = np.array(translator.logits(translator.backbone(batch)["sequence_output"][:, -1]))
    logits[:, list(translator.forbidden)] = -1e9
    return logits


def greedy_by_hand(translator, text):
    source, target = translator.source_ids(text), [translator.pad_id]
    while len(target) <= translator.limit(len(source), None):
        target.append(int(logits_of(translator, source, [target]).argmax()))
        if target[-1] == translator.end_id:
            break
    return translator.spell(target[1:])


def beam_by_hand(translator, text):
    """The beam search of the library over whole passes, one source."""
    source = translator.source_ids(text)

    def step(token_ids, position, state):
        return logits_of(translator, source, np.array(token_ids)[:, : int(position) + 1]), state

    start, most = np.array([translator.pad_id], np.int32), translator.limit(len(source), None)
    ids, _ = beam_search(step, (), start, 4, most, translator.end_id, gnmt_penalty(0.6))
    return translator.spell(np.array(ids)[0, 0, 1:].tolist())


@pytest.mark.parametrize(
    "name", ["transformer", *(pytest.param(n, marks=pytest.mark.long) for n in NETWORKS if n != "transformer")]
)
def test_translations_are_those_of_whole_passes(name):
    translator = random_translator(name)
    texts = [TEXTS[0], *TEXTS[2:4]]
    found = translator.generate(texts, GREEDY, batch_size=3)
    assert found == [greedy_by_hand(translator, text) if text else "" for text in texts] and any(found)


def test_what_was_trained_translates_and_ends(translator):
    texts = [text for text in TEXTS if text]
    found = translator.generate(texts, GREEDY)
    assert found == [greedy_by_hand(translator, text) for text in texts]
    assert len(set(found)) == len(texts) and all(len(text.split()) < 20 for text in found)


def test_neither_batch_nor_order_nor_neighbours_change_a_translation(translator):
    for decoding in (GREEDY, BEAM):
        found = translator.generate(TEXTS, decoding)
        assert found[2] == "" and found == translator.generate(TEXTS, decoding, batch_size=2)
        assert found == translator.generate(TEXTS[::-1], decoding)[::-1]


@pytest.mark.long
def test_the_command_searches_as_the_library_does(run, translator, tmp_path):
    source, found = tmp_path / "source.txt.gz", tmp_path / "found.txt"
    with gzip.open(source, "wt") as file:
        file.write("\n".join(TEXTS) + "\n")
    assert invoke("translate", model_dir=run, input_file=source, num_beams=4, output_file=found) == 0
    expected = [beam_by_hand(translator, text) if text else "" for text in TEXTS]
    assert found.read_text().split("\n") == [*expected, ""]
    assert invoke("translate", model_dir=run, input_file=source, output_file=found) == 2


@pytest.mark.long
def test_generate_translates_too_greedily_unless_told_otherwise(run, translator, tmp_path, capsys):
    assert invoke("translate", model_dir=run, text=TEXTS[0]) == 0
    greedy = translator.generate(TEXTS[:1])[0]
    assert capsys.readouterr().out.splitlines()[-1] == greedy
    found = tmp_path / "found.jsonl"
    assert (
        invoke("generate", model_dir=run, prompt=TEXTS[0], num_samples=2, output_file=found) == 2
    )  # both would be equal
    assert invoke("generate", model_dir=run, prompt=TEXTS[0], num_samples=2, top_k=1, output_file=found) == 0
    told = {"prompt": TEXTS[0], "continuation": greedy}
    assert [json.loads(line) for line in found.read_text().splitlines()] == [told, told]


@pytest.mark.long
def test_limits_and_long_sources(translator):
    assert all(len(text.split()) <= 2 for text in translator.generate(TEXTS, GREEDY, 2))
    assert all(len(text.split()) <= 2 for text in translator.generate(TEXTS, BEAM, 2))
    before = translator.num_cut
    long, cut = translator.generate([" ".join(["dog"] * 60), " ".join(["dog"] * 23)], GREEDY)
    assert long == cut and translator.num_cut == before + 1


@pytest.mark.parametrize(
    ("name", "options"),
    [("13a_exp", {"tokenize": "13a"}), ("13a_lower", {"tokenize": "13a", "lowercase": True}), ("none_tok", {"tokenize": "none"}),
     ("intl", {"tokenize": "intl"}), ("char", {"tokenize": "char"})],
)  # fmt: skip
def test_bleu_is_that_of_the_original(name, options):
    inputs, outputs = (json.loads((GOLDEN / f"{part}.json").read_text()) for part in ("inputs", "outputs"))
    found = score(inputs["hypotheses"], *inputs["reference_streams"], **options)
    assert found["bleu"] == pytest.approx(outputs[name]["score"], abs=1e-4)
    assert found["precisions"] == pytest.approx(outputs[name]["precisions"], abs=1e-4)
    if name == "13a_exp":
        assert found["chrf"] == pytest.approx(outputs["chrf2"], abs=1e-4)


def test_chinese_references_are_counted_by_characters():
    inputs, outputs = (json.loads((GOLDEN / f"{part}.json").read_text()) for part in ("inputs", "outputs"))
    found = score(inputs["zh_hypotheses"], *inputs["zh_reference_streams"])
    assert found["bleu"] == pytest.approx(outputs["zh"]["score"], abs=1e-4) and "tok:zh" in found["bleu_signature"]


def test_evaluate_scores_what_translate_writes(run, pairs, translator, tmp_path, capsys):
    source, target = pairs
    sources, references = (pathlib.Path(path).read_text().splitlines() for path in pairs)
    scores, written = tmp_path / "scores.json", tmp_path / "written.txt"
    outputs = {"output_file": scores, "translations_file": written}
    assert invoke("evaluate", model_dir=run, test_file=source, target_file=target, num_beams=4, **outputs) == 0
    found = translator.generate(sources, BEAM)
    assert written.read_text().splitlines() == found
    values = json.loads(scores.read_text())
    assert values["bleu"] == pytest.approx(score(found, references)["bleu"]) and values["bleu"] > 5
    assert values["bleu_signature"] in capsys.readouterr().out and "version:" in values["bleu_signature"]
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sources, references, strict=True)))
    assert invoke("evaluate", task="translate", model_dir=run, test_file=table, output_file=scores) == 0
    assert json.loads(scores.read_text())["bleu"] == pytest.approx(
        score(translator.generate(sources), references)["bleu"]
    )


@pytest.mark.long
def test_averaged_states_translate(run, tmp_path):
    averaged = str(tmp_path / "averaged")
    assert invoke("average_checkpoints", model_dir=run, last=3, output_dir=averaged) == 0
    assert any(load(averaged).generate(TEXTS))


@pytest.mark.long
def test_a_saved_model_translates_as_the_run_does_without_this_project(run, translator, tmp_path):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core", num_beams=4) == 0
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    program = (
        "import json, tensorflow as tf\n"
        "served = tf.saved_model.load('served/1').signatures\n"
        "texts = tf.constant(json.load(open('texts.json')))\n"
        "found = [served[n](text=texts)['translation'] for n in ('serving_default', 'beam')]\n"
        "empty = served['beam'](text=tf.zeros([0], tf.string))['translation']\n"
        "json.dump([[t.decode() for t in x.numpy()] for x in (*found, empty)], open('found.json', 'w'))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert "constant(['A dog runs.'])" in (tmp_path / "served/README.md").read_text()  # its vocabulary is English
    expected = [translator.generate(TEXTS, GREEDY), translator.generate(TEXTS, BEAM), []]
    assert json.loads((tmp_path / "found.json").read_text()) == expected


def test_bad_input_is_named(run, pairs, tmp_path, capsys):
    source, target = pairs
    shorter, blank = tmp_path / "shorter.txt", tmp_path / "blank.txt"
    lines = pathlib.Path(target).read_text().splitlines()
    shorter.write_text("\n".join(lines[:5]) + "\n")
    blank.write_text("\n" * len(lines))
    for code, words, flags in [
        (3, f"{source} has more lines than {shorter}, which ends after 5", {"target_file": shorter}),
        (3, f"--test_file={source}: holds no pair", {"target_file": blank}),
        (2, "--target_file goes with two files", {"target_file": target, "target_column": "1"}),
        (2, "--label_column: --task=translate has no such flag", {"label_column": "1"}),
        (2, "--translations_file=", {"target_file": target, "translations_file": tmp_path / "none/x.txt"}),
    ]:
        assert invoke("evaluate", model_dir=run, test_file=source, **flags) == code
        assert words in capsys.readouterr().err
    mended = tmp_path / "mended.txt"
    mended.write_text("\n".join(["", *lines[1:3]]) + "\n")
    three = tmp_path / "three.txt"
    three.write_text("".join(pathlib.Path(source).read_text().splitlines(True)[:3]))
    assert invoke("evaluate", model_dir=run, test_file=three, target_file=mended) == 0
    told = capsys.readouterr().out
    assert "1 pair(s) with an empty side are left out" in told and "2 translations" in told


def test_runs_that_do_not_translate_say_so(run, tmp_path, capsys):
    bert = tmp_path / "bert"
    bert.mkdir()
    tokenizer = WordPieceTokenizer(Vocabulary([*translation_run.SPECIAL, "a"]))
    network = Bert(BertConfig(6, 8, 1, 2, 8, max_sequence_length=8)).initialize()
    write_model(str(bert), network, None, tokenizer.files(), tokenizer.describe())
    assert invoke("translate", model_dir=bert, text="a") == 4
    assert "a Bert does not translate" in capsys.readouterr().err
    shutil.copytree(run, tmp_path / "unfinished", ignore=shutil.ignore_patterns("backbone"))
    assert invoke("translate", model_dir=tmp_path / "unfinished", text="a") == 4
    assert "xmodels average_checkpoints" in capsys.readouterr().err
    assert invoke("translate", model_dir=run) == 2
    assert invoke("translate", model_dir=run, input_file=tmp_path / "none.txt") == 3
    capsys.readouterr()
    assert invoke("translate", model_dir=run, text="a", min_new_tokens=9, max_new_tokens=5) == 2
    assert "--min_new_tokens=9: more than --max_new_tokens=5" in capsys.readouterr().err
    assert invoke("export_model", model_dir=bert, export_dir=tmp_path / "served", num_beams=4) == 4
    assert "has no task.json" in capsys.readouterr().err


@pytest.mark.long
def test_the_texts_of_a_table_are_translated_and_not_its_header(run, translator, tmp_path, capsys):
    table, lines = tmp_path / "rows.tsv", tmp_path / "rows.txt"
    table.write_text("id\tquelle\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(TEXTS)))
    lines.write_text("".join(f"{text}\n" for text in TEXTS))
    for flags in ({"input_file": table, "text_column": "quelle"}, {"input_file": lines}):
        assert (
            invoke(
                "translate", model_dir=run, **flags, max_new_tokens=3, output_file=tmp_path / "out", overwrite="true"
            )
            == 0
        )
        assert (tmp_path / "out").read_text().splitlines() == translator.generate(TEXTS, max_new_tokens=3)
    capsys.readouterr()
    for flags, words in (
        ({"input_file": table}, "such as --text_column=0."),
        ({"input_file": lines, "text_column": "1"}, "is a text a line"),
    ):
        assert invoke("translate", model_dir=run, **flags) == 2
        assert words in capsys.readouterr().err
