"""What makes a network of a million weights learn from a megabyte of text, in minutes.

    python -m benchmarks.small_networks --text_dir=quickstart-en/text --language=en --work_dir=work

`text_dir` holds `pretrain.txt` and `heldout.txt`, such as the folder `text` of a quickstart. Every arm is a run of `xmodels pretrain
--size=tiny` (or the size that the study names) that differs from the numbers of small networks (`xmodels/training/small.py`) in what
its name says, for equally many steps of equally many tokens. Masked language models hide 15 % of the tokens where an arm does not name
another share, as they did when most arms were measured. Runs that are finished in `work_dir` are not repeated. What was found is kept
in `results/small_networks.jsonl`, and the page shows all that stands there, so the command may be given again for another language or
study.
"""

import argparse
import dataclasses
import json
import os
import sys

from benchmarks.measure import table
from benchmarks.reproductions.commands import is_finished, results_of, run
from benchmarks.reproductions.pages import environment, write_page, write_picture
from data_pipelines.files import whole_file
from xmodels.training.small import ONE_LENGTH, Small

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
NAME, LENGTH, SEED = "small_networks", 128, 12345
KEPT = os.path.join(RESULTS, f"{NAME}.jsonl")
VOCABULARY = {"en": 4000, "zh": 2000}
COLUMNS = 3  # of the picture
SHOWN = (
    "small",
    "adamw, rate 2e-3",
    "adamw, rate 1e-3",
    "one length",
    "published",
    "published, rate 1e-3",
    "40 % masked",
)
DRAWN = {"position_gain": None}  # rows of positions are drawn like those of tokens
ALIKE = {  # of all studies: name of an arm -> what differs
    "small": {},
    "weights 0.02": {"set": {"initializer_stddev": 0.02}},
    "weights 0.12": {"set": {"initializer_stddev": 0.12}},
    "dropout 0.1": {"set": {"dropout": 0.1, "attention_dropout": 0.1}},
    "rate 1e-3": {"learning_rate": 1e-3},
    "rate 2e-3": {"learning_rate": 2e-3},
    "rate 4e-3": {"learning_rate": 4e-3},
    "rate 1e-2": {"learning_rate": 1e-2},
    "twice the batch, half the steps": {"batch": 2.0},
    "half the batch, twice the steps": {"batch": 0.5},
    "a quarter of the batch, four times the steps": {"batch": 0.25},
    "a quarter of the batch, four times the steps, rate 2e-3": {"batch": 0.25, "learning_rate": 2e-3},
    "published": {"recipe": "published", "length_schedule": "none"},
    "published, rate 1e-3": {"recipe": "published", "learning_rate": 1e-3, "length_schedule": "none"},
}
BIDIRECTIONAL = {  # whose positions begin as sinusoids, and whose rows are short at first
    "positions drawn": {"small": DRAWN},
    "positions twice as large": {"small": {"position_gain": 2.0}},
    "one length": {"length_schedule": "none"},
    "short rows for 70 % of the steps": {"length_schedule": "32:0.7,128:0.3"},
    "short rows of 64": {"length_schedule": "64:0.5,128:0.5"},
}
CAUSAL = {  # whose positions are drawn, and whose rows have one length
    "positions begun as sinusoids": {"small": {"position_gain": 1.0}},
    "short rows first": {"length_schedule": "32:0.5,128:0.5"},
}
# The optimizers that the numbers do not name, at rates around their best.
ADAM = {
    f"adamw, rate {rate}": {"optimizer": "adamw", "learning_rate": float(rate)} for rate in ("1e-3", "2e-3", "4e-3")
}
PUBLISHED = {name: ALIKE[name] for name in ("small", "published", "published, rate 1e-3")}
OTHERS = (
    PUBLISHED
    | {"rate 2e-3": ALIKE["rate 2e-3"]}
    | {name: ADAM[name] for name in ("adamw, rate 1e-3", "adamw, rate 2e-3")}
)
UNCORRECTED = {"no correction of the bias (bert_adamw)": {"optimizer": "bert_adamw", "learning_rate": 2e-3}}


