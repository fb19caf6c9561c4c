"""What is fuzzed: commands that work, and the files that each of them reads."""

import dataclasses
import importlib
import shlex

from launch.command import Command

# Flags that name what a verb writes. What they are changed to lies in the folder of the case.
OUTPUTS = {"output_dir", "output_file", "model_dir", "export_dir", "to", "translations_file", "plots"}
# Flags that reach out of the machine, wait for others by design, run somebody's code, or start as many processes as they say.
UNTRIED = {"tpu", "use_tpu", "tpu_zone", "gcp_project", "distribution_strategy", "num_virtual_devices", "num_workers", "num_tasks",
           "runner", "beam_options", "dry_run", "profile_steps", "backend", "num_train_steps", "num_train_epochs"}  # fmt: skip

INSTEAD = {"serve": "tests.fuzz.requests"}  # verb -> the module that does its work without the network


@dataclasses.dataclass(frozen=True)
class Target:
    """A command and what may be changed about it.

    Attributes:
        name: that of cases in `finds`.
        line: the verb and its flags. `out` is an empty folder.
        reads: patterns of the files that are damaged, one or several.
        needs: further files or folders beside those that `reads` begins with.
        network: whether it runs a network, which has more time and memory.
        writes: what it may change besides its outputs, such as the folder of a run.
        checks: patterns of files whose checksums it must compare, of which any change must therefore be said.
        answers: files that hold its result; equal where a file with a checksum is damaged but its damage does not matter.
    """

    name: str
    line: str
    reads: tuple[str, ...]
    needs: tuple[str, ...] = ()
    network: bool = False
    writes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    @property
    def command(self) -> Command:
        verb = self.line.split()[0]
        return importlib.import_module(INSTEAD.get(verb, f"launch.{verb}")).COMMAND

    def arguments(self, changed: dict[str, str]) -> list[str]:
        """What stands behind the verb, with other values of some flags."""
        words = shlex.split(self.line)[1:]
        kept = [word for word in words if word.lstrip("-").partition("=")[0] not in changed]
        return [*kept, *(f"--{name}={value}" for name, value in changed.items())]

    @property
    def copied(self) -> set[str]:
        """The files and folders of the base that a case has."""
        return {pattern.split("/")[0] for pattern in (*self.reads, *self.needs)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _target(name: str, line: str, reads: str, needs: str = "", **more) -> Target:
    return Target(name, line, _words(reads), _words(needs), **more)


VOCABULARY = "--vocab_size=270 --overwrite --output_file=out/"
CORPUS = "create_pretraining_data --output_dir=out/records --max_seq_length=32 --num_shards=1 --vocab_file=vocab.txt --input_file="
SHARD = "out/records/records-00000-of-00001.tfrecord"
LABELLED = (
    "create_finetuning_data --output_dir=out/records --max_seq_length=48 --num_shards=1 --vocab_file=vocab.txt --task="
)
SMALL = "--train_batch_size=4 --num_train_steps=1"
TABLES = "--train_file=train.tsv --eval_file=dev.tsv --max_seq_length=32 --train_batch_size=12 --num_train_epochs=1"

DATA = [
    *[_target(f"vocabulary {kind}", f"train_vocabulary --tokenizer={kind} {VOCABULARY}{out} --input_file={file}", file) for kind, out, file in (
        ("wordpiece", "vocab.txt", "sentences.txt"), ("byte_bpe", "bytes", "articles.jsonl"), ("bpe", "pairs", "documents.txt"),
        ("sentencepiece", "pieces", "prose.txt"), ("characters", "characters", "chinese.txt"), ("words", "words", "sentences.txt"))],
    _target("phrases", "find_phrases --thresholds=2,1 --min_count=1 --output_file=out/joined.txt --input_file=sentences.txt", "sentences.txt"),
    *[_target(f"corpus {file}", f"{CORPUS}{file} {flags}", file, "vocab.txt", answers=(SHARD,)) for file, flags in (
        ("sentences.txt", "--do_whole_word_mask"), ("prose.txt", "--packing=full_sentences"), ("documents.txt", "--packing=segment_pair --masking=static"),
        ("sentences.txt.gz", ""), ("sentences.txt.bz2", ""), ("sentences.txt.xz", ""), ("sentences.txt.zst", ""), ("articles.jsonl", ""),
        ("pages.jsonl", "--text_field=page.body"), ("reviews.csv", "--text_field=review"), ("articles.parquet", ""),
        ("wiki_00", "--input_format=wikiextractor"), ("dialogues.txt", "--input_format=dialogue"), ("dialogues.jsonl", "--input_format=dialogue"),
        ("markup.txt", "--clean=wiki,html,width,control,traditional_to_simplified --deduplicate=near"),
        ("parallel.tsv", "--packing=parallel --input_format=parallel"), ("chinese.txt", "--language=zh --do_whole_word_mask --segmenter=jieba"))],
    _target("corpus mixture", f"{CORPUS}'sentences.txt:0.7,articles.jsonl:0.3' --deduplicate=exact --when_exhausted=stop", "sentences.txt articles.jsonl", "vocab.txt"),
    _target("corpus two files", f"{CORPUS}source.txt --target_file=target.txt --packing=parallel", "source.txt target.txt", "vocab.txt"),
    _target("corpus lexicons", f"{CORPUS}chinese.txt --language=zh --do_whole_word_mask --segmenter=lexicon --lexicon=lexicon.txt "
            "--phrase_lexicon=phrases.txt --entity_lexicon=entities.txt", "lexicon.txt phrases.txt entities.txt chinese.txt", "vocab.txt"),
    _target("corpus stream", f"{CORPUS}prose.txt --packing=stream --vocab_file=bytes".replace("--vocab_file=vocab.txt ", ""), "bytes/*", "prose.txt"),
    _target("corpus pieces", f"{CORPUS}prose.txt --vocab_file=pieces".replace("--vocab_file=vocab.txt ", ""), "pieces/*", "prose.txt"),
    _target("corpus merges", f"{CORPUS}prose.txt --vocab_file=merges".replace("--vocab_file=vocab.txt ", ""), "merges/*", "prose.txt"),
    _target("corpus words", f"{CORPUS}prose.txt --vocab_file=words".replace("--vocab_file=vocab.txt ", ""), "words/*", "prose.txt"),
    _target("corpus word pieces", f"{CORPUS}prose.txt", "vocab.txt", "prose.txt"),
    _target("corpus resumed", "create_pretraining_data --resume --output_dir=records --max_seq_length=32 --num_shards=2 --max_predictions_per_seq=5 "
            "--do_whole_word_mask --vocab_file=vocab.txt --input_file=corpus.txt", "records/*", "corpus.txt vocab.txt", writes=("records",)),
    *[_target(f"labelled {file}", f"{LABELLED}{task} --input_file={file} {flags}", file, "vocab.txt") for task, file, flags in (
        ("classify", "train.tsv", ""), ("classify", "train.csv", "--on_bad_row=skip"), ("classify", "train.jsonl", ""),
        ("classify", "pairs.tsv", "--text_pair_column=text_b"), ("regress", "scores.csv", "--text_column=0 --text_pair_column=1 --label_column=2"),
        ("tag", "entities.conll", ""), ("tag", "words.conllu", "--tag_scheme=none"), ("answer_span", "squad.json", "--max_query_length=16 --doc_stride=12"),
        ("choose", "choices.jsonl", ""), ("choose", "c3.json", ""), ("choose", "idioms.jsonl", ""), ("choose", "exam.csv", ""),
        ("rank", "candidates.tsv", "--text_column=0 --text_pair_column=1 --label_column=2"), ("rank", "queries.jsonl", "--list_size=2 --long_lists=sample"))],
    _target("labelled translations", f"{LABELLED}translate --input_file=source.txt --target_file=target.txt", "source.txt target.txt", "vocab.txt"),
    _target("labelled labels", f"{LABELLED}classify --input_file=train.tsv --labels_from=labelled", "labelled/manifest.json", "train.tsv vocab.txt"),
    _target("fit of a vocabulary", "inspect_data --vocab_file=vocab.txt --input_file=prose.txt", "vocab.txt prose.txt"),
    _target("contamination", "inspect_data --contamination=train.tsv --input_file=prose.txt", "train.tsv prose.txt"),
    _target("flags in a file", "inspect_data --flagfile=flags.txt", "flags.txt", "vocab.txt prose.txt"),
    _target("cloud", "cloud_tpu submit --accelerator_type=v5litepod-8 --zone=us-west4-a --project=p --bucket=b --command='pretrain --system=bert'", ""),
]  # fmt: skip
NETWORKS = [
    _target("records", "inspect_data --data_dir=records", "records/*"),
    _target("records verified", "inspect_data --data_dir=records --verify", "records/*", checks=("records/*.tfrecord",)),
    _target("records labelled", "inspect_data --data_dir=labelled --verify", "labelled/*", checks=("labelled/*.tfrecord",)),
    _target("pretrain dry", f"pretrain --dry_run --system=bert_wwm --data_dir=records --model_config_file=config.json --model_dir=out/run {SMALL}",
            "records/* config.json"),
    _target("pretrain static", f"pretrain --dry_run --system=bert --input_file=static/*.tfrecord --vocab_file=vocab.txt --model_config_file=config.json "
            f"--model_dir=out/run {SMALL}", "static/*.tfrecord vocab.txt config.json"),
    _target("pretrain resumed", "pretrain --system=gpt2 --data_dir=stream --model_config_file=gpt2.json --model_dir=gpt2 --train_batch_size=4 "
            "--num_train_steps=2", "gpt2/* gpt2/checkpoints/*/*", "stream gpt2.json", writes=("gpt2",)),
    _target("comparison", "compare --dry_run --plan=plan.yaml --output_dir=out/comparison", "plan.yaml",
            "sentences.txt documents.txt train.tsv dev.tsv train.csv"),
    _target("multitask", "multitask --dry_run --tasks_file=tasks.yaml --init_checkpoint=checkpoint --model_dir=out/joint", "tasks.yaml",
            "train.tsv dev.tsv pairs.tsv checkpoint"),
    _target("finetune dry", f"finetune --dry_run --init_checkpoint=checkpoint --model_dir=out/run {TABLES}", "train.tsv dev.tsv checkpoint/*"),
    _target("finetune", f"finetune --init_checkpoint=checkpoint --model_dir=out/run {TABLES}", "train.tsv dev.tsv", "checkpoint"),
    _target("finetune hf", f"finetune --dry_run --init_checkpoint=hf:hf --model_dir=out/run {TABLES}", "hf/*", "train.tsv dev.tsv"),
    _target("finetune stories", "finetune --dry_run --task=answer_story --init_checkpoint=new:story_transformer/tiny --train_file=qa1_train.txt "
            "--model_dir=out/run", "qa1_train.txt"),
    _target("finetune tags", "finetune --dry_run --crf --max_seq_length=32 --task=tag --init_checkpoint=checkpoint --train_file=entities.conll --model_dir=out/run",
            "entities.conll", "checkpoint"),
    _target("finetune choices", "finetune --dry_run --max_seq_length=32 --task=choose --init_checkpoint=checkpoint --train_file=choices.jsonl --model_dir=out/run",
            "choices.jsonl", "checkpoint"),
    _target("finetune answers", "finetune --dry_run --max_seq_length=48 --max_query_length=12 --doc_stride=8 --task=answer_span --init_checkpoint=checkpoint "
            "--train_file=squad.json --eval_file=squad.json --model_dir=out/run", "squad.json", "checkpoint"),
    _target("finetune numbers", "finetune --dry_run --max_seq_length=32 --task=regress --init_checkpoint=checkpoint --train_file=scores.csv --text_column=0 "
            "--text_pair_column=1 --label_column=2 --model_dir=out/run", "scores.csv", "checkpoint"),
    _target("finetune labels", "finetune --dry_run --max_seq_length=32 --task=multi_label --init_checkpoint=checkpoint --train_file=train.tsv --model_dir=out/run",
            "train.tsv", "checkpoint"),
    _target("finetune rankings", "finetune --dry_run --max_seq_length=32 --task=rank --init_checkpoint=checkpoint --train_file=queries.jsonl --list_size=3 "
            "--model_dir=out/run", "queries.jsonl", "checkpoint"),
    _target("finetune texts", "finetune --dry_run --task=translate --init_checkpoint=translator --train_file=parallel.tsv --text_column=0 "
            "--text_pair_column=1 --max_seq_length=32 --model_dir=out/run", "parallel.tsv", "translator"),
    _target("finetune records", "finetune --dry_run --max_seq_length=32 --init_checkpoint=checkpoint --data_dir=labelled --model_dir=out/run", "labelled/*", "checkpoint"),
    _target("doctor", "doctor --system=bert_wwm --data_dir=records --model_config_file=config.json --model_dir=out/run --num_train_steps=1",
            "records/* config.json"),
    _target("predict", "predict --model_dir=classifier --input_file=train.tsv --output_file=out/answers.tsv",
            "classifier/* classifier/backbone/*", "train.tsv", writes=("classifier",), answers=("out/answers.tsv",)),
    _target("predict texts", "predict --model_dir=classifier --text='The lamp.'", "", "classifier", writes=("classifier",)),
    _target("predict lines", "predict --model_dir=classifier --input_file=passages.txt --output_file=out/answers.jsonl", "passages.txt", "classifier"),
    _target("predict tags", "predict --model_dir=tagger --input_file=prose.txt", "tagger/* tagger/backbone/* prose.txt", writes=("tagger",)),
    _target("evaluate", "evaluate --model_dir=classifier --test_file=train.tsv --output_file=out/scores.json", "train.tsv classifier/*", writes=("classifier",)),
    _target("perplexity", "evaluate --model_dir=gpt2 --test_file=prose.txt", "prose.txt gpt2/backbone/*", writes=("gpt2",)),
    _target("last words", "evaluate --model_dir=gpt2 --test_file=passages.txt --form=last_word", "passages.txt", "gpt2", writes=("gpt2",)),
    _target("gaps", "evaluate --model_dir=gpt2 --test_file=gaps.jsonl --form=choice", "gaps.jsonl", "gpt2", writes=("gpt2",)),
    _target("generate", "generate --model_dir=gpt2 --prompt=The --max_new_tokens=3 --temperature=0 --output_file=out/texts.jsonl --overwrite",
            "gpt2/* gpt2/backbone/*", writes=("gpt2",), answers=("out/texts.jsonl",)),
    _target("generate lines", "generate --model_dir=gpt2 --input_file=passages.txt --max_new_tokens=3", "passages.txt", "gpt2", writes=("gpt2",)),
    _target("translate", "translate --model_dir=translator --input_file=source.txt --max_new_tokens=3 --output_file=out/texts.txt",
            "translator/* translator/backbone/* source.txt", writes=("translator",), answers=("out/texts.txt",)),
    _target("average", "average_checkpoints --model_dir=gpt2 --last=1 --output_dir=out/mean", "gpt2/* gpt2/checkpoints/*/*",
            writes=("gpt2",), answers=("out/mean/weights.safetensors",)),
    _target("finetune siamese", "finetune --dry_run --task=siamese --siamese_loss=classification --max_seq_length=32 --init_checkpoint=checkpoint "
            "--train_file=pairs.tsv --text_pair_column=text_b --model_dir=out/run", "pairs.tsv", "checkpoint"),
    _target("encode", "encode --model_dir=siamese --input_file=passages.txt --output_file=out/vectors.npy", "passages.txt siamese/* siamese/backbone/*",
            writes=("siamese",), answers=("out/vectors.npy",)),
    _target("extract features", "extract_features --model_dir=gpt2 --layers=-1,0 --combine=mix --input_file=passages.txt --output_file=out/states.npz",
            "passages.txt gpt2/* gpt2/backbone/*", writes=("gpt2",), answers=("out/states.npz",)),
    _target("index", "index --vectors_file=vectors.npy --input_file=passages.txt --output_dir=out/index", "vectors.npy vectors.npy.json passages.txt",
            checks=("vectors.npy",)),
    _target("index parquet", "index --vectors_file=vectors.parquet --output_dir=out/index", "vectors.parquet"),
    _target("search", "search --index=index --model_dir=siamese --input_file=prose.txt --output_file=out/found.jsonl", "index/* prose.txt", "siamese",
            writes=("siamese",), checks=("index/vectors.f32",), answers=("out/found.jsonl",)),
    _target("convert ours", "convert_checkpoint --from=checkpoint --to=hf:out/hf", "checkpoint/*", answers=("out/hf/model.safetensors",)),
    _target("convert hf", "convert_checkpoint --from=hf:hf --to=out/model", "hf/*"),
    _target("convert tf1", "convert_checkpoint --from=tf1:tf1 --to=out/model", "tf1/*"),
    _target("convert keras_hub", "convert_checkpoint --from=keras_hub:preset --to=out/model", "preset/* preset/assets/tokenizer/*"),
    _target("convert paddle", "convert_checkpoint --from=paddle:paddle --to=out/model", "paddle/*"),
    _target("requests", "serve --export_dir=served", "requests.jsonl", "served"),
    _target("models", "serve --model_config_file=models.txt", "models.txt", "served requests.jsonl"),
    _target("report", "report --model_dir=classifier --output_file=out/report.html", "classifier/* classifier/tensorboard/*", writes=("classifier",)),
    _target("export", "export_model --model_dir=classifier --export_dir=out/serving --serving_ops=core", "classifier/backbone/*", "classifier",
            writes=("classifier",)),
]  # fmt: skip
TARGETS = {each.name: each for each in [*DATA, *[dataclasses.replace(each, network=True) for each in NETWORKS]]}
