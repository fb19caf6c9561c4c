"""Universal Transformer on bAbI 1 to 3, against Transformers of equal parameters and of equal compute.

    python -m benchmarks.reproductions.universal_transformer_babi --data=tasks_1-20_v1-2/en-10k

One network learns the three tasks jointly, each kind at the rate that is best for it on held-out questions with the first seed. A
task whose training file is missing from the folder is not an error for task 3 alone: `moved_things` then makes its stories. An
interrupted run goes on where it stopped (`--work`). With `--jobs` kinds are trained side by side, in processes of their own.
`--tensor2tensor` has the original code learn the same batches with the first seed, at the rates of ours, and says which claims come
out there.
"""

import argparse
import dataclasses
import json
import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from benchmarks.reproductions import commands, pages, peer_universal_transformer
from benchmarks.reproductions.babi_questions import SENTENCES, WORDS, Data, read
from benchmarks.reproductions.universal_transformer_networks import CASES, MAX_STEPS, PEERS, STEPS
from benchmarks.reproductions.universal_transformer_report import NAME, best_rate, held_out_error, write
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import buckets
from data_pipelines.corpora.babi import StoryQuestion
from data_pipelines.corpora.tables import Row
from data_pipelines.finetuning.linear import bag_of_words, majority
from xmodels.models.folder import model_class
from xmodels.runs.fine_tuned import write_task
from xmodels.runs.folder import write_backbone
from xmodels.tasks.answer_story.task import AnswerStory
from xmodels.training.devices import distribution
from xmodels.training.loop import Loop
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

FOUND = "found.json"  # in the folder of a run: what it has found
KEEP = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")
LOOKED_AT = 200  # held-out questions of each task that draw the curves
# A kind begins in the middle, and goes on for as long as its best rate has a neighbour that has not been tried.
RATES, FIRST = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3), slice(2, 4)
BUCKETS = "8,12,16,20,24,28,32,40,48,64,96"


def main() -> None:
    options = flags().parse_args()
    if options.jobs > 1:
        train_side_by_side(options)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    data = read(options.data, options.questions, options.questions_3)
    found, peer = {}, {}
    for name in options.networks.split(","):
        tried = trained_at_rates(name, options, data)
        found[name] = tried
        scores = {rate: [run["scores"] for run in runs] for rate, runs in tried.items()}
        print(f"{name}: {json.dumps(scores)}", flush=True)
        if options.tensor2tensor and name in PEERS:
            peer[name] = [trained_peer(name, best_rate(tried), options, data)]
    if set(found) == set(CASES):
        write(options, command(options), data, found, baselines(data), peer)


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of bAbI with files qaN_*_train.txt and qaN_*_test.txt")
    parser.add_argument("--work", default="build/universal_transformer_babi", help="folder of the runs")
    parser.add_argument("--networks", default=",".join(CASES))
    parser.add_argument("--questions", type=int, default=10_000, help="of each task for training and choice")
    parser.add_argument("--questions_3", type=int, default=2_500, help="of task 3, which is dear and is hardly learnt")
    parser.add_argument("--hidden_dim", type=int, default=64)
    parser.add_argument("--num_steps", type=int, default=2_000, help="updates of each network")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--halting_bias", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of weights and batches")
    parser.add_argument("--jobs", type=int, default=1, help="kinds that are trained side by side, a core for each")
    parser.add_argument(
        "--tensor2tensor", metavar="FOLDER", help="tensor2tensor's network too, of the package in this folder"
    )
    parser.add_argument("--results", default=pages.RESULTS)
    return parser


def command(options) -> str:
    given = vars(flags().parse_args(["--data=FOLDER"]))
    changed = [
        f"--{n}={v}"
        for n, v in vars(options).items()
        if v != given[n] and n not in ("data", "work", "results", "seeds", "jobs", "tensor2tensor")
    ]
    peer = ["--tensor2tensor=FOLDER"] * bool(options.tensor2tensor)
    return " ".join([f"python -m benchmarks.reproductions.{NAME} --data=FOLDER", *changed, *peer])


