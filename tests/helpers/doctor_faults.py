"""Faults that users of such systems report, each as a way to break the healthy training of `tests/helpers/doctor_clinic.py`.

`python -m tests.helpers.doctor_faults` prints the table of docs/doctor.md.
"""

import dataclasses
import importlib.metadata
import json
import pathlib
import shutil
from collections.abc import Callable

from tests.helpers.doctor_clinic import (
    Clinic,
    capitalised,
    change_json,
    make_checkpoint,
    make_records,
    swapped,
    table,
    vocabulary_text,
    write,
)  # fmt: skip

Break = Callable[[Clinic, pathlib.Path, object], dict]  # (the clinic, a new folder, pytest's monkeypatch) -> flags


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault and what the doctor must say of it.

    Attributes:
        title: what happened.
        make: breaks something; gives the flags of the command, those of `pretrain` or `finetune`.
        check: the name of the check that finds it.
        code: exit code; 0 where it is a warning.
        cause, fix: parts of the line that is said.
        verb: the command that must find it too, in the same words; None where only the doctor looks.
    """

    title: str
    make: Break
    check: str
    code: int
    cause: str
    fix: str
    verb: str | None = "pretrain"

    @property
    def row(self) -> str:
        """Its line in the table of the page."""
        status = f"problem, {self.code}" if self.code else "warning"
        cells = (self.title, self.check or "flags", status, f"`{self.cause}`", f"`{self.fix}`", self.verb or "")
        return "| " + " | ".join(cells) + " |"


def versions(monkeypatch, **changed: str | None) -> None:
    """Makes packages look as if they had other versions; None: as if they were missing."""
    real = importlib.metadata.version
    changed = {name.replace("_", "-"): found for name, found in changed.items()}

    def version(name):
        if name in changed and changed[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return changed.get(name) or real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def installed(**changed: str | None) -> Break:
    def make(clinic, folder, monkeypatch):
        versions(monkeypatch, **changed)
        return {}

    return make


def environment(**changed: str) -> Break:
    def make(clinic, folder, monkeypatch):
        for name, value in changed.items():
            monkeypatch.setenv(name, value)
        return clinic.pretrain()

    return make


def cluster(value, **flags) -> Break:
    def make(clinic, folder, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", value if isinstance(value, str) else json.dumps(value))
        return clinic.pretrain(**flags)

    return make


def workers(*addresses: str, index=0, role: str = "worker") -> dict:
    return {"cluster": {"worker": list(addresses)}, "task": {"type": role, "index": index}}


def vocabulary(contents: str | bytes) -> Break:
    def make(clinic, folder, monkeypatch):
        return clinic.pretrain(vocab_file=write(folder / "vocab.txt", contents))

    return make


def records(change: Callable[[pathlib.Path], None], **flags) -> Break:
    """Breaks a copy of the records."""

    def make(clinic, folder, monkeypatch):
        copy = clinic.copy("records", folder)
        change(copy)
        return clinic.pretrain(data_dir=copy, **flags)

    return make


def cut_shard(folder: pathlib.Path) -> None:
    shard = sorted(folder.glob("*.tfrecord"))[0]
    shard.write_bytes(shard.read_bytes()[:-9])


def flip_byte(folder: pathlib.Path) -> None:
    shard = sorted(folder.glob("*.tfrecord"))[0]
    held = bytearray(shard.read_bytes())
    held[len(held) // 2] ^= 1
    shard.write_bytes(held)


def manifest(change: Callable[[dict], None]) -> Callable[[pathlib.Path], None]:
    return lambda folder: change_json(folder / "manifest.json", change)


def no_records(value: dict) -> None:
    value.update(shards=[], num_examples=0, statistics={})
    del value["sha256"]


def rewrite_static(change: Callable[[dict], None]) -> Break:
    """Changes the features of all records of Google's layout, and reads them as such files."""

    def make(clinic, folder, monkeypatch):
        import tensorflow as tf

        for path in clinic["static"].glob("*.tfrecord"):
            with tf.io.TFRecordWriter(str(folder / path.name)) as writer:
                for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                    example = tf.train.Example.FromString(record)
                    change(example.features.feature)
                    writer.write(example.SerializeToString())
        return clinic.pretrain(
            data_dir=None, eval_data_dir=None, input_file=f"{folder}/*.tfrecord", vocab_file=clinic["vocab.txt"]
        )

    return make


