"""The page of `mt_dnn`: what its runs gave, and which claims hold."""

import functools
import statistics

from benchmarks.measure import table
from benchmarks.reproductions import mt_dnn_baselines
from benchmarks.reproductions.commands import network_of
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page

NAME = "mt_dnn"
FEWEST = 10  # rows of which a gain is claimed; fewer say more of the draw than of the network
TOGETHER, ALONE, RANDOM = "together", "alone", "random weights"
PRETRAINED, OTHERS = "pretrained", "after the other tasks"


def of_peer(flags, peer: dict[str, dict]) -> list[str]:
    """What Hugging Face's BERT makes of the same rows, by what its heads read."""
    percent = functools.partial(mean_and_deviation, scale=100)
    arms = [(pooling, arm) for pooling in peer for arm in (ALONE, TOGETHER)]
    few = peer[flags.pooling]
    first = [[name, *(percent(peer[pooling][arm][name]) for pooling, arm in arms)] for name in few[ALONE]]
    second = [[label, *(percent(each[share]) for share in flags.fractions)] for label, each in few["few"].items()]
    return [
        "## Hugging Face's BERT",
        f"The same network, rows and passes with the code of Hugging Face and PyTorch, at a rate of {flags.peer:g}, seeds "
        f"{', '.join(map(str, flags.peer_seeds))}: one linear head for each task, without the lists. `published` is the pooler "
        "of the first state.",
        table(["task", *(", ".join(each) for each in arms)], first),
        table([f"{flags.target}, begins", *(f"{fraction:.2%}" for fraction in flags.fractions)], second),
    ]


def by_readout(flags, scores, others) -> list[str]:
    """Both poolings beside each other."""
    names = {flags.pooling: scores, flags.other_pooling: others}
    percent = functools.partial(mean_and_deviation, scale=100)
    rows = [
        [name, *(percent(found[arm][name]) for found in names.values() for arm in (ALONE, TOGETHER))]
        for name in scores[ALONE]
    ]
    columns = [f"{pooling}, {arm}" for pooling in names for arm in (ALONE, TOGETHER)]
    note = (
        "`published` is BERT's pooler of the first state, `mean` the mean of all states. A network whose maker averaged states, as "
        "that of sentence-transformers, has to learn to use its pooler first."
    )
    return ["## What the heads read", note, table(["task", *columns], rows)]


def write_report(flags, tasks, target, scores, others, few, heads, peer) -> str:
    """The page."""
    mean, without, levels = statistics.mean, mt_dnn_baselines.baselines(tasks), mt_dnn_baselines.LEVELS
    percent = functools.partial(mean_and_deviation, scale=100)
    first = [
        [name, task.kind, task.score, f"{task.count:,}", *(f"{100 * value:.1f}" for value in without[name])]
        + [percent(scores[arm][name]) for arm in (RANDOM, ALONE, TOGETHER)]
        for name, task in tasks.items()
    ]
    words = {each: mt_dnn_baselines.over_seeds(target, each, flags.seeds) for each in flags.fractions}
    second = [
        [level, *(percent([found[place] for found in words[each]]) for each in flags.fractions)]
        for place, level in enumerate(levels)
    ]
    second += [[label, *(percent(found[each]) for each in flags.fractions)] for label, found in few.items()]
    third = [
        [level, percent([found[place] for found in words[max(flags.fractions)]])] for place, level in enumerate(levels)
    ]
    third += [[name, percent(found)] for name, found in heads.items()]
    shares = [each for each in flags.fractions if each * target.count >= FEWEST]
    least, most = min(shares), max(shares)
    gain = {each: mean(few[OTHERS][each]) - mean(few[PRETRAINED][each]) for each in (least, most)}
    claims = {
        "learnt together the tasks are better on average than each alone": mean(mean(v) for v in scores[TOGETHER].values())
        > mean(mean(v) for v in scores[ALONE].values()),
        f"with {least:.0%} of the labels the target gains 3 points or more from the other tasks": gain[least] >= 0.03,
        "the gain shrinks with more labels": gain[most] < gain[least],
        "the answer network is as good as a linear head or better": mean(heads["answer network"]) >= mean(heads["linear head"]),
    }  # fmt: skip
    parts = [
        f"The network: {network_of(flags.init_checkpoint)}. {flags.epochs:g} passes over each task, `{flags.optimizer}`, rates of "
        f"{', '.join(f'{rate:g}' for rate in flags.rates)}; runs with few labels have {flags.least_steps} updates or more"
        f", networks of {RANDOM} rates of {', '.join(f'{rate:g}' for rate in flags.random_rates)}"
        f"{''.join(f', `{flag}`' for flag in flags.more)}; heads of one state read `--pooling={flags.pooling}`.\n\n"
        f"Test scores in percent, mean and deviation over the seeds {', '.join(map(str, flags.seeds))}. "
        "The rate of each arm is the best on development rows. Of lists `majority` is an order by chance and the bag of words the "
        "cosine of query and candidate; of numbers it is their mean and a ridge regression.",
        "## Together and alone",
        table(["task", "kind", "score", "rows", *levels, f"{RANDOM}, {ALONE}", ALONE, TOGETHER], first),
        *(by_readout(flags, scores, others) if others else ()),
        f"## Few labels of {flags.target}, of {target.count:,} rows",
        table(["begins", *(f"{fraction:.2%}" for fraction in flags.fractions)], second),
        f"## Heads on {flags.target}",
        table(["head", "score"], third),
        verdict(claims),
        *(of_peer(flags, peer) if peer else ()),
        environment(f"python -m benchmarks.reproductions.{NAME} …", flags.seeds),
    ]
    folder = flags.folder if flags.smoke else flags.results  # a trial is no result
    return write_page(NAME, "MT-DNN: tasks learnt together", parts, folder)