def train_side_by_side(options) -> None:
    """Each kind of network in a process of its own, which leaves what it has found in its folders. Raises where one fails."""
    given = [f"--{n}={v}" for n, v in vars(options).items() if v is not None and n not in ("networks", "seeds", "jobs")]
    seeds = ["--seeds", *map(str, options.seeds)]
    commands.side_by_side(
        NAME, [[*given, f"--networks={name}", *seeds] for name in options.networks.split(",")], options.jobs
    )


def baselines(data: Data) -> dict[str, dict[str, float]]:
    """Errors in percent by task, of the commonest answer of a task and of the bag of its words: facts and question are a pair."""
    errors: dict[str, dict[str, float]] = {"always the commonest answer": {}, "bag of words": {}}
    for task, asked in data.test.items():
        train, test = (
            [Row((" ".join(each.sentences), each.question), each.answer, 0) for each in questions]
            for questions in ([each for each in data.train if each.task == task], asked)
        )
        right = majority([row.label for row in train], [row.label for row in test]), bag_of_words(train, test).accuracy
        for name, share in zip(errors, right, strict=True):
            errors[name][task] = 100 * (1 - share)
    return errors


# --- training


def trained_at_rates(name: str, options, data: Data) -> dict[float, list[dict]]:
    """Rate -> what the runs have found: of all seeds at the rate that is best with the first one, and that one's at the others."""
    first, *others = options.seeds
    made = commands.bracketed(lambda rate: trained(name, first, rate, options, data), held_out_error, RATES, FIRST)
    tried = {rate: [run] for rate, run in made.items()}
    best = best_rate(tried)
    tried[best] += [trained(name, seed, best, options, data) for seed in others]
    return tried


def trained(name: str, seed: int, rate: float, options, data: Data) -> dict:
    """Trains a network, or reads what an earlier run has found."""
    folder = folder_of(options, name, seed, rate)

    def found() -> dict:
        learner, batches = make(name, seed, rate, options, data)
        train(learner, batches, folder, seed, options, data)
        hand_over(learner, folder, data)
        scores, held_out = (
            {task: score(answers(learner), data, questions, batches) for task, questions in asked.items()}
            for asked in (data.test, data.dev)
        )
        return {
            "scores": scores, "held_out": held_out, "parameters": learner.backbone.count_params(), "curve": curve(folder),
        }  # fmt: skip

    return commands.kept(os.path.join(folder, FOUND), found)


def trained_peer(name: str, rate: float, options, data: Data) -> dict:
    """As `trained` with the first seed, of tensor2tensor's network, which is not gone on with where it was interrupted."""
    case, seed = CASES[name], options.seeds[0]

    def found() -> dict:
        learner, batches = make(name, seed, rate, options, data)
        config = learner.backbone.config
        shape = peer_universal_transformer.Shape(
            config.vocabulary_size, config.hidden_dim, config.num_heads, config.intermediate_dim, WORDS, config.dropout,
            len(data.labels), MAX_STEPS if case.ponder_weight else STEPS, case.ponder_weight, options.halting_bias,
        )  # fmt: skip
        peer = peer_universal_transformer.Peer(options.tensor2tensor, shape, seed)
        peer.train(batches, optimization(options, rate))
        scores = {task: score(peer.answers, data, questions, batches) for task, questions in data.test.items()}
        return {"scores": scores, "parameters": peer.parameters}

    return commands.kept(os.path.join(folder_of(options, f"tensor2tensor_{name}", seed, rate), FOUND), found)


def folder_of(options, name: str, seed: int, rate: float) -> str:
    return os.path.join(options.work, f"{name}_{rate:g}_{seed}")


def hand_over(learner: Learner, folder: str, data: Data) -> None:
    """Makes the folder one that `xmodels evaluate` and `predict` can ask."""
    write_backbone(folder, learner.backbone, learner.objective, data.encoder.tokenizer)
    write_task(folder, learner.objective, 2, SENTENCES + 1)