@dataclasses.dataclass(frozen=True)
class Study:
    """A system, its records, and its arms.

    Attributes:
        records: flags of `create_pretraining_data`.
        numbers: those of small networks, where the system has none.
        vocabulary: flags of `train_vocabulary` by language.
        size: of the system.
        precision: value of --mixed_precision.
    """

    system: str
    records: dict
    arms: dict[str, dict]
    numbers: Small = ONE_LENGTH
    vocabulary: dict[str, dict] = dataclasses.field(default_factory=dict)
    size: str = "tiny"
    precision: str | None = None


BPE, BYTES, PIECES = (
    {"tokenizer": "bpe"}, {"tokenizer": "byte_bpe"}, {"tokenizer": "sentencepiece", "num_sentinels": 100}
)  # fmt: skip
# `mini` is twice as wide, so its usual rates are half as large.
OF_MINI = {
    "small": {},
    "adamw, rate 1e-3": ADAM["adamw, rate 1e-3"],
    "rate 4e-3": ALIKE["rate 4e-3"],
    "published": ALIKE["published"],
}
TABLES = {
    "output matrix of its own": {"set": {"tied_output": False}},
    "output not scaled": {"set": {"scaled_output": False}},
}
# Held-out text is scored with 15 % of its tokens hidden, whatever the arm.
MASKS = {"small": {}} | {f"{rate} % masked": {"set": {"masking_rate": rate / 100}} for rate in (30, 40, 45)}
SIZED = {name: (ALIKE | MASKS)[name] for name in ("small", "40 % masked", "rate 2e-3", "published")}
WORDS, STREAM = {"packing": "full_sentences", "do_whole_word_mask": True}, {"packing": "stream"}
STUDIES = {
    "masked": Study("roberta_wwm", WORDS, {**ALIKE, **BIDIRECTIONAL, **ADAM, **UNCORRECTED}),
    "masked, shares": Study("roberta_wwm", WORDS, MASKS),
    "causal": Study("gpt", STREAM, {**ALIKE, **CAUSAL, **ADAM, **UNCORRECTED}, vocabulary={"en": BPE}),
    "causal, norms inside": Study("gpt2", STREAM, {**ALIKE, **CAUSAL, **ADAM, **UNCORRECTED}, vocabulary={"en": BPE}),
    "masked, mini": Study("roberta_wwm", WORDS, OF_MINI | MASKS, size="mini"),
    "masked, small": Study("roberta_wwm", WORDS, SIZED, size="small", precision="bfloat16"),
    "masked, medium": Study("roberta_wwm", WORDS, SIZED, size="medium", precision="bfloat16"),
    "causal, mini": Study("gpt", STREAM, OF_MINI, vocabulary={"en": BPE}, size="mini"),
    "causal, memory": Study("transformer_xl", STREAM, OTHERS, vocabulary={"en": BPE}),
    "causal, recurrent": Study("lstm_lm", STREAM, OTHERS, vocabulary={"en": BPE}),
    "many tasks": Study("ernie2", {"packing": "paragraph"}, OTHERS),
    "permuted": Study("xlnet", {"packing": "stream_bidirectional"}, OTHERS, vocabulary={"en": BPE}),
    "spans to text": Study(
        "t5", {"packing": "full_sentences"}, OTHERS | TABLES, vocabulary=dict.fromkeys(VOCABULARY, PIECES)
    ),
    "noise to text": Study("bart", {"packing": "full_sentences"}, OTHERS, vocabulary=dict.fromkeys(VOCABULARY, BYTES)),
    "fragment to text": Study("mass", {"packing": "full_sentences"}, OTHERS),
}


def main() -> None:
    flags = parse(sys.argv[1:])
    for name in flags.studies:
        for arm in STUDIES[name].arms:
            if flags.arms is None or arm in flags.arms:
                train(flags, name, arm)
    report(flags)