def one_sentence_a_document(clinic, folder, monkeypatch):
    lines = clinic["corpus.txt"].read_text(encoding="utf-8").split("\n")
    prose = write(folder / "prose.txt", "\n\n".join(filter(None, lines)))
    found = clinic.records(
        folder, input_file=prose, input_format="sentences", do_whole_word_mask=True, max_seq_length=16
    )
    return clinic.pretrain(data_dir=found, eval_data_dir=None)


def far_position(features) -> None:
    features["masked_lm_positions"].int64_list.value[0] = 200
    features["masked_lm_weights"].float_list.value[0] = 1


def far_id(features) -> None:
    features["masked_lm_ids"].int64_list.value[0] = 29_000


def checkpoint(**sizes) -> Break:
    """Starts from a checkpoint of other sizes."""

    def make(clinic, folder, monkeypatch):
        from data_pipelines.text.kinds import open_tokenizer

        made = make_checkpoint(folder / "checkpoint", open_tokenizer(str(clinic["vocab.txt"])), **sizes)
        return clinic.pretrain(init_checkpoint=made)

    return make


def broken_checkpoint(change: Callable[[pathlib.Path], None]) -> Break:
    def make(clinic, folder, monkeypatch):
        copy = clinic.copy("checkpoint", folder)
        (copy / "SHA256SUMS").unlink()  # as older versions wrote it
        change(copy)
        return clinic.finetune(init_checkpoint=copy)

    return make


def cut_weights(folder: pathlib.Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def edited_checkpoint(clinic, folder, monkeypatch) -> dict:
    copy = clinic.copy("checkpoint", folder)
    write(copy / "vocab.txt", vocabulary_text(lambda tokens: [*tokens[:-2], tokens[-1], tokens[-2]]))
    return clinic.finetune(init_checkpoint=copy)


def other_vocabulary(change) -> Break:
    """Starts a pretraining from a checkpoint with another vocabulary than the records'."""

    def make(clinic, folder, monkeypatch):
        from data_pipelines.text.kinds import open_tokenizer

        path = write(folder / "vocab.txt", vocabulary_text(change))
        return clinic.pretrain(init_checkpoint=make_checkpoint(folder / "checkpoint", open_tokenizer(str(path))))

    return make


def gpt_checkpoint(clinic, folder, monkeypatch) -> dict:
    from xmodels.models import gpt2
    from xmodels.models.folder import write_model

    sizes = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "vocabulary_size": 259}
    (folder / "gpt2").mkdir()
    write_model(str(folder / "gpt2"), gpt2.Gpt2(gpt2.Gpt2Config(**sizes)).initialize())
    return clinic.pretrain(init_checkpoint=folder / "gpt2")


def tables(train: str | None = None, dev: str | None = None, suffix: str = "tsv", **flags) -> Break:
    """Fine-tunes on other tables."""

    def make(clinic, folder, monkeypatch):
        given = {
            f"{name}_file": write(folder / f"{name}.{suffix}", contents)
            for name, contents in (("train", train), ("eval", dev))
            if contents is not None
        }
        return clinic.finetune(**given, **flags)

    return make


def pretraining(**flags) -> Break:
    return lambda clinic, folder, monkeypatch: clinic.pretrain(**flags)


def finetuning(**flags) -> Break:
    return lambda clinic, folder, monkeypatch: clinic.finetune(**flags)


def longer_records(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(data_dir=clinic.records(folder, max_seq_length=128), eval_data_dir=None)


def few_predictions(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(max_predictions_per_seq=2)


def characters_only(clinic, folder, monkeypatch) -> dict:
    path = write(folder / "zh.txt", "我们去爬山。\n山上有风。\n\n新的手机很快。\n我们去看。\n\n" * 20)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(path.read_text(encoding="utf-8")) - {"\n"})]
    vocab = write(folder / "vocab.txt", "".join(f"{token}\n" for token in tokens))
    config = folder / "config.json"
    shutil.copyfile(clinic["config.json"], config)
    change_json(config, lambda value: value["config"].update(vocabulary_size=len(tokens)))
    made = make_records(folder, folder / "records", input_file=path, vocab_file=vocab, language="zh")
    return clinic.pretrain(data_dir=made, eval_data_dir=None, model_config_file=config)


