"""Shared by all tests: quiet TensorFlow on two virtual CPUs, and small records made from the samples."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# What XLA compiles runs a few times here, so most of what it costs is the search for faster code, by LLVM and in fusions.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false",
)

import collections
import functools
import gc
import importlib.util
import json

import pytest

from data_pipelines.quiet import quiet_start

with quiet_start():
    from xmodels.training.devices import distribution

from tests.helpers.samples import ROOT, SHARED, make_records

distribution.split_cpu(2)  # before anything uses TensorFlow; `one_device` takes the first
gc.collect()
gc.freeze()  # Some 370,000 objects of modules, which each collection would walk through.
# Graphs are many objects that live for a test; by default Python looks through all of them every other second.
gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items):
    """Marks as long what `one_in` leaves out; skips what lacks the development data or the packages that its marks name."""
    combinations = collections.Counter()
    for item in items:
        share = item.get_closest_marker("one_in")
        if share and "long" not in item.keywords:
            function = item.nodeid.partition("[")[0]
            if combinations[function] % share.args[0]:
                item.add_marker("long")
            combinations[function] += 1
        if "shared_data" in item.keywords and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"no development data in {SHARED}"))
        packages = [name for marker in item.iter_markers("extra") for name in marker.args]
        missing = [name for name in packages if not importlib.util.find_spec(name)]
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"`make test-extras` installs {', '.join(missing)}"))


@pytest.fixture(scope="session", autouse=True)
def undrawn_charts():
    """Runs write reports without charts, which take longer to draw than a small run; `test_run_report` draws them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xmodels.runs.report.grid", lambda charts: "".join(f"<p>{c.title}</p>" for c in charts))
        yield


@pytest.fixture(scope="session")
def zh_vocabulary(tmp_path_factory):
    """The path of a vocabulary trained on the Chinese samples."""
    from data_pipelines.corpora.corpus import open_corpus
    from data_pipelines.text.train import train_wordpiece

    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    corpus = open_corpus(str(ROOT / "samples/zh/corpus.txt"), "zh")
    path.write_text(train_wordpiece(corpus, 1500).text(), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def records(tmp_path_factory, zh_vocabulary):
    """A folder of clean records of the Chinese samples."""
    return make_records(tmp_path_factory.mktemp("records") / "clean", zh_vocabulary)


@pytest.fixture(scope="session")
def static_records(tmp_path_factory, zh_vocabulary):
    """The same in the layout of Google's script."""
    return make_records(tmp_path_factory.mktemp("records") / "static", zh_vocabulary, masking="static")


@pytest.fixture(scope="session")
def stream_records(tmp_path_factory, zh_vocabulary):
    """The same in one stream, for causal models."""
    return make_records(tmp_path_factory.mktemp("records") / "stream", zh_vocabulary, packing="stream")


@pytest.fixture(scope="session")
def parallel_records(tmp_path_factory, zh_vocabulary):
    """Sentences of the Chinese samples, each with its characters in the opposite order as its translation."""
    from data_pipelines.pretraining.job import Settings, create

    folder = tmp_path_factory.mktemp("parallel")
    lines = [s[:20] for s in (ROOT / "samples/zh/corpus.txt").read_text("utf-8").split("\n") if s][:200]
    (folder / "pairs.tsv").write_text("".join(f"{s}\t{s[::-1]}\n" for s in lines), "utf-8")
    settings = Settings(
        input_file=str(folder / "pairs.tsv"),
        vocab_file=zh_vocabulary,
        language="zh",
        packing="parallel",
        max_seq_length=32,
    )
    create(settings, str(folder / "records"))
    return str(folder / "records")


@pytest.fixture(scope="session")
def records_of(request, tmp_path_factory, zh_vocabulary):
    """A function: the folder of small records of the Chinese samples of a packing, made once."""
    made = {"segment_pair": "records", "stream": "stream_records", "parallel": "parallel_records"}

    @functools.cache
    def folder(packing):
        if packing in made:
            return request.getfixturevalue(made[packing])
        return make_records(tmp_path_factory.mktemp("records") / packing, zh_vocabulary, packing=packing)

    return folder


@pytest.fixture(scope="session")
def small_config(tmp_path_factory, zh_vocabulary):
    """A bert_config.json in Google's form, of a network that trains in no time."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    with open(zh_vocabulary, encoding="utf-8") as file:
        vocabulary_size = sum(1 for _ in file)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    values = {"vocab_size": vocabulary_size, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu"}
    values |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02}
    path.write_text(json.dumps(sizes | values))
    return str(path)


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory):
    """The folder of a small BERT of random weights, to fine-tune from."""
    from tests.helpers.small_models import network

    return network("bert", tmp_path_factory.mktemp("small_bert"))
