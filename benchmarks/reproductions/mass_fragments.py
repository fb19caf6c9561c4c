"""How much of a text should MASS hide? (Song et al., 2019, section 4.4 and figure 5)

    python -m benchmarks.reproductions.mass_fragments --work_dir=work \\
        --train=train.de.gz,train.en.gz --dev=val.de.gz,val.en.gz --test=test.de.gz,test.en.gz

Each flag names a file of sentences and one of their translations, line by line. The first `--pairs` pairs of the training files are
what is fine-tuned on, as translation; the sentences of the others, without what they are paired with, are what is pretrained on.
Each share of the text is a pretraining of equally many steps, and one network is fine-tuned from random weights. Rates are chosen on
the development pairs. `--peer` has Hugging Face's BART learn the same batches, and says which claims come out there.
With `--jobs` shares are tried side by side, a process for each. Interrupted, the same command goes on.
"""

import argparse
import json
import math
import os
import statistics

from benchmarks.measure import table
from benchmarks.reproductions import commands, pages, peer_mass
from benchmarks.reproductions.pretraining_inputs import numbers, write_once
from data_pipelines.corpora.text_files import open_text

NAME, LENGTH, BATCH, VOCABULARY = "mass_fragments", 32, 32, 4000
RATES = ("1e-3", "4e-3")  # of Muon, which trains the networks
FRAGMENTS = {"one token": 0.001, "a quarter": 0.25, "half": 0.5, "three quarters": 0.75, "all": 1.0}
NONE = "no pretraining"
# Arms of a process, the longest ones first. Random weights have the size and the vocabulary of another run.
PARTS = (f"half,{NONE}", "three quarters", "all", "a quarter", "one token")
OF_PEER = (NONE, "one token", "half", "three quarters", "all")  # that the claims compare
MARGIN = 0.01  # of the perplexity: shares that differ by less are as good as each other
NUMBERS = ("pairs", "num_steps", "batch_size", "epochs", "mixed_precision")  # flags of how much is trained
FILES = ("--train=…", "--dev=…", "--test=…", "--work_dir=work")  # as a page names them
LOSS, BLEU = "evaluation negative_log_likelihood", "bleu"


def read_lines(path: str) -> list[str]:
    with open_text(path) as file:
        return [line.strip() for line in file]


def prepare(flags) -> None:
    """Texts, tables of pairs, vocabulary and records, unless they are there."""
    sides = {part: [read_lines(path) for path in getattr(flags, part).split(",")] for part in ("train", "dev", "test")}
    texts = [line for side in sides["train"] for line in side[flags.pairs :] if line]
    sides["train"] = [side[: flags.pairs] for side in sides["train"]]
    held_out = [line for side in sides["dev"] for line in side if line]
    for name, lines in (("text", texts), ("heldout", held_out)):
        write_once(place(flags, f"{name}.txt"), ["\n\n".join(lines)])
    for part, both in sides.items():
        rows = [json.dumps({"text": a, "text_pair": b}, ensure_ascii=False) for a, b in zip(*both, strict=True)]
        write_once(place(flags, f"{part}.jsonl"), rows)
    if not os.path.exists(place(flags, "vocab.txt")):
        commands.run(
            "train_vocabulary", input_file=place(flags, "text.txt"), vocab_size=VOCABULARY, do_lower_case="false",
            output_file=place(flags, "vocab.txt"),
        )  # fmt: skip
    for name in ("text", "heldout"):
        commands.make_records(
            place(flags, f"records-{name}"), input_file=place(flags, f"{name}.txt"), vocab_file=place(flags, "vocab.txt"),
            packing="doc_sentences", max_seq_length=LENGTH, do_lower_case="false",
        )  # fmt: skip


def place(flags, name: str) -> str:
    return os.path.join(flags.work_dir, name)


def pretrained(flags, arm: str) -> str:
    """The folder of a pretraining; random weights have their size and vocabulary from any."""
    arm = "half" if arm == NONE else arm
    folder = place(flags, f"pretrained-{arm.replace(' ', '_')}")
    if not commands.is_finished(folder):
        commands.run(
            "pretrain", system="mass", size="tiny", set=f"fragment={FRAGMENTS[arm]}", model_dir=folder, seed=1,
            data_dir=place(flags, "records-text"), eval_data_dir=place(flags, "records-heldout"), num_train_steps=flags.num_steps,
            train_batch_size=flags.batch_size, log_steps=50, eval_every=flags.num_steps, save_checkpoints_steps=500,
            mixed_precision=flags.mixed_precision,
        )  # fmt: skip
    return folder


def finetuned(flags, arm: str, rate: str, seed: int) -> str:
    folder = place(flags, f"finetuned-{arm.replace(' ', '_')}-{rate}-{seed}")
    commands.fine_tuned(
        folder, *(["--random_init"] if arm == NONE else []), keep_weights=True, task="translate",
        init_checkpoint=pretrained(flags, arm), train_file=place(flags, "train.jsonl"), eval_file=place(flags, "dev.jsonl"),
        text_column="text", text_pair_column="text_pair", max_seq_length=LENGTH, train_batch_size=BATCH, optimizer="muon",
        num_train_epochs=flags.epochs, learning_rate=rate, seed=seed,
    )  # fmt: skip
    return folder


