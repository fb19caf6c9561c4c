"""Texts are continued as the network says, from the command line and by a SavedModel that needs none of this project."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.kinds import read_tokenizer
from data_pipelines.text.spelling import spell_out, spelling
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.mixers import small_numbers
from xmodels.decoding.options import Decoding
from xmodels.layers import mixers
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.objectives.causal_lm import CausalLM
from xmodels.runs.fine_tuned import load_generator as load
from xmodels.runs.loaded import in_memory
from xmodels.tasks.base.generation import COMPILED_FROM, pays_to_compile, seed_of_batch
from xmodels.tasks.language_model.answer import TextGenerator
from xmodels.tasks.language_model.serve import Server

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
PROMPTS = ["The house", "", "A dog and a cat were here, and here", "天气"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("generator"))


def write_run(folder, **numbers):
    """A folder as pretraining leaves it, with weights that speak clearly."""
    path = folder / "run" / "backbone"
    path.mkdir(parents=True)
    tokenizer = ByteBpeTokenizer.read(str(GOLDEN / "byte_bpe_vocab.json"))
    config = Gpt2Config(len(tokenizer.vocabulary), 16, 2, 2, 32, max_sequence_length=48, **numbers)
    backbone = Gpt2(config).initialize()
    rng = np.random.default_rng(0)
    for variable in backbone.variables:
        variable.assign_add(rng.normal(0, 0.3, variable.shape))
    write_model(str(path), backbone, None, tokenizer.files(), tokenizer.describe())
    return str(path.parent)


def by_hand(generator, prompt, steps):
    """Greedily, with a whole pass of the network for every token."""
    ids = generator.prompt_ids(prompt)
    start = len(ids)
    for _ in range(steps):
        batch = {"token_ids": np.array([ids]), "padding_mask": np.ones((1, len(ids)), bool)}
        states = generator.backbone(batch)["sequence_output"]
        logits = np.array(CausalLM().logits(states, generator.backbone))[0, -1]
        logits[list(generator.forbidden)] = -1e9
        ids.append(int(logits.argmax()))
        if ids[-1] == generator.end_id:
            break
    return spell_out(ids[start:], generator.spelling)


def test_continuations_are_those_of_whole_passes(run):
    generator = load(run)
    found = generator.generate(PROMPTS, Decoding(temperature=0.0), 12)
    assert found == [by_hand(generator, prompt, 12) for prompt in PROMPTS]
    assert found == [generator.generate([prompt], Decoding(temperature=0.0), 12)[0] for prompt in PROMPTS]
    assert found == generator.generate(PROMPTS, Decoding(num_beams=1, temperature=0.0), 12, batch_size=3)


DRAWN = tf.constant(1.5), tf.constant(0.9), tf.constant([3, 4])


@pytest.mark.parametrize(
    "name, settings",
    [("serving_default", ()), pytest.param("sample", DRAWN, marks=pytest.mark.long)],
    ids=["greedy", "drawn"],
)
def test_a_text_in_parts_is_the_text_at_once(name, settings, run):
    """By the graphs that are exported, of any number of tokens at a time."""
    server = Server(load(run), "core", max_new_tokens=5)
    signatures = server.signatures()
    at_once, in_parts = (signatures[each].function() for each in (name, f"stream_{name}"))
    for prompt in (PROMPTS[0], "", "x" * 100):
        expected = at_once(tf.constant([prompt]), *settings)
        for count in (1, 3, 9):
            found = {"written": tf.zeros([1, 0], tf.int32), "is_finished": [False]}
            while not found["is_finished"][0]:
                before = found["written"].shape[1]
                found = in_parts(tf.constant([prompt]), found["written"], tf.constant(count), *settings)
                assert before < found["written"].shape[1] <= before + count
            assert found["continuation"].numpy() == expected["continuation"].numpy()
            assert found["num_tokens"].numpy() == expected["num_tokens"].numpy()


def test_numbers_that_mean_nothing_are_refused_in_the_graph(run):
    server, nothing = Server(load(run), "core", max_new_tokens=2), tf.zeros([1, 0], tf.int32)
    seed, one = tf.constant([1, 2]), tf.constant(1.0)
    for method, arguments, message in (
        (server.stream_greedy, (nothing, tf.constant(0)), "count"),
        (server.stream_greedy, (tf.constant([[9999]]), tf.constant(1)), "written"),
        (server.sample, (-one, one, seed), "temperature"),
        (server.stream_sample, (nothing, tf.constant(1), one, 3 * one, seed), "top_p"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            method(tf.constant(["The"]), *arguments)


@pytest.mark.long
@pytest.mark.parametrize("mixer", [name for name in mixers.names() if not mixers.find(name).rewinds])
def test_a_past_that_cannot_go_back_gives_the_same_continuations(mixer, tmp_path):
    """Prompts of several lengths beside each other, by the generator and by a SavedModel; and beams."""
    run = write_run(tmp_path, mixer=mixer, mixer_numbers=small_numbers(mixer, window=3))
    generator = load(run)
    prompts = [PROMPTS[0], PROMPTS[2]]
    found = generator.generate(prompts, Decoding(temperature=0.0), 6)
    assert found == [by_hand(generator, prompt, 6) for prompt in prompts]
    ids = [generator.prompt_ids(prompt) for prompt in prompts]
    one = generator._search(ids, Decoding(num_beams=1, length_penalty=0.0), 6)  # a beam of one is greedy
    assert [spell_out(row, generator.spelling) for row in one] == found
    beams = Decoding(num_beams=3, length_penalty=0.0)
    assert generator._search(ids, beams, 6) == [generator._search([row], beams, 6)[0] for row in ids]
    export = {"model_dir": run, "export_dir": tmp_path / "export", "serving_ops": "core"}
    assert invoke("export_model", **export, max_new_tokens=5) == 0  # compares
    assert "At most 5 tokens are written" in (tmp_path / "export/README.md").read_text()


def test_draws_repeat_with_their_seed_and_differ_without(run):
    generator = load(run)
    first, again, other = (generator.generate(["The"] * 4, Decoding(), 12, seed) for seed in (1, 1, 2))
    assert first == again != other and len(set(first)) > 1


def test_no_two_draws_of_batches_share_their_random_numbers():
    """A draw at a position takes the second number plus the position (`decoding.sampling.sample`)."""
    batches = [seed_of_batch(5, first, 64) for first in range(0, 96, 16)]
    drawn = [(seed, number + position) for seed, number in batches for position in range(64)]
    assert len(set(drawn)) == len(drawn)
    assert seed_of_batch(5, 3_000_000_000, 1024)[1] < 2**31  # int32


DECODINGS = {
    "greedy": Decoding(temperature=0.0),
    "filters": Decoding(temperature=0.0, repetition_penalty=1.5, no_repeat_ngram_size=2, top_k=5, top_p=0.9),
    "beams": Decoding(num_beams=3, length_penalty=1.5),
}


@pytest.mark.parametrize(
    "decoding",
    [
        pytest.param(value, id=name, marks=pytest.mark.long if name == "filters" else ())
        for name, value in DECODINGS.items()
    ],
)
def test_texts_side_by_side_are_those_of_prompts_that_are_read_again(decoding, run, monkeypatch):
    prompts, found = [*PROMPTS, "a " * 60], []  # the last one leaves a token of room
    for side_by_side in (True, False):
        monkeypatch.setattr(Gpt2, "places_texts", property(lambda self, given=side_by_side: given))
        found.append(load(run).generate(prompts, decoding, 9))
    assert found[0] == found[1] and len(set(found[0])) > 2


@pytest.mark.parametrize("beams", [1, 3])
def test_more_tokens_than_the_network_reads_take_no_more_memory(beams, run, monkeypatch):
    generator, rooms = load(run), []
    start = Gpt2.start

    def started(self, batch_size, length):
        rooms.append(length)
        return start(self, batch_size, length)

    monkeypatch.setattr(Gpt2, "start", started)
    generator.generate(PROMPTS, Decoding(temperature=0.0, num_beams=beams), 10_000)
    assert rooms and max(rooms) <= 2 * generator.max_length


def test_draws_of_prompts_of_one_length_are_those_of_prompts_that_are_read_again(run, monkeypatch):
    found = []
    for side_by_side in (True, False):
        monkeypatch.setattr(Gpt2, "places_texts", property(lambda self, given=side_by_side: given))
        found.append(load(run).generate(["The house", "The mouse"], Decoding(temperature=1.0), 9, seed=4))
    assert found[0] == found[1]


@pytest.mark.long
def test_a_beam_finds_a_text_at_least_as_likely_as_the_greedy_one(run):
    generator = load(run)
    found = generator.generate(PROMPTS, Decoding(num_beams=4, length_penalty=0.0), 6)
    assert len(found) == 4 and found == generator.generate(PROMPTS, Decoding(num_beams=4, length_penalty=0.0), 6)


def test_xla_writes_the_same_texts(run):
    found = {}
    for jit_compile in (False, True):
        generator = load(run)
        generator.jit_compile = jit_compile
        found[jit_compile] = generator.generate(PROMPTS, Decoding(temperature=0.0), 7)
        assert all(function._jit_compile == (jit_compile or None) for function in generator._functions.values())
    assert found[False] == found[True]


def test_many_texts_are_compiled_unless_a_flag_says_otherwise():
    few, many = COMPILED_FROM - 1, COMPILED_FROM
    assert [pays_to_compile("auto", texts) for texts in (few, many)] == [False, True]
    assert pays_to_compile(True, few) and pays_to_compile("true", few) and not pays_to_compile("False", many)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_beams_of_prompts_beside_each_other_are_those_of_each_alone(run, alpha):
    generator, beams = load(run), Decoding(num_beams=4, length_penalty=alpha)
    found = generator.generate(PROMPTS, beams, 7)
    assert found == [generator.generate([prompt], beams, 7)[0] for prompt in PROMPTS]
    assert len(set(found)) > 1  # how many differ depends on the processor that trained the small network
    house, other = (generator.prompt_ids(PROMPTS[place]) for place in (0, 2))
    with_end = [*house[:1], generator.end_id, *house]  # an end within a prompt ends nothing
    assert generator._search([with_end, other], beams, 7) == [
        generator._search([x], beams, 7)[0] for x in (with_end, other)
    ]


def test_nothing_follows_the_end_that_a_beam_finds():
    """Also where token 0 is a word, as in GPT-2's vocabulary."""
    tokenizer = WordPieceTokenizer(Vocabulary(["a", "b", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    backbone = Gpt2(Gpt2Config(7, 8, 1, 2, 8, max_sequence_length=16)).initialize()
    generator = TextGenerator(in_memory(backbone, tokenizer, "gpt2"))
    generator.logits = lambda states: np.eye(7, dtype="float32")[[generator.end_id]] * 9 + 0 * states[:, :7]
    assert generator.generate(["b"], Decoding(num_beams=2), 5) == [""]


def test_prompts_beyond_the_network_lose_their_beginning(run):
    generator = load(run, max_length=16)
    generator.generate(["one two"], Decoding(temperature=0.0), 5)
    assert generator.truncation_note() is None
    (found,) = generator.generate(["one two three four five six seven eight nine ten"], Decoding(temperature=0.0), 50)
    ids = generator.prompt_ids("one two three four five six seven eight nine ten")
    assert len(ids) == 15 and found == by_hand(generator, "one two three four five six seven eight nine ten", 1)
    assert generator.truncation_note().startswith("1 prompt(s) leave less room than was asked for in the 16 tokens")


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece"])
def test_spelling_gives_back_what_was_tokenized(kind):
    if kind == "byte_bpe":
        tokenizer, text = (
            ByteBpeTokenizer.read(str(GOLDEN / "byte_bpe_vocab.json")),
            "Zwölf Boxkämpfer 👩‍🚀, 天气 (it's)!",
        )
    else:
        tokenizer = WordPieceTokenizer(Vocabulary("[PAD] [UNK] [CLS] [SEP] [MASK] it ##s was 天 气 , .".split()))
        text = "it was 天气, its."
        assert tokenizer.encode("天气").ids
        text = "it was天气, its."
    assert spell_out(tokenizer.encode(text).ids, spelling(tokenizer)) == text


def test_the_command_writes_lines_and_says_what_is_wrong(run, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("The house\n天气\n")
    flags = {"model_dir": run, "input_file": tmp_path / "prompts.txt", "max_new_tokens": 5}
    assert invoke("generate", **flags, num_samples=2, output_file=tmp_path / "texts.jsonl") == 0
    rows = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["prompt"] for row in rows] == ["The house", "The house", "天气", "天气"]
    assert invoke("generate", model_dir=run, prompt="The", num_beams=3, num_samples=2) == 2
    assert invoke("generate", model_dir=run, prompt="The", num_beams=3, repetition_penalty=2.0) == 2
    assert invoke("generate", model_dir=run, prompt="The", num_beams=3, temperature=0.7) == 2
    assert invoke("generate", model_dir=run) == 2
    errors = capsys.readouterr().err
    assert "the same text every time" in errors and "Beam search takes no repetition_penalty" in errors
    assert "Give either --prompt or --input_file" in errors


def test_networks_that_do_not_generate_are_refused(tmp_path):
    backbone = Bert(BertConfig(9, 8, 1, 1, 8, max_sequence_length=8)).initialize()
    write_model(str(tmp_path), backbone)
    with pytest.raises(CheckpointError, match="a Bert does not generate text; train a causal system"):
        load(str(tmp_path))


def test_records_are_no_run(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text("{}")
    assert invoke("generate", model_dir=tmp_path, prompt="a") != 0
    assert "holds records, which --data_dir names, and is no run" in capsys.readouterr().err


@pytest.mark.long
def test_the_export_continues_texts_in_a_process_with_tensorflow_alone(run, tmp_path, capsys):
    flags = {"model_dir": run, "export_dir": tmp_path / "export", "serving_ops": "core"}
    assert invoke("export_model", **flags) == 0
    assert "continues prompts" in capsys.readouterr().out
    assert invoke("export_model", **flags, overwrite=True) == 0
    program = (
        "import json, sys, tensorflow as tf\n"
        f"served = tf.saved_model.load({str(tmp_path / 'export' / '1')!r}).signatures['serving_default']\n"
        f"found = served(prompt=tf.constant({PROMPTS!r}))['continuation'].numpy()\n"
        "assert not {'xmodels', 'data_pipelines', 'tensorflow_text'} & set(sys.modules)\n"
        "print(json.dumps([text.decode() for text in found]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    generator = load(run)
    assert json.loads(done.stdout.splitlines()[-1]) == generator.generate(PROMPTS, Decoding(temperature=0.0), 48)


def test_the_tokenizer_of_a_run_is_read_back(run):
    assert read_tokenizer(f"{run}/backbone").encode("The house").ids == load(run).prompt_ids("The house")
