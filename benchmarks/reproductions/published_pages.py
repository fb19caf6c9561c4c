"""Pages about a published network, which further flags name behind `--`: each is a command with files of the development data."""

import json
import os
from collections.abc import Callable

from benchmarks.reproductions.shared_inputs import Place, english, parted, write_text
from data_pipelines.corpora.headers import Columns
from data_pipelines.files import whole_file

CRF = "--sentences 50 200 1000 --rates 1e-4 3e-4 --steps=300 --test_sentences=1000 --dev_sentences=300".split()
FEW = {  # tasks of single texts and of pairs: files, columns
    "sentiment": (["sst2-en/train.tsv", "sst2-en/test.tsv"], Columns("0", None, "1")),
    "inference": (["snli-en/dev.txt.gz", "snli-en/test.txt.gz"], Columns("0", "1", "2")),
    "topics": (["agnews-en/test.csv.gz"], Columns("1", None, "0")),  # of headlines
}


def few_labels(place: Place) -> list[str]:
    """A published network on few labels; `--checkpoint` names it, behind `--`."""
    tasks = []
    for name, (files, columns) in FEW.items():
        room = "sentence_pair" if columns.text_pair else "classification"
        made = parted(place, f"few_labels_en/{name}", [f"{room}/{file}" for file in files], columns, 5000)
        tasks.append(f"--task={name}:{','.join(made.values())}")
    text = write_text(place, "few_labels_en", english(place))
    return [
        "few_labels",
        *tasks,
        f"--text={text['train']}",
        f"--folder={os.path.join(place.work, 'few_labels_en')}",
    ]


def lora(place: Place) -> list[str]:
    """Adapters on sentiment; `--checkpoint` names the network, behind `--`."""
    files, columns = FEW["sentiment"]
    made = parted(place, "few_labels_en/sentiment", [f"classification/{file}" for file in files], columns, 5000)
    parts = (f"--{part}={path}" for part, path in made.items())
    return ["lora", *parts, f"--folder={os.path.join(place.work, 'lora_en')}"]


def of_tags(module: str, *flags: str) -> Callable[[Place], list[str]]:
    """The command of a page of words with tags; `--checkpoint` names the network, behind `--`."""

    def command(place: Place) -> list[str]:
        names = {"train": "eng.train.gz", "dev": "eng.testa", "test": "eng.testb"}
        files = (f"--{part}={place.given(f'tagging/conll2003-ner-en/{name}')}" for part, name in names.items())
        folder = os.path.join(place.work, f"{module}_en")
        return [module, "--language=en", *files, *flags, f"--folder={folder}"]

    return command


def sentence_scores(place: Place) -> list[str]:
    """Graded pairs; `--published` names the network, behind `--`."""
    files = (
        f"--{part}={place.given(f'sentence_pair/stsb-en/stsb-en-{part}.csv')}" for part in ("train", "dev", "test")
    )
    folder = os.path.join(place.work, "sentence_scores_en")
    return ["sentence_scores", *files, f"--folder={folder}", "--train_rows=1000", "--match_rows=640"]


def mt_dnn(place: Place) -> list[str]:
    """Six English tasks of four kinds; `--init_checkpoint` names the network, behind `--`."""
    single, pair = "classification", "sentence_pair"
    tasks = {
        "sst2": ("classify", [f"{single}/sst2-en/{part}.tsv" for part in ("train", "dev", "test")], (0, None, 1)),
        "cola": ("classify", [f"{single}/cola-en/in_domain_{part}.tsv" for part in ("train", "dev")], (3, None, 1)),
        "snli": ("san", [f"{pair}/snli-en/{part}.txt.gz" for part in ("dev", "test")], (1, 0, 2)),
        "mrpc": ("san", [f"{pair}/mrpc-en/msr_paraphrase_{part}" for part in ("train.txt.gz", "test.txt")], (3, 4, 0)),
        "stsb": ("regress", [f"{pair}/stsb-en/stsb-en-{part}.csv" for part in ("train", "dev", "test")], (0, 1, 2)),
        "wikiqa": ("rank", [f"retrieval/wikiqa-en/{part}" for part in ("train.txt.gz", "dev.txt", "test.txt.gz")], (0, 1, 2)),
    }  # fmt: skip
    lengths = {"sst2": 48, "cola": 24, "snli": 48, "mrpc": 80, "stsb": 64, "wikiqa": 64}  # 95 % of the rows are shorter
    further = {"cola": {"best_metric": "mcc"}, "wikiqa": {"train_batch_size": 4, "list_size": 4}}
    made = {}
    for name, (kind, files, columns) in tasks.items():
        parts = dict(zip(("train_file", "eval_file", "test_file"), map(place.given, files), strict=False))
        places = dict(zip(("text_column", "text_pair_column", "label_column"), columns, strict=True))
        made[name] = {
            "task": kind,
            **parts,
            **{k: v for k, v in places.items() if v is not None},
            "max_seq_length": lengths[name],
            **further.get(name, {}),
        }
    path = place.made("mt_dnn_en/tasks.yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with whole_file(path, "w") as file:  # JSON is YAML
        json.dump(
            {"defaults": {"train_batch_size": 16, "task_dropout": 0.1}, "tasks": made},
            file,
            indent=1,
        )
    return [
        "mt_dnn", f"--tasks_file={path}", "--target=snli", f"--folder={os.path.join(place.work, 'mt_dnn_en', 'runs')}", "--rows=240",
        "--target_rows=1000", "--dev_rows=200", "--test_rows=400", "--epochs=2", "--rates=2e-5,5e-5,1e-4", "--optimizer=bert_adamw",
        "--fractions=0.01,0.1,1", "--least_steps=40", "--pooling=mean", "--other_pooling=published", "--peer=5e-5",
    ]  # fmt: skip


# Page -> minutes of one free core, about, and what makes its command.
PAGES: dict[str, tuple[int, Callable[[Place], list[str]]]] = {
    "few_labels_en": (120, few_labels),
    "lora_en": (40, lora),
    "features_en": (60, of_tags("features", "--steps=300", "--test_sentences=2000", "--dev_sentences=400")),
    "layers_en": (15, of_tags("layers", "--columns=speech:1,chunk:2,name:3", "--dev_sentences=200", "--test_sentences=1000")),
    "crf_en": (60, of_tags("crf", *CRF)),
    "sentence_scores_en": (75, sentence_scores),
    "mt_dnn": (120, mt_dnn),
}  # fmt: skip