def translated(folder: str, test: str) -> dict:
    """What `evaluate` says of the translations of a fine-tuned network."""
    path = os.path.join(folder, "translations.json")
    if not os.path.isfile(path):
        commands.run("evaluate", task="translate", model_dir=folder, test_file=test, output_file=path, num_beams=4)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def scored(flags, arm: str) -> dict:
    """Rate, nats of a token of the development targets and BLEU of the test set by seed, and what the pretraining has lost."""
    rate, _ = commands.tuned(
        lambda rate, seed: commands.results_of(finetuned(flags, arm, rate, seed)), RATES, flags.seeds, LOSS, lowest=True
    )
    runs = [finetuned(flags, arm, rate, seed) for seed in flags.seeds]
    found = {
        "rate": rate,
        "nats": [commands.results_of(run)[LOSS] for run in runs],
        "bleu": [translated(run, place(flags, "test.jsonl"))[BLEU] for run in runs],
        "objective": None if arm == NONE else commands.results_of(pretrained(flags, arm))["negative_log_likelihood"],
    }
    print(f"{arm}: {json.dumps(found)}", flush=True)
    return found


def of_peer(flags, arms: list[str]) -> dict[str, list[float]]:
    """Nats of Hugging Face's network by arm and seed, with the rate that is best with the first seed."""
    files, found = {part: place(flags, f"{part}.jsonl") for part in ("train", "dev")}, {}
    for arm in arms:
        start = place(flags, f"peer-{arm.replace(' ', '_')}")
        peer_mass.pretrain(pretrained(flags, arm), start, untrained=arm == NONE)

        def nats(rate: str, seed: int, start: str = start) -> float:
            folder = f"{start}-{rate}-{seed}"
            return peer_mass.finetuned(start, folder, files, float(rate), seed, flags.epochs, BATCH, LENGTH)["nats"]

        rate = min(RATES, key=lambda each: nats(each, flags.seeds[0]))
        found[arm] = [nats(rate, seed) for seed in flags.seeds]
        print(f"{peer_mass.NAME}, {arm}: {rate}, {found[arm]}", flush=True)
    return found


def copied(test: str) -> float:
    """BLEU of sources that are handed on as they are."""
    from xmodels.tasks.translate.score import scores

    with open(test, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return scores([row["text"] for row in rows], [row["text_pair"] for row in rows])["bleu"]


def claims_of(nats: dict[str, list[float]]) -> dict[str, bool]:
    """What the paper says, and whether it came out on average over seeds. The margin was set before any score was seen."""
    perplexity = {arm: math.exp(statistics.mean(each)) for arm, each in nats.items()}
    best = min(perplexity.values())
    return {
        "every share is better than no pretraining, by perplexity": max(
            value for arm, value in perplexity.items() if arm != NONE
        )
        < perplexity[NONE],
        f"half of the text is the best share, or within {MARGIN:.0%} of it": perplexity["half"] <= (1 + MARGIN) * best,
        f"one token is worse than half of the text, by more than {MARGIN:.0%}": (
            perplexity["one token"] > (1 + MARGIN) * perplexity["half"]
        ),
        f"the whole text is worse than half of it, by more than {MARGIN:.0%}": (
            perplexity["all"] > (1 + MARGIN) * perplexity["half"]
        ),
    }


def written_of_peer(found: dict[str, dict], peer: dict[str, list[float]]) -> str:
    rows = [
        [
            arm,
            *(
                pages.mean_and_deviation([math.exp(each) for each in nats], ".2f")
                for nats in (found[arm]["nats"], peer[arm])
            ),
        ]
        for arm in peer
    ]
    left_out = " and ".join(arm for arm in found if arm not in peer)
    return (
        f"## A known implementation at the same budget\n\n{peer_mass.NAME} in PyTorch (`benchmarks/reproductions/peer_mass.py`), of "
        "the same shape, pretrained on the same batches and fine-tuned on the same pairs alike. Perplexity of translations:\n\n"
        + table(["hidden", "ours", "Hugging Face"], rows)
        + f"\nThe same claims, there, without {left_out}:\n\n"
        + pages.listed(claims_of(peer))
    )


def write(flags, found: dict[str, dict], peer: dict[str, list[float]] | None) -> None:
    rows = [
        [
            arm,
            f"{each['objective']:.2f}" if each["objective"] else "",
            each["rate"],
            pages.mean_and_deviation([math.exp(nats) for nats in each["nats"]], ".2f"),
            pages.mean_and_deviation(each["bleu"], ".2f"),
        ]
        for arm, each in found.items()
    ]
    rows.append(["the source, copied", "", "", "", f"{copied(place(flags, 'test.jsonl')):.2f}"])
    head = ["hidden", "held-out nats of a hidden token", "rate", "perplexity of translations", "BLEU"]
    count = len(read_lines(flags.train.split(",")[0])) - flags.pairs
    parts = [
        f"MASS (Song et al., 2019), `--size=tiny` (2 + 2 layers, width 128). Pretrained for {flags.num_steps:,} steps of "
        f"{flags.batch_size} sentences, of {2 * count:,} in two languages that are not paired, one pretraining for each share; then "
        f"fine-tuned on {flags.pairs:,} pairs, {flags.epochs} times, by Muon at the one of the rates {' and '.join(RATES)} that is "
        f"best on the development pairs with the first seed. Means and sample standard deviations of {len(flags.seeds)} seeds of "
        "fine-tuning.",
        pages.verdict(claims_of({arm: each["nats"] for arm, each in found.items()})),
        table(head, rows),
        "Perplexity is that of the development targets after the epoch that names most of their tokens, BLEU that of the test set "
        "with four beams. What a hidden token costs is not comparable between shares, since more of the text helps to name it.",
        *([written_of_peer(found, peer)] if peer else ()),
        f"![Perplexity and BLEU by share]({NAME}.png)",
        pages.environment(command(flags), flags.seeds, flags.jobs),
    ]
    pages.write_page(NAME, "MASS: how much of a text to hide", parts, flags.output_dir)
    pages.write_picture(NAME, lambda figure: draw(figure, found), 7.0, 3.2, flags.output_dir)


def draw(figure, found: dict[str, dict]) -> None:
    kinds = {
        "perplexity of development targets": lambda each: [math.exp(nats) for nats in each["nats"]],
        "BLEU": lambda each: each[BLEU],
    }
    for axes, (title, values) in zip(figure.subplots(1, 2), kinds.items(), strict=True):
        points = [values(found[arm]) for arm in FRAGMENTS]
        deviations = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in points]
        axes.errorbar(list(FRAGMENTS), [statistics.mean(each) for each in points], deviations, marker="o", capsize=3)
        axes.axhline(statistics.mean(values(found[NONE])), color="0.6", linestyle=":", label=NONE)
        axes.set(title=title, xlabel="of the text that is hidden")
        axes.tick_params("x", labelsize=7)
        axes.legend(frameon=False)


