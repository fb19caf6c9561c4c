"""Small runs of the commands on the samples, and what is kept of them: for `test_unchanged`.

All happens in the working folder, under relative names, so that no file names a place of the machine. What one function writes, the
next ones need, so each is called once in a process.
"""

import functools
import hashlib
import json
import pathlib
import shutil

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = ["这家餐厅的菜很好吃。", "我们去爬山，看日出。", "", "新的手机很快 not bad!"]

# Flags of `create_pretraining_data`, by the folder that they write.
RECORDS = {
    "pairs": {"packing": "segment_pair", "do_whole_word_mask": True, "segmenter": "jieba"},
    "full": {"packing": "full_sentences", "do_whole_word_mask": True, "segmenter": "jieba"},
    "ordered": {"packing": "sentence_order"},
    "static": {"packing": "segment_pair", "masking": "static", "dupe_factor": 1},
    "stream": {"packing": "stream", "vocab_file": "bytes"},
    "parallel": {"packing": "parallel", "input_file": "pairs.tsv"},
}  # fmt: skip
# System -> its records, and further flags of `pretrain`.
SYSTEMS = {
    "bert": ("pairs", {"num_train_steps": 3, "log_steps": 1}),
    "bert_wwm": ("pairs", {"gradient_accumulation_steps": 2, "ema_decay": 0.9, "optimizer": "lamb"}),
    "gpt2": ("stream", {}),
    "transformer": ("parallel", {}),
    "transformer_xl": ("stream", {}),
    "adaptive_universal_transformer": ("parallel", {}),
}  # fmt: skip
# Numbers of its network besides those of all; larger weights, so that answers depend on texts.
NUMBERS = {
    "bert": {"initializer_stddev": 0.3},
    "gpt2": {"initializer_stddev": 0.3},
    "transformer_xl": {"initializer_stddev": 0.3, "memory_length": 16},
    "adaptive_universal_transformer": {"max_steps": 2},
}
# What depends on the machine, the time and the versions of packages.
PASSING = {
    "time", "tokens_per_second", "real_tokens_per_second", "data_wait", "memory_gib", "eta_seconds",
    "step_seconds", "step_processor_seconds",
    "flops_per_token",
    "model_flops_utilisation", "segmenter_version", "minhash_version", "clean_versions", "examples",
}  # fmt: skip


def command(verb: str, *arguments, **flags) -> None:
    from tests.helpers.invocation import invoke

    assert invoke(verb, *arguments, **flags) == 0, f"{verb} {arguments} {flags}"


def steady(value):
    """A JSON value without what passes."""
    if isinstance(value, dict):
        return {name: steady(inner) for name, inner in value.items() if name not in PASSING}
    return [steady(inner) for inner in value] if isinstance(value, list) else value


def read(path) -> dict | list:
    """A JSON file, or the lines of one of JSON lines, without what passes."""
    text = pathlib.Path(path).read_text("utf-8")
    return steady([json.loads(line) for line in text.splitlines()] if str(path).endswith("l") else json.loads(text))


def sha256(path) -> str:
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def tensors(path) -> dict[str, list]:
    """Name -> shape, dtype, norm, and a sum in which every place has another weight, over the root of the number of places."""
    from safetensors.numpy import load_file

    found = {}
    for name, value in load_file(path).items():
        flat = value.astype("float64").ravel()
        mixed = (flat * np.cos(np.arange(flat.size))).sum() / max(flat.size, 1) ** 0.5
        found[name] = [list(value.shape), str(value.dtype), float(np.linalg.norm(flat)), float(mixed)]
    return dict(sorted(found.items()))


@functools.cache
def make_texts() -> dict:
    """Copies the samples into the working folder and trains vocabularies; returns the digests of these."""
    shutil.copytree(ROOT / "samples/zh", "samples", dirs_exist_ok=True)
    lines = [line[:20] for line in pathlib.Path("samples/corpus.txt").read_text("utf-8").split("\n") if line][:200]
    pathlib.Path("pairs.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), "utf-8")
    text = {"input_file": "samples/corpus.txt", "language": "zh"}
    command("train_vocabulary", **text, vocab_size=200, output_file="vocab.txt")
    command("train_vocabulary", **text, tokenizer="byte_bpe", vocab_size=280, output_file="bytes")
    digests = {name: sha256(name) for name in ("vocab.txt", "bytes/vocab.json", "bytes/merges.txt")}
    # Records of byte-level BPE are those of a vocabulary that was made before `<mask>` stood last, with the same merges.
    shutil.copy(ROOT / "tests/golden/unchanged/gpt2/vocab.json", "bytes/vocab.json")
    return digests


@functools.cache
def make_records(name: str) -> dict:
    """Writes one kind of records; returns the manifest and the digests of the shards as they are."""
    make_texts()
    flags = {"input_file": "samples/corpus.txt", "language": "zh", "vocab_file": "vocab.txt", "max_seq_length": 32}
    flags |= {"max_predictions_per_seq": 6, "num_shards": 2, "output_dir": name} | RECORDS[name]
    command("create_pretraining_data", **flags)
    shards = {path.name: sha256(path) for path in sorted(pathlib.Path(name).glob("*.tfrecord"))}
    manifest = read(f"{name}/manifest.json")
    del manifest["sha256"]  # that of the rest
    return {"manifest": manifest, "shards": shards}


def facts_of_run(run) -> dict:
    """What is kept of a run folder."""
    run = pathlib.Path(run)
    (state,) = (run / "checkpoints").iterdir()
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and "tensorboard" not in str(path)}
    numbers = read(state / "state.json")
    return {
        "files": sorted(files),
        "log": read(run / "log.jsonl"),
        "weights": tensors(run / "backbone/weights.safetensors"),
        "state": tensors(state / "weights.safetensors") | tensors(state / "optimizer.safetensors"),
        "state.json": {
            name: value for name, value in numbers.items() if name not in ("files", "sha256")
        },  # of rounded weights
        **{name: read(run / name) for name in ("config.json", "results.json", "backbone/config.json")},
        **{name: read(run / name) for name in ("task.json", "backbone/labels.json") if (run / name).exists()},
    }