def make(name: str, seed: int, rate: float, options, data: Data) -> tuple[Learner, Batches]:
    case, strategy = CASES[name], distribution.choose("one_device")
    network, width = model_class(case.model), options.hidden_dim
    numbers = dict(case.numbers, halting_bias=options.halting_bias) if case.ponder_weight else case.numbers
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        config = network.config_class(
            vocabulary_size=len(data.encoder.tokenizer.vocabulary), hidden_dim=width, num_heads=4,
            intermediate_dim=4 * width, max_sequence_length=SENTENCES + 1, max_sentence_length=WORDS, dropout=0.1,
            attention_dropout=0.0, **numbers,
        )  # fmt: skip
        backbone = network(config).initialize()
        task, source = AnswerStory(config, data.labels, case.ponder_weight), data.source(data.train)
        lengths = source.arrays["padding_mask"].sum(axis=1)
        grouping = buckets(BUCKETS, lengths, int(lengths.max()))
        batches = Batches(source, task.transform(), options.batch_size, seed, KEEP, grouping)
        learner = Learner(
            strategy, backbone, single(task, batches), optimization(options, rate).make_optimizer(), seed=seed
        )
    return learner, batches


def optimization(options, rate: float) -> Optimization:
    return Optimization(num_steps=options.num_steps, learning_rate=rate, num_warmup_steps=200, optimizer="adam")


def train(learner: Learner, batches: Batches, folder: str, seed: int, options, data: Data) -> None:
    looked_at, asked = {task: questions[:LOOKED_AT] for task, questions in data.dev.items()}, answers(learner)

    def evaluate():
        scores = {task: score(asked, data, questions, batches) for task, questions in looked_at.items()}
        return {f"{task} {n}": value for task, found in scores.items() for n, value in found.items()}

    saved = checkpoints.complete(os.path.join(folder, "checkpoints"))
    state = checkpoints.restore(saved[-1], learner) if saved else checkpoints.State(0, seed)
    every = max(1, options.num_steps // 10)
    Loop(
        learner, folder, options.num_steps, seed, save_every=every, log_every=every,
        evaluate_every=every, evaluate=evaluate,
    ).run(state)  # fmt: skip


def curve(folder: str) -> list[dict]:
    """Step and scores of each evaluation of a run."""
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line.get("kind") == "evaluation"]


def score(asked: Callable, data: Data, questions: list[StoryQuestion], batches: Batches) -> dict[str, float]:
    """The error in percent, and of a network that ponders the mean and deviation of its steps at the facts that answers follow
    from, and the mean over all sentences and questions.

    Args:
        asked: gives `labels`, and of a network that ponders `ponder_times`, of a batch.
    """
    wrong, at_facts, all_times = [], [], []
    order = iter(questions)
    for batch in dataclasses.replace(batches, source=data.source(questions), batch_size=100, grouping=None).once():
        outputs = {name: np.asarray(values) for name, values in asked(batch).items()}
        counted = batch["example_weights"].numpy() > 0
        wrong.extend((outputs["labels"] != batch["labels"].numpy())[counted])
        if "ponder_times" in outputs:
            times, real = outputs["ponder_times"][counted], batch["padding_mask"].numpy()[counted]
            all_times.extend(times[real])
            for row, question in zip(times, order, strict=False):  # batches come in the order of the questions
                at_facts.extend(row[fact_places(question)])
    found = {"error": 100 * float(np.mean(wrong))}
    if all_times:
        found["all"] = float(np.mean(all_times))
    if at_facts:  # made-up stories do not name their facts
        found |= {"steps": float(np.mean(at_facts)), "deviation": float(np.std(at_facts))}
    return found


def fact_places(question: StoryQuestion) -> list[int]:
    """Where the facts stand among the sentences that the network reads: the last ones of a long story."""
    left_out = max(0, len(question.sentences) - SENTENCES)
    return [fact - left_out for fact in question.facts if fact >= left_out]


def answers(learner: Learner) -> Callable:
    def call(batch):
        outputs = learner.objective.forward(learner.backbone, batch, training=False)
        labels = tf.cast(tf.argmax(outputs["logits"], axis=-1), batch["labels"].dtype)
        return {"labels": labels} | ({"ponder_times": outputs["ponder_times"]} if "ponder_times" in outputs else {})

    return tf.function(call, reduce_retracing=True)


if __name__ == "__main__":
    main()
