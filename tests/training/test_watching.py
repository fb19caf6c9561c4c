"""What a run shows while it works: FLOPs, norms, a profile, predictions; and that looking changes nothing."""

import glob
import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.small_learner import Rows, make_batches, make_learner, make_optimizer, train, values
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.models.folder import read_weights
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.runs.samples import examples
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import ONLY, single
from xmodels.training.watching import flops, peak
from xmodels.training.watching.layer_norms import LayerNorms
from xmodels.training.watching.progress import read_log
from xmodels.training.watching.run_log import RunLog
from xmodels.training.watching.samples import as_text, pieces
from xmodels.training.watching.watching import Watch, profile_steps


@pytest.fixture(scope="module")
def watched(records, small_config, tmp_path_factory):
    """The folder of a run at which everything was looked at, with what it printed."""
    folder = str(tmp_path_factory.mktemp("watched") / "run")
    pretrain(
        Options(
            system="bert_wwm", model_dir=folder, data_dir=records, eval_data_dir=records,
            model_config_file=small_config, num_train_steps=6, train_batch_size=8, learning_rate=1e-2,
            num_warmup_steps=2, optimizer="bert_adamw", log_steps=3, eval_steps=2, eval_every=3, log_norms_steps=2,
            profile_steps="2,4",
        )
    )  # fmt: skip
    return folder


def of_kind(folder, kind):
    return [entry for entry in read_log(os.path.join(folder, "log.jsonl")) if entry["kind"] == kind]


def test_flops_of_bert_follow_from_its_weights():
    config = BertConfig(vocabulary_size=500, **SIZES["tiny"])
    backbone, objective = Bert(config).initialize(), together(MaskedLM(config), NextSentence(config))
    B, L, P, D, F, V = 3, 40, 5, config.hidden_dim, config.intermediate_dim, 500
    ids = tf.zeros((B, L), tf.int32)
    batch = {"token_ids": ids, "segment_ids": ids, "padding_mask": ids == 0, "mask_positions": ids[:, :P]}
    batch |= {"labels": ids[:, :P], "label_weights": tf.ones((B, P))}
    batch |= {"next_sentence_labels": ids[:, 0], "example_weights": tf.ones(B)}
    blocks = config.num_layers * B * L * (2 * (4 * D * D + 2 * D * F) + 4 * L * D)
    heads = B * P * 2 * (D * D + D * V) + B * 2 * (D * D + 2 * D)
    assert flops.forward_flops(backbone, objective, batch) == blocks + heads
    assert flops.flops_per_token(backbone, objective, batch) == pytest.approx(3 * (blocks + heads) / (B * L))
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    learner = Learner(strategy, backbone, single(objective, Rows(batch)), make_optimizer("adam"))
    learner.evaluate([batch])
    assert flops.of_learner(learner, batch) == pytest.approx(3 * (blocks + heads) / (B * L))
    assert learner.passes[ONLY].evaluate_batch.experimental_get_tracing_count() == 1


def test_flops_of_loops_einsums_and_functions_are_counted():
    weights = tf.ones((4, 4))
    inner = tf.function(lambda x: tf.matmul(x, weights))

    def forward(batch):
        x = tf.einsum("bld,dhk->blhk", batch["x"], tf.ones((4, 2, 3)))  # 2 * 2*5 * 4 * 6 = 480
        y = inner(batch["x"][:, 0])  # 2 * 2*4*4 = 64
        _, y = tf.while_loop(
            lambda i, y: i < 7, lambda i, y: (i + 1, tf.matmul(y, weights)), (0, y), maximum_iterations=7
        )  # 7 * 64
        return x, tf.matmul(y, y, transpose_a=True)  # 2 * 4*4*2 = 64

    graph = flops.trace(forward, {"x": tf.ones((2, 5, 4))})
    assert flops.count(graph) == 480 + 64 + 7 * 64 + 64


def test_best_measured_peak_is_kept(tmp_path, monkeypatch):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    first = peak.peak_flops(strategy, "float32", str(tmp_path))
    assert first["how"] == "measured" and first["flops_per_second"] > 1e8
    monkeypatch.setattr(peak, "measure_peak", lambda dtype: 1.0)  # a busy machine
    assert peak.peak_flops(strategy, "float32", str(tmp_path)) == first
    monkeypatch.setattr(peak, "measure_peak", lambda dtype: 1e20)
    assert peak.peak_flops(strategy, "float32", str(tmp_path))["flops_per_second"] == 1e20
    monkeypatch.setattr(peak, "measure_peak", lambda dtype: 1.0)
    assert peak.peak_flops(strategy, "bfloat16", str(tmp_path))["flops_per_second"] == 1.0
    (tmp_path / "peak.json").write_text('{"device": ')  # cut by a kill
    assert peak.peak_flops(strategy, "float32", str(tmp_path))["flops_per_second"] == 1.0


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989.4), ("NVIDIA A100-SXM4-40GB", "float32", 156.0),
        ("NVIDIA A10", "float16", 125.0), ("NVIDIA L4", "float16", 121.0), ("NVIDIA L40", "float16", None),
    ],
)  # fmt: skip
def test_accelerators_are_told_apart_by_their_names(name, dtype, expected):
    assert peak.published_peak(name, dtype) == (expected and expected * 1e12)