def command(flags) -> str:
    return " ".join([f"python -m benchmarks.reproductions.{NAME}", *FILES, *chosen(flags)])


def chosen(flags) -> list[str]:
    """How much is trained, and of whom, as flags: those that differ from their defaults."""
    return [*pages.changed(flags, parser().parse_args(FILES), NUMBERS), *["--peer"] * flags.peer]


def arms(given: str) -> list[str]:
    """The arms that a flag names."""
    named = given.split(",")
    if unknown := set(named) - {*FRAGMENTS, NONE}:
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: expected some of {', '.join([*FRAGMENTS, NONE])}"
        )
    return named


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ("train", "dev", "test"):
        made.add_argument(f"--{part}", required=True, metavar="SOURCE,TARGET")
    made.add_argument("--work_dir", required=True)
    made.add_argument("--pairs", type=int, default=2000, help="that are fine-tuned on; the others are pretrained on")
    made.add_argument("--num_steps", type=int, default=2000, help="of each pretraining")
    made.add_argument("--batch_size", type=int, default=96, help="sentences of a step of a pretraining")
    made.add_argument("--epochs", type=int, default=8, help="of each fine-tuning")
    made.add_argument(
        "--mixed_precision", help="of pretrainings, such as bfloat16: faster where the processor multiplies it"
    )
    made.add_argument("--seeds", type=numbers, default=[1, 2, 3], help="of fine-tunings")
    made.add_argument(
        "--arms", type=arms, default=[*FRAGMENTS, NONE], metavar="ARM,ARM", help="that are tried; a page has all"
    )
    made.add_argument("--jobs", type=int, default=1, help="shares that are tried side by side")
    made.add_argument("--peer", action="store_true", help="Hugging Face's BART too; needs torch and transformers")
    made.add_argument("--output_dir", default=pages.RESULTS, help="for the page and the picture")
    return made


def main() -> None:
    flags = parser().parse_args()
    os.makedirs(flags.work_dir, exist_ok=True)
    prepare(flags)
    if flags.jobs > 1:
        given = [f"--{name}={getattr(flags, name)}" for name in ("train", "dev", "test", "work_dir")]
        given += [f"--seeds={','.join(map(str, flags.seeds))}", *chosen(flags)]
        commands.side_by_side(NAME, [[*given, f"--arms={part}"] for part in PARTS], flags.jobs)
    found = {arm: scored(flags, arm) for arm in (*FRAGMENTS, NONE) if arm in flags.arms}
    peer = of_peer(flags, [arm for arm in OF_PEER if arm in flags.arms]) if flags.peer else None
    if len(found) == len(FRAGMENTS) + 1:
        write(flags, found, peer)


if __name__ == "__main__":
    main()