def parse(arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text_dir", required=True)
    parser.add_argument("--language", choices=tuple(VOCABULARY), required=True)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch")
    parser.add_argument("--studies", type=lambda text: text.split(";"), default=list(STUDIES), help="parted by ; (all)")
    parser.add_argument("--arms", type=lambda text: text.split(";"), default=None, help="parted by ; (all)")
    return parser.parse_args(arguments)


def folder_of(flags, language: str, study: str, arm: str) -> str:
    return os.path.join(flags.work_dir, language, study.replace(", ", "_"), arm.replace(", ", "_").replace(" ", "_"))


def train(flags, name: str, arm: str) -> None:
    """Runs an arm, unless it is finished."""
    from xmodels import systems

    study, changes = STUDIES[name], dict(STUDIES[name].arms[arm])
    model_dir, share = folder_of(flags, flags.language, name, arm), changes.pop("batch", 1.0)
    given = changes.pop("set", {})
    own = ",".join(f"{n}={value}" for n, value in given.items())
    if is_finished(model_dir):
        return
    system = systems.load(study.system)
    numbers = vars(system).get("SMALL")
    system.SMALL = dataclasses.replace(numbers or study.numbers, masking_rate=None, **changes.pop("small", {}))
    steps = round(flags.steps / share)
    try:
        run(
            "pretrain", system=study.system, size=study.size, set=own or None, model_dir=model_dir, num_train_steps=steps,
            data_dir=records(flags, study, "pretrain"), eval_data_dir=records(flags, study, "heldout"), seed=SEED,
            train_batch_size=round(share * flags.tokens / LENGTH), eval_every=10**6, eval_steps=round(30 / share),
            log_steps=steps // 24,
            num_warmup_steps=steps // 10, save_checkpoints_steps=10**6, keep_checkpoint_max=1, mixed_precision=study.precision,
            **changes,
        )  # fmt: skip
    finally:
        if numbers:
            system.SMALL = numbers
        else:
            del system.SMALL


def records(flags, study: Study, name: str) -> str:
    """The folder of records of a text, made where it is not there yet."""
    kinds = study.vocabulary.get(flags.language, {})
    tokenizer, words = kinds.get("tokenizer", "wordpiece"), study.records.get("do_whole_word_mask", False)
    kind = f"{study.records['packing']}-{tokenizer}{words * '-words'}"
    folder = os.path.join(flags.work_dir, flags.language, f"{kind}-{name}")
    if os.path.isfile(os.path.join(folder, "manifest.json")):
        return folder
    vocabulary, text = os.path.join(flags.work_dir, flags.language, f"vocabulary-{tokenizer}"), flags.text_dir
    if not os.path.exists(vocabulary):
        run(
            "train_vocabulary", input_file=os.path.join(text, "pretrain.txt"), language=flags.language,
            vocab_size=VOCABULARY[flags.language], output_file=vocabulary, **kinds,
        )  # fmt: skip
    segmenter = {"segmenter": "jieba"} if flags.language == "zh" and words else {}
    run(
        "create_pretraining_data", input_file=os.path.join(text, f"{name}.txt"), language=flags.language,
        vocab_file=vocabulary, output_dir=folder, max_seq_length=LENGTH, **study.records, **segmenter,
    )  # fmt: skip
    return folder


def gather(flags) -> None:
    """Adds what the finished runs of `work_dir` have found to what is kept."""
    kept = read_kept()
    for language in VOCABULARY:
        for name, study in STUDIES.items():
            for arm in study.arms:
                model_dir = folder_of(flags, language, name, arm)
                if is_finished(model_dir):
                    share = study.arms[arm].get("batch", 1.0)
                    kept.setdefault(language, {}).setdefault(name, {})[arm] = entry_of(model_dir, share)
    with whole_file(KEPT, "w") as file:
        for language, studies in kept.items():
            for name, arms in studies.items():
                for arm, entry in arms.items():
                    file.write(json.dumps({"language": language, "study": name, "arm": arm, **entry}) + "\n")


def entry_of(model_dir: str, share: float) -> dict:
    """What a run has found, for its training loss see `curve`.

    Args:
        share: of the study's batch that it had, in as many more steps.
    """
    scores = results_of(model_dir)
    with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as file:
        given = json.load(file)["flags"]
    with open(os.path.join(model_dir, "baseline.json"), encoding="utf-8") as file:
        counted = json.load(file)
    right = next(name for name in scores if name.split("/")[-1] == counted["measure"])
    # Of several tasks the one that is counted, whose scores its name leads: "masking/masked_lm_accuracy".
    loss = right.removesuffix("_accuracy") if "/" in right else "loss"
    return {
        "loss": round(scores[loss], 4),
        "right": round(scores[right], 4),
        "neighbour": round(counted["neighbour_baseline"], 4),
        "unigram": round(counted["unigram_baseline"], 4),
        "budget": [round(given["num_train_steps"] * share), round(given["train_batch_size"] * LENGTH / share)],
        "curve": [[step, round(nats, 3)] for step, nats in curve(model_dir, loss)],
    }


def read_kept() -> dict[str, dict[str, dict[str, dict]]]:
    """Language -> study -> arm -> what it has found."""
    kept: dict[str, dict[str, dict[str, dict]]] = {}
    with open(KEPT, encoding="utf-8") as file:
        for entry in map(json.loads, file):
            kept.setdefault(entry["language"], {}).setdefault(entry["study"], {})[entry["arm"]] = entry
    return kept


def report(flags) -> None:
    """The page and the picture."""
    gather(flags)
    kept = read_kept()
    parts = [
        "Held-out loss and accuracy of networks of 2 layers of 128; of `mini` 4 layers of 256; of `small` and `medium` 4 and 8 layers "
        "of 512, in bfloat16. Each arm differs from `small`, the numbers of small networks, in what its name says; masked language "
        "models hide 15 % of the tokens, and are scored so, where it names no other share. All warm up for a tenth of the steps. One "
        "seed: read differences below a point as none. The neighbour baseline predicts each token by counts of its neighbours in the "
        "training text (docs/watching.md). Where it differs between arms, they were scored on other numbers of held-out rows: compare "
        "how far each is from its baseline."
    ]
    for language, studies in kept.items():
        for name, arms in studies.items():
            ordered = [arm for arm in STUDIES[name].arms if arm in arms]
            rows = [
                [arm, f"{found['loss']:.2f}", *(f"{100 * found[title]:.1f}" for title in ("right", "neighbour"))]
                for arm, found in ((arm, arms[arm]) for arm in ordered)
            ]
            first = arms[ordered[0]]
            if other := [arm for arm in ordered if arms[arm]["budget"] != first["budget"]]:
                raise SystemExit(
                    f"{language}, {name}: {', '.join(other)} had other steps than {ordered[0]}. Remove their lines from {KEPT}, or "
                    "train all of them with the same --steps."
                )
            rows.append(["always the most frequent token", "", f"{100 * first['unigram']:.1f}", ""])
            steps, tokens = first["budget"]
            parts += [
                f"## {language}, {name} (`--system={STUDIES[name].system}`), {steps:,} steps of {tokens:,} tokens",
                table(["arm", "loss", "accuracy, %", "neighbour baseline, %"], rows),
            ]
    curves = {
        (language, name, arm): found["curve"]
        for language, studies in kept.items()
        for name, arms in studies.items()
        for arm, found in arms.items()
        if found["curve"]
    }
    height = 2.9 * rows_of(len({key[:2] for key in curves}))
    write_picture(NAME, lambda figure: draw(figure, curves), 10.0, height, RESULTS)
    parts += [
        f"![Training loss]({NAME}.png)",
        environment(f"python -m benchmarks.{NAME} --text_dir=TEXT --language=LANGUAGE --work_dir=work", [SEED]),
    ]
    print(write_page(NAME, "Small networks", parts, RESULTS))


def curve(model_dir: str, loss: str) -> list[tuple[int, float]]:
    """(step, loss) of the log, of the loss of that name."""
    with open(os.path.join(model_dir, "log.jsonl"), encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [(entry["step"], entry[loss]) for entry in entries if entry["kind"] == "train" and loss in entry]


def draw(figure, curves: dict) -> None:
    panels = list(dict.fromkeys(key[:2] for key in curves))
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(rows_of(len(panels)), min(COLUMNS, len(panels)), number + 1)
        for place, arm in enumerate(SHOWN):
            if points := curves.get((*panel, arm)):
                last = points[-1][0]
                shares, losses = [step / last for step, _ in points], [loss for _, loss in points]
                axes.plot(shares, losses, label=arm, color=f"C{place}", linewidth=1.2)
        axes.set_title(": ".join(panel))
        axes.legend(frameon=False, fontsize=7)
        if number % COLUMNS == 0:
            axes.set_ylabel("training loss, nats")
        if number + COLUMNS >= len(panels):
            axes.set_xlabel("share of the steps")


def rows_of(panels: int) -> int:
    return -(-panels // COLUMNS)


if __name__ == "__main__":
    main()