@pytest.mark.long
def test_log_tells_norms_use_of_the_peak_and_predictions(watched):
    train, norms, samples = (of_kind(watched, kind) for kind in ("train", "norms", "samples"))
    assert [entry["step"] for entry in train] == [3, 6] and [entry["step"] for entry in norms] == [2, 4, 6]
    assert train[-1]["gradient_norm"] > 0 and 0 < train[-1]["model_flops_utilisation"] < 1
    last = {name: value for name, value in norms[-1].items() if "_norm/" in name}
    whole = np.sqrt(sum(value**2 for name, value in last.items() if name.startswith("gradient_norm/")))
    assert whole == pytest.approx(train[-1]["gradient_norm"], rel=1e-5)
    assert {"gradient_norm/blocks.0", "weight_norm/embedding", "update_norm/masked_lm"} <= set(last)
    assert [entry["step"] for entry in samples] == [3, 6]
    hidden = [piece for piece in samples[0]["examples"][0]["pieces"] if not isinstance(piece, str)]
    assert hidden and all(len(piece) == 3 and all(piece) for piece in hidden)
    assert samples[0]["examples"][0]["answers"]["second segment"][1] in ("follows", "is another")


@pytest.mark.long
def test_profile_of_some_steps_and_text_for_tensorboard_are_written(watched):
    assert glob.glob(os.path.join(watched, "tensorboard/plugins/profile/*/*.xplane.pb"))
    tags = set()
    for path in glob.glob(os.path.join(watched, "tensorboard", "events*")):
        for record in tf.compat.v1.train.summary_iterator(path):
            tags |= {value.tag for value in record.summary.value}
    assert {"samples", "train/model_flops_utilisation", "norms/gradient_norm/blocks.0"} <= tags


