"""Attention Is All You Need on a small corpus: German to English captions (Multi30k).

    python -m benchmarks.reproductions.transformer_multi30k --work_dir=work \\
        --train=train.de.gz,train.en.gz --valid=val.de.gz,val.en.gz --test=test.de.gz,test.en.gz

Any two languages do: each flag names a file of sentences and one of their translations, line by line. What is shown: that the
command line leads from two files to a BLEU, and what beam search and averaged checkpoints add (Vaswani et al., 2017, sections 5.4
and 6.1), each with the length penalty that is best for it on validation sentences, and at equal length. Finished parts are kept in
the work folder, so the same command goes on after an interruption. Norms, warm-up and positions: `transformer_norms`.
"""

import os
import sys

from benchmarks.reproductions import commands, transformer_report, translation_runs
from benchmarks.reproductions.translation_runs import nats_of

BATCH = {"tokens_per_batch": 2048, "length_buckets": "16,20,24,32,64"}
INTRODUCTION = """Attention Is All You Need (Vaswani et al., 2017) with the commands of this project, from {source} to {target}
(Multi30k: 29,000 captions, German and English). Neither the size nor the steps of the paper; means and sample standard deviations
of {num_seeds} seeds.

`--system=transformer --size=tiny` (2 + 2 layers, width 128), {num_steps:,} batches of {tokens:,} tokens a side in bfloat16, a
joint SentencePiece vocabulary of {vocab_size:,}, {rate} at its peak after a fifth of the steps as warm-up, then as in the paper.
Translations and nats are of float32. A network that knows only how frequent tokens are has {frequency:.1f} held-out nats a token."""


# Of the peak; tried from the middle, and further for as long as the best one has a neighbour that has not been tried.
RATES, FIRST = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3), slice(1, 4)


def train(flags, rate: float, seed: int) -> str:
    return translation_runs.train(
        flags.work_dir, f"main_{rate:g}", flags.num_steps, seed, system="transformer", size="tiny", learning_rate=rate,
        num_warmup_steps=flags.num_steps // 5, save_checkpoints_steps=max(1, flags.num_steps // 20),
        keep_checkpoint_max=transformer_report.AVERAGED, eval_every=max(1, flags.num_steps // 4), **BATCH,
    )  # fmt: skip


def main() -> None:
    parser = translation_runs.parser_of(__doc__)
    parser.add_argument("--num_steps", type=int, default=2000)
    parser.add_argument("--validation_rows", type=int, default=300, help="that choose the length penalty")
    parser.add_argument("--learning_rate", type=float, help="peak of the rate; by default the best one of several")
    flags = parser.parse_args()
    translation_runs.prepare(flags)
    tried = {}
    if flags.learning_rate is None:
        tried = commands.bracketed(lambda rate: train(flags, rate, flags.seeds[0]), nats_of, RATES, FIRST)
        flags.learning_rate = min(tried, key=lambda rate: nats_of(tried[rate]))
    if flags.jobs > 1 and len(flags.seeds) > 1:
        given = [*sys.argv[1:], f"--learning_rate={flags.learning_rate}", "--jobs=1", "--no_page"]
        parts = [[*given, f"--seeds={seed}"] for seed in flags.seeds]
        commands.side_by_side("transformer_multi30k", parts, flags.jobs)
    runs = [train(flags, flags.learning_rate, seed) for seed in flags.seeds]
    scores = [transformer_report.score(run, flags) for run in runs]
    if flags.no_page:
        return
    source, target = map(os.path.basename, flags.train.split(","))
    numbers = {
        **vars(flags),
        "source": source,
        "target": target,
        "num_seeds": len(flags.seeds),
        "rate": described(flags, tried),
    }
    numbers |= {"tokens": BATCH["tokens_per_batch"], "frequency": transformer_report.nats_by_frequency(runs[0], flags)}
    transformer_report.write(runs[0], scores, flags, INTRODUCTION.format(**numbers))


def described(flags, tried: dict[float, str]) -> str:
    """The rate in words, with what chose it."""
    nats = ", ".join(f"{nats_of(run):.3f} at {rate:g}" for rate, run in sorted(tried.items()))
    return (
        f"rate {flags.learning_rate:g}"
        + f" (of several that with the fewest held-out nats of the first seed: {nats})" * bool(tried)
    )


if __name__ == "__main__":
    main()