@functools.cache
def pretrain(system: str) -> dict:
    """A few steps of a network with one layer, into a folder with the system's name."""
    records, flags = SYSTEMS[system]
    make_records(records)
    vocabulary_size = read(f"{records}/manifest.json")["settings"]["vocabulary_size"]
    config = {"vocabulary_size": vocabulary_size, "hidden_dim": 16, "num_layers": 1, "num_heads": 2}
    config |= {"intermediate_dim": 32, "max_sequence_length": 64} | NUMBERS.get(system, {})
    network = {"bert_wwm": "bert"}.get(system, system)
    pathlib.Path(f"{system}.json").write_text(json.dumps({"model": network, "config": config}))
    numbers = {
        "num_train_steps": 2,
        "train_batch_size": 8,
        "num_warmup_steps": 1,
        "learning_rate": 1e-2,
        "eval_steps": 1,
    }
    run = {"system": system, "data_dir": records, "model_dir": system, "model_config_file": f"{system}.json"}
    command("pretrain", **run | numbers | {"log_steps": 2} | flags)
    return facts_of_run(system)


FINE_TUNING = {
    "init_checkpoint": "bert", "train_file": "samples/train.tsv", "eval_file": "samples/dev.tsv", "test_file": "samples/dev.tsv",
    "learning_rate": 1e-2, "num_train_epochs": 1, "max_seq_length": 32, "log_steps": 1,
}  # fmt: skip


@functools.cache
def finetune() -> dict:
    """A classifier, of the run `bert`."""
    pretrain("bert")
    command("finetune", model_dir="classifier", **FINE_TUNING)
    return facts_of_run("classifier")


def resume(run: str) -> dict:
    """Goes on with a fine-tuning from its state, for another epoch."""
    pretrain("bert")
    command("finetune", **FINE_TUNING | {"model_dir": run, "num_train_epochs": 2})
    return {"log": read(f"{run}/log.jsonl"), "weights": tensors(f"{run}/backbone/weights.safetensors")}


def use_classifier(run: str) -> dict:
    """What a classifier scores on samples, and says of texts."""
    pathlib.Path("texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    command("evaluate", model_dir=run, test_file="samples/dev.tsv", output_file="scores.json")
    command("predict", "--overwrite", model_dir=run, input_file="texts.txt", output_file="labels.tsv")
    header, *rows = (line.split("\t") for line in pathlib.Path("labels.tsv").read_text("utf-8").splitlines())
    rows = [[cell if i == 0 or not cell else float(cell) for i, cell in enumerate(row)] for row in rows]
    return {"scores": read("scores.json"), "header": header, "labels": rows}


def use_generator(run: str) -> dict:
    """The perplexity of a causal network, and what it writes behind a prompt: the likeliest, and what it draws."""
    pathlib.Path("held_out.txt").write_text("我们去爬山，看日出。\n新的手机很快。\n", "utf-8")
    command("evaluate", model_dir=run, test_file="held_out.txt", output_file="scores.json")
    texts = []
    for temperature in (0, 1):
        flags = {"temperature": temperature, "max_new_tokens": 8, "output_file": "texts.jsonl"}
        command("generate", "--overwrite", model_dir=run, prompt="我们", **flags)
        texts += read("texts.jsonl")
    return {"scores": read("scores.json"), "texts": texts}


def export(run: str) -> dict:
    """The signatures of a SavedModel, and its answers to the texts."""
    import tensorflow as tf

    command("export_model", model_dir=run, export_dir=f"{run}-served", serving_ops="core")
    model = tf.saved_model.load(f"{run}-served/1")
    described, answers = {}, {}
    for name, signature in sorted(model.signatures.items()):
        inputs, outputs = signature.structured_input_signature[1], signature.structured_outputs
        described[name] = {
            "inputs": {n: [str(spec.shape), spec.dtype.name] for n, spec in sorted(inputs.items())},
            "outputs": {n: [str(x.shape), x.dtype.name] for n, x in sorted(outputs.items())},
        }
        if all(spec.dtype == tf.string for spec in inputs.values()):
            columns = {n: tf.constant(TEXTS if n == min(inputs) else TEXTS[::-1]) for n in inputs}
            answers[name] = {n: plain_values(value) for n, value in sorted(signature(**columns).items())}
    files = {
        str(path.relative_to(f"{run}-served")) for path in pathlib.Path(f"{run}-served").rglob("*") if path.is_file()
    }
    return {"files": sorted(files), "signatures": described, "answers": answers}


def plain_values(tensor):
    """A tensor as JSON has it."""

    def plain(value):
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    return plain(tensor.numpy().tolist())