def large_config(clinic, folder, monkeypatch) -> dict:
    path = folder / "config.json"
    shutil.copyfile(clinic["config.json"], path)
    change_json(path, lambda value: value["config"].update(vocabulary_size=30522))
    return clinic.pretrain(model_config_file=path)


def shared_held_out(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(eval_data_dir=clinic["records"])


def other_held_out(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(eval_data_dir=clinic.records(folder, max_seq_length=16))


def no_batch_of_devices(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(distribution_strategy="mirrored", train_batch_size=3)


def one_cpu(clinic, folder, monkeypatch) -> dict:
    import tensorflow as tf

    held = tf.config.list_logical_devices("CPU")[:1]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: held if kind != "GPU" else [])
    return clinic.pretrain(distribution_strategy="mirrored")


def old_processor(clinic, folder, monkeypatch) -> dict:
    from xmodels.jobs import step_options

    monkeypatch.setattr(step_options, "multiplies_bfloat16", lambda: False)
    return clinic.pretrain(mixed_precision="bfloat16")


def full_disk(clinic, folder, monkeypatch) -> dict:
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    return clinic.pretrain()


def little_memory(clinic, folder, monkeypatch) -> dict:
    from xmodels.training.watching import memory_need

    monkeypatch.setattr(memory_need, "free_bytes", lambda on_gpu=False: 1_000_000)
    monkeypatch.setattr(memory_need, "process_bytes", lambda: 0)
    return clinic.pretrain()


def memory_for_small_batches(clinic, folder, monkeypatch) -> dict:
    from xmodels.training.watching import memory_need

    monkeypatch.setattr(memory_need, "free_bytes", lambda on_gpu=False: memory_need.PROCESS_BYTES + 1_000_000)
    monkeypatch.setattr(memory_need, "process_bytes", lambda: 0)
    return clinic.pretrain(train_batch_size=64)


def folder_is_a_file(clinic, folder, monkeypatch) -> dict:
    return clinic.pretrain(model_dir=write(folder / "taken", "x") / "run")


def folder_of_another_user(clinic, folder, monkeypatch) -> dict:
    monkeypatch.setattr("os.access", lambda path, mode, **rest: False)
    return clinic.pretrain(model_dir=folder / "run")


def taken_folder(clinic, folder, monkeypatch) -> dict:
    (folder / "taken").mkdir()
    write(folder / "taken/thesis.txt", "years of work")
    return clinic.pretrain(model_dir=folder / "taken")


def another_run(clinic, folder, monkeypatch) -> dict:
    state = folder / "run/checkpoints/step_00000001"
    state.mkdir(parents=True)
    write(state / "state.json", "{}")
    write(folder / "run/config.json", json.dumps({"job": "finetune", "flags": {"seed": 1}, "settings": {}}))
    return clinic.pretrain(model_dir=folder / "run")


def gpu_hidden(clinic, folder, monkeypatch) -> dict:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("xmodels.training.devices.distribution.num_gpus", lambda: 0)
    return clinic.pretrain()


def same_rows(clinic, folder, monkeypatch) -> dict:
    return clinic.finetune(eval_file=clinic["train.tsv"])


CAPITALS = "\n".join(["label\ttext", *(f"{'ab'[i % 2]}\tBaba KEKE lili SUSU {i}" for i in range(24))]) + "\n"
LABEL_THAT_TRAIN_LACKS = table(60).replace("good\t", "excellent\t")
ONE_CLASS = table(0).replace("good\t", "bad\t")
COMMAS = table(0).replace("\t", ",")
NO_HEADER = table(0).partition("\n")[2]
PAIRS = "label\ttext\ttext_pair\n" + table(60).partition("\n")[2].replace("\n", "\tbababa\n")
GS = "gs://bucket/records"

FAULTS = [
    Fault("TensorFlow is too old", installed(tensorflow="2.15.1"), "packages", 2, "tensorflow 2.15.1, needed", "pip install --upgrade", None),
    Fault("a release of tensorflow-text whose wheels do not load", installed(tensorflow_text="2.21.0"), "packages", 2, "tensorflow-text 2.21.0, needed", "pip install --upgrade", None),
    Fault("a package is missing", installed(rjieba=None), "packages", 2, "rjieba is not installed", "pip install --upgrade", None),
    Fault("tensorflow-text of another minor version than TensorFlow", installed(tensorflow="2.21.0", tensorflow_text="2.20.1"), "tensorflow", 2, "was built for TensorFlow 2.20", 'pip install "tensorflow-text==2.21.*"', None),
    Fault("two TensorFlows in one environment", installed(tensorflow_cpu="2.20.0"), "tensorflow", 2, "both installed and overwrite", "pip uninstall tensorflow tensorflow-cpu", None),
    Fault("Keras 2", installed(keras="2.15.0"), "keras", 2, "keras 2.15.0: these networks are written for Keras 3", "pip install --upgrade keras", None),
    Fault("TF_USE_LEGACY_KERAS is set", environment(TF_USE_LEGACY_KERAS="1"), "keras", 0, "gives TensorFlow's own libraries Keras 2", "unset TF_USE_LEGACY_KERAS", None),
    Fault("KERAS_BACKEND names another backend", environment(KERAS_BACKEND="jax"), "keras", 2, "Keras' backend is 'jax'", "unset KERAS_BACKEND"),
    Fault("TF_CONFIG is not JSON", cluster("{'cluster': 1}"), "cluster", 2, "not JSON", "Expected: {"),
    Fault("TF_CONFIG: the index is not in the cluster", cluster(workers("a:1", "b:1", index=2)), "cluster", 2, "index is 2, but the cluster has 2", "0 to 1"),
    Fault("TF_CONFIG: an address without a port", cluster(workers("a", "b:1")), "cluster", 2, "'a' is no address", "expected host:port"),
    Fault("TF_CONFIG: an address stands twice", cluster(workers("a:1", "a:1")), "cluster", 2, "a:1 is named twice", "an address of its own"),
    Fault("TF_CONFIG: a task that the cluster does not list", cluster(workers("a:1", role="chief")), "cluster", 2, "type is 'chief'", "the cluster has worker"),
    Fault("TF_CONFIG: localhost beside other machines", cluster(workers("localhost:1", "b:1")), "cluster", 0, "localhost:1 beside other machines", "by which the others reach it", None),
    Fault("TF_CONFIG is set, but the strategy does not read it", cluster(workers("a:1", "b:1"), distribution_strategy="one_device"), "cluster", 0, "each would train alone", "unset TF_CONFIG", None),
    Fault("mirrored without a second device", one_cpu, "devices", 5, "needs two devices or more", "--num_virtual_devices=2"),
    Fault("CUDA is asked for, but no GPU is visible", gpu_hidden, "devices", 5, "CUDA_VISIBLE_DEVICES=0 asks for GPUs", "export CUDA_VISIBLE_DEVICES=-1"),
    Fault("a TPU is asked for, but this TensorFlow has no runtime for it", pretraining(use_tpu="true"), "devices", 5, "holds no runtime for TPUs", "it is in the package tensorflow-tpu"),
    Fault("float16 on a CPU", pretraining(mixed_precision="float16"), "precision", 0, "without a GPU gains no speed", "Use --mixed_precision=bfloat16", None),
    Fault("bfloat16 on a processor that does not multiply it", old_processor, "precision", 0, "gains no speed on this processor", "Leave the flag out", None),
    Fault("the batch is no multiple of the devices", no_batch_of_devices, "network", 2, "must be a multiple of the 2 devices", "such as 4"),
    Fault("a bucket in place of a folder", pretraining(data_dir=GS), "", 2, "remote paths are not supported", "Mount it as a folder"),
    Fault("the run folder may not be written", folder_of_another_user, "run folder", 3, "may not be written by this user", "chmod u+w"),
    Fault("a file stands where the run folder should be", folder_is_a_file, "run folder", 3, "is a file, not a folder", "Name a folder"),
    Fault("the run folder holds other files", taken_folder, "run", 2, "is not empty and not a run", "choose another folder"),
    Fault("the run folder holds another run", another_run, "run", 2, "begun with other settings", "choose another --model_dir"),
    Fault("not enough disk for the states", full_disk, "disk", 3, "the states of this network need", "Free some space"),
    Fault("not enough memory for the network", little_memory, "memory", 5, "but 0.0 GB are free", "Take a smaller --size"),
    Fault("not enough memory for the batch", memory_for_small_batches, "memory", 0, "but 1.2 GB are free", "Take a smaller --train_batch_size", None),
    Fault("a folder that holds no records", pretraining(data_dir="/nowhere"), "records", 3, "no such folder of records", "xmodels create_pretraining_data"),
    Fault("a run in place of records", records(lambda f: (f / "manifest.json").rename(f / "data_manifest.json")), "records", 3, "is the folder of a run, not of records", "flags.txt"),
    Fault("unfinished records", records(lambda f: (f / "manifest.json").unlink()), "records", 3, "manifest.json: missing", "--resume"),
    Fault("a manifest of another version", records(manifest(lambda m: m.update(format_version=9))), "records", 3, "format version 9", "Make the records again"),
    Fault("a damaged manifest", records(lambda f: write(f / "manifest.json", "{")), "records", 3, "manifest.json: damaged", "make the records again"),
    Fault("a shard is cut", records(cut_shard), "records", 3, "cut or overwritten", "Copy the shards again"),
    Fault("a shard is missing", records(lambda f: sorted(f.glob("*.tfrecord"))[1].unlink()), "records", 3, ".tfrecord: missing", "Copy the shards again"),
    Fault("one bit of a shard is wrong", records(flip_byte), "records", 3, "contents changed", "Copy the shards again", None),
    Fault("prose that was read as a document a paragraph", one_sentence_a_document, "records", 0, "where about half is meant", "--input_format=text", None),
    Fault("records without an example", records(manifest(no_records)), "records", 3, "holds no examples", "from files with text"),
    Fault("held-out records are those of the training", shared_held_out, "data", 0, "also trained on", "Make records of held-out text", None),
    Fault("held-out records of another length", other_held_out, "data", 3, "max_sequence_length is 16, that of the records 32", "with the same flags"),
    Fault("a vocabulary with fewer pieces than the records'", vocabulary(vocabulary_text(lambda t: t[:-9])), "data", 3, "made with another vocabulary", "Leave the flag out"),
    Fault("the records' vocabulary in another order", vocabulary(vocabulary_text(swapped)), "data", 3, "made with another vocabulary", "Leave the flag out"),
    Fault("the vocabulary beside the records was edited", records(lambda f: write(f / "vocab.txt", vocabulary_text(swapped))), "data", 3, "vocab.txt was changed", "Put the old file back"),
    Fault("a vocabulary without [MASK]", vocabulary(vocabulary_text(lambda t: [x for x in t if x != "[MASK]"])), "vocabulary", 3, "lacks [MASK]", "each on a line of its own"),
    Fault("a token stands twice in the vocabulary", vocabulary(vocabulary_text(lambda t: [*t, "bababa"])), "vocabulary", 3, "stands again on line", "every token must be unique"),
    Fault("a vocabulary that is not UTF-8", vocabulary("é\n".encode("latin-1")), "vocabulary", 3, "not valid UTF-8", "a vocabulary is UTF-8 text"),
    Fault("a vocabulary with Windows line ends", vocabulary(vocabulary_text().replace("\n", "\r\n")), "vocabulary", 0, "has Windows line ends", "sed -i", None),
    Fault("lower-cased text with a cased vocabulary", broken_checkpoint(lambda f: write(f / "vocab.txt", vocabulary_text(capitalised))), "checkpoint", 0, "is a cased vocabulary", "--do_lower_case=false", None),
    Fault("cased text with an uncased vocabulary", finetuning(do_lower_case="false"), "checkpoint", 0, "is an uncased vocabulary", "--do_lower_case=true", None),
    Fault("much of the text is unknown to the vocabulary", tables(CAPITALS, CAPITALS, do_lower_case="false"), "text", 0, "are [UNK]", "--do_lower_case=true", None),
    Fault("records longer than the network has positions", longer_records, "network", 2, "examples of 128 tokens, but the network has 64 positions", "--max_seq_length=64"),
    Fault("--max_seq_length is not that of the records", pretraining(max_seq_length=64), "data", 2, "the records were made for 32", "Leave the flag out"),
    Fault("fine-tuning on longer texts than the network has positions", finetuning(max_seq_length=512), "checkpoint", 2, "the network has 64 positions", "--max_seq_length=64", "finetune"),
    Fault("more hidden tokens than an example has", pretraining(max_predictions_per_seq=32), "data", 2, "more than the 30 tokens", "--max_predictions_per_seq=5"),
    Fault("max_predictions_per_seq is too small for the length", few_predictions, "data", 0, "at most 2 tokens of an example are masked", "--max_predictions_per_seq=5", None),
    Fault("static records hide tokens behind the end of the text", rewrite_static(far_position), "data", 3, "hides a token at position 200", "Make the records again"),
    Fault("static records hold ids that the vocabulary lacks", rewrite_static(far_id), "data", 3, "holds the id 29000", "the records were made with another vocabulary"),
    Fault("Chinese records without words for whole-word masking", characters_only, "data", 3, "hides whole words, but the records", "--segmenter=jieba"),
    Fault("records packed for another system", pretraining(system="gpt2", size="base", model_config_file=None), "network", 3, "which --system=gpt2 cannot frame", "Make the records with --packing=stream"),
    Fault("an unknown system", pretraining(system="bertwwm"), "network", 2, "--system=bertwwm: unknown", "Did you mean bert_wwm"),
    Fault("a configuration for another vocabulary", large_config, "network", 2, "vocabulary of 30522, but the records' has", "Set vocab_size to"),
    Fault("no checkpoint there", finetuning(init_checkpoint="/nowhere"), "checkpoint", 4, "no such checkpoint", "hf:FOLDER", "finetune"),
    Fault("a checkpoint of another size", checkpoint(hidden_dim=32), "checkpoint", 4, "hidden_dim 32 there, 16 here", "Give the --size of the checkpoint"),
    Fault("a checkpoint of another architecture", gpt_checkpoint, "checkpoint", 4, "holds the network 'gpt2', but --system trains 'bert'", "Give a checkpoint of 'bert'"),
    Fault("a checkpoint with a vocabulary of another size", other_vocabulary(lambda t: t[:-9]), "checkpoint", 2, "its vocabulary has", "Make the records with the vocabulary of the checkpoint"),
    Fault("a checkpoint with another vocabulary of the same size", other_vocabulary(swapped), "checkpoint", 2, "others or in another order", "Make the records with the vocabulary of the checkpoint"),
    Fault("a checkpoint whose weights are cut", broken_checkpoint(cut_weights), "checkpoint", 4, "not a readable safetensors file", "Copy it again", "finetune"),
    Fault("a checkpoint whose vocabulary was replaced", broken_checkpoint(lambda f: write(f / "vocab.txt", vocabulary_text(lambda t: t[:-9]))), "checkpoint", 4, "They do not belong together", "--vocab_file", "finetune"),
    Fault("a checkpoint with a file that was edited", edited_checkpoint, "checkpoint", 4, "vocab.txt: changed since it was written", "to keep the change: (cd ", "finetune"),
    Fault("a label that training lacks", tables(dev=LABEL_THAT_TRAIN_LACKS), "labels", 3, "label 'excellent' does not occur in training", "add rows with this label", "finetune"),
    Fault("one class only", tables(ONE_CLASS), "labels", 3, "holds one label only", "Add rows of other labels", "finetune"),
    Fault("a table without a header line", tables(NO_HEADER), "labels", 2, "no column", "--text_column=0 --label_column=1", "finetune"),
    Fault("commas in a .tsv", tables(COMMAS), "labels", 2, "parted by commas", ".csv", "finetune"),
    Fault("tabs in a .csv", tables(table(0), suffix="csv"), "labels", 2, "parted by tabs", ".tsv", "finetune"),
    Fault("the columns of text and label exchanged", finetuning(text_column="label", label_column="text"), "labels", 2, "different labels in 24 rows", "Name another with --label_column", "finetune"),
    Fault("pairs to evaluate on, single texts to train on", tables(dev=PAIRS), "labels", 3, "2 text(s) in a row", "--text_pair_column", "finetune"),
    Fault("evaluation on the rows of the training", same_rows, "labels", 0, "stand in", "Take them out", None),
    Fault("no label file at all", finetuning(train_file="/nowhere.tsv"), "labels", 3, "no such file", "Check the path", "finetune"),
]  # fmt: skip


if __name__ == "__main__":
    print("\n".join(fault.row for fault in FAULTS))