def test_histograms_count_every_weight_and_norm(watched):
    found = {}
    for path in glob.glob(os.path.join(watched, "tensorboard", "events*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "histograms":
                    found[value.tag, event.step] = tf.make_ndarray(value.tensor)
    folder = os.path.join(watched, "backbone")
    sizes = {name: x.size for name, x in read_weights(os.path.join(folder, "weights.safetensors")).items()}
    block = sum(size for name, size in sizes.items() if name.startswith("backbone.blocks.0."))
    for kind in ("weights", "updates"):
        assert [found[f"{kind}/blocks.0", step][:, 2].sum() for step in (2, 4, 6)] == [block] * 3
    for kind in ("gradient", "weight", "update"):
        assert found[f"{kind}_norms", 6][:, 2].sum() == len(sizes)
    # The sixth step has no rate left of 1e-2: at step 5 of 6 the schedule gives a sixth of it.
    last = found["updates/blocks.0", 6]
    assert 0 < max(-last[0, 0], last[-1, 1]) < 1e-2


def test_an_update_is_what_one_step_changed():
    learner = make_learner()
    norms, batches = LayerNorms(learner), list(make_batches(2))
    train(learner, batches[:1])
    assert not [name for name in norms.report().norms if name.startswith("update")]
    norms.remember()
    before = values(learner)
    train(learner, batches[1:])
    report, after = norms.report(), values(learner)
    changed = {name: after[name] - before[name] for name in after if name.startswith("backbone.blocks.0.")}
    whole = np.concatenate([x.ravel() for x in changed.values()])
    assert report.norms["update_norm/blocks.0"] == pytest.approx(np.linalg.norm(whole), rel=1e-5)
    assert np.array_equal(np.sort(report.numbers["updates/blocks.0"]), np.sort(whole))
    assert norms.report().numbers.keys() == {n for n in report.numbers if "update" not in n}


@pytest.mark.long
def test_looking_changes_no_weight(watched, records, small_config, tmp_path):
    config = Options(
        system="bert_wwm", model_dir=str(tmp_path / "plain"), data_dir=records, model_config_file=small_config,
        num_train_steps=6, train_batch_size=8, learning_rate=1e-2, num_warmup_steps=2, optimizer="bert_adamw",
    )  # fmt: skip
    pretrain(config)
    contents = []
    for folder in (watched, config.model_dir):
        with open(os.path.join(folder, "backbone", "weights.safetensors"), "rb") as file:
            contents.append(file.read())
    assert contents[0] == contents[1]


def test_report_is_written_when_a_run_ends(watched):
    with open(os.path.join(watched, "report.html"), encoding="utf-8") as file:
        text = file.read()
    assert "finished, 6 steps" in text and "gradient norm of each layer" in text
    assert "step 6</h3>" in text and "<ins class=truth" in text


@pytest.mark.long
def test_norms_and_share_of_the_peak_are_those_of_all_replicas(watched, records, small_config, tmp_path):
    folder = str(tmp_path / "mirrored")
    pretrain(
        Options(
            system="bert_wwm", model_dir=folder, data_dir=records, model_config_file=small_config, num_train_steps=2,
            train_batch_size=8, learning_rate=1e-2, num_warmup_steps=2, optimizer="bert_adamw", log_steps=4,
            log_norms_steps=2, distribution_strategy="mirrored",
        )
    )  # fmt: skip
    (mirrored, *_), (one, *_) = of_kind(folder, "norms"), of_kind(watched, "norms")
    names = [name for name in one if name.startswith("weight_norm/")]
    assert names and [mirrored[name] for name in names] == pytest.approx([one[name] for name in names], rel=0.1)
    assert min(mirrored[f"gradient_norm/{layer}"] for layer in ("embedding", "blocks.0", "masked_lm")) > 0
    with open(os.path.join(folder, "peak.json")) as file:
        assert json.load(file)["devices"] == 1  # virtual CPUs share their cores


def test_norms_that_are_not_finite_stay_out_of_the_log():
    watching = Watch()
    watching.learner = types.SimpleNamespace(gradient_norms=tf.constant([1.0, np.inf]))
    assert watching.rates(1.0) == {}
    watching.learner.gradient_norms = tf.constant([3.0, 4.0])
    assert watching.rates(1.0) == {"gradient_norm": 5.0}  # nobody knows FLOPs or the peak


@pytest.mark.parametrize("text", ["5", "7,3", "0,4", "a,b"])
def test_profiles_of_no_steps_are_refused(text):
    with pytest.raises(UsageError, match=f"--profile_steps={text}: expected the first and the last step"):
        profile_steps(text)


def test_samples_read_as_text_in_both_languages():
    english = pieces(["[CLS]", "it", "[MASK]", "##ing", "now"], {2: ("rain", "snow")})
    assert as_text({"pieces": english}) == "[CLS] it [rain→snow]ing now"
    assert as_text({"pieces": pieces(["今", "[MASK]", "下", "雨"], {1: ("天", None)})}) == "今[天→[MASK]]下雨"
    assert as_text({"pieces": pieces(["The", "Ġ[MASK]", "s", "Ġon"], {1: ("Ġrain", "Ġsnow")})}) == "The [rain→snow]s on"
    assert as_text({"pieces": ["x"], "answers": {"label": ["a", "b"]}}) == "x  (label: a, predicted b)"


def test_examples_show_answers_and_tokens_that_follow(zh_vocabulary):
    tokenizer = open_tokenizer(zh_vocabulary)
    ids = {token: tokenizer.vocabulary[token] for token in ("今", "天", "下", "雨")}

    def row(*tokens):
        return tf.constant([[ids.get(token, 0) for token in tokens]])

    batch = {"token_ids": row("今", "天", "下"), "padding_mask": tf.constant([[True] * 3])}
    batch |= {"labels": row("天", "下", "雨"), "label_weights": tf.ones((1, 3)), "example_weights": tf.ones(1)}
    predictions = {"labels": row("天", "雨", "雨").numpy()}
    (causal,) = examples(batch, predictions, tokenizer, {})
    assert causal["pieces"] == ["今", ["天", "天", "天"], ["下", "雨", "下"]]
    assert examples(batch, {}, tokenizer, {})[0]["pieces"] == ["今天下"]
    (answer,) = examples(batch | {"target_ids": batch["labels"]}, predictions, tokenizer, {})
    assert as_text(answer) == "今天下 ⇒ [天→天][下→雨][雨→雨]"


def test_what_is_no_entry_of_a_log_is_kept_aside_and_stops_nothing(tmp_path, capsys):
    entries = [{"kind": "train", "step": step, "time": 0.0, "loss": 1.0} for step in range(1, 5)]
    whole = [f"{json.dumps(entry)}\n".encode() for entry in entries]
    bad = [b"[1]\n", b"\x00\x00\n", b'{"kind": "train", "step": 2, "text": "\xff"}\n', b"[" * 100_000 + b"\n"]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(a + b for a, b in zip(whole, bad, strict=True)) + b'{"kind": "tra')
    assert read_log(str(path)) == entries
    RunLog(str(tmp_path), resumed_step=3)
    assert read_log(str(path)) == entries[:3] and path.read_bytes().count(b"\n") == 3
    assert (tmp_path / "log.jsonl.damaged").read_bytes() == b"".join(bad)
    assert "4 line(s) are not log entries" in capsys.readouterr().out
