"""From a plan and what is known so far to the stages: a pure function, asked again whenever a stage is done.

Numbers of steps wait for probes, and seeds beyond those that choose wait for development scores; in a dry run estimates stand in.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from data_pipelines.options.create_pretraining_data import RecordOptions
from xmodels.comparison import networks, stages
from xmodels.comparison.arms import VECTORS, WORDS, Arm, list_arms
from xmodels.comparison.budget import StepCost, count_steps
from xmodels.comparison.labelled import get_flag
from xmodels.comparison.plan import Plan, Task, Vocabulary
from xmodels.comparison.stages import Input, Stage, as_text, make_stage
from xmodels.comparison.workspace import DONE, Workspace

DEV = "evaluation accuracy"  # in the results of a fine-tuning
MEASURED = ("processor_minutes", "device_minutes", "flops")  # budgets that need a probe
LINES = 50  # of the log of a pretraining
PROBE_LINES = 10
WITHOUT = ("eval_data_dir", "init_vectors", "freeze_vectors")  # flags that a probe lacks: vectors are there later
ASSUMED_FLOPS = 2e10  # a second of one process, where nothing was measured yet


@dataclasses.dataclass
class Pretrained:
    """The pretrainings of a system: one for each candidate, of which held-out text chooses.

    Attributes:
        cost: of a step, by the probe; None under a budget of tokens, or where it is not known yet.
        is_estimate: whether the number of steps, or the choice of a candidate, is one.
        chosen: the place in `candidates`; None where that is open, or all failed.
        runs: of the chosen one, a pretraining for each seed; the first is that of `candidates`.
    """

    arm: Arm
    tokens: int
    candidates: list[tuple[dict, Stage]] = dataclasses.field(default_factory=list)
    probe: Stage | None = None
    cost: StepCost | None = None
    num_steps: int | None = None
    is_estimate: bool = False
    chosen: int | None = None
    runs: list[Stage] = dataclasses.field(default_factory=list)

    @property
    def stages(self) -> list[Stage]:
        """All pretrainings, each once."""
        return list(dict.fromkeys([*(one for _, one in self.candidates), *self.runs]))

    def start(self, place: int) -> Stage:
        """Returns where the fine-tuning of a seed begins: pretrainings are taken in turn."""
        return self.runs[place % len(self.runs)]


@dataclasses.dataclass
class Learnt:
    """What an arm learnt of a task.

    Attributes:
        tried: each candidate with the fine-tunings that tell its worth.
        chosen: the place in `tried`; None where that is open, or all failed.
        runs: of the chosen candidate, (seed, fine-tuning, answers to the test).
        baselines: the stages of an arm without fine-tuning: one, or one for each pretraining of word vectors.
    """

    arm: Arm
    task: str
    tried: list[tuple[dict, list[Stage]]] = dataclasses.field(default_factory=list)
    chosen: int | None = None
    runs: list[tuple[int, Stage, Stage]] = dataclasses.field(default_factory=list)
    baselines: list[Stage] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Agenda:
    """All stages that can be named by now, what is needed first; and what still waits."""

    stages: list[Stage]
    pretrained: dict[str, Pretrained]
    learnt: dict[tuple[str, str], Learnt]
    waiting: list[str]


def make_agenda(plan: Plan, known: Workspace, only: Sequence[str] = ()) -> Agenda:
    """Returns what the plan asks for.

    Args:
        only: arms; none means all.
    """
    arms = [arm for arm in list_arms(plan) if not only or arm.name in only]
    return _Planning(plan, known).agenda(arms)


class _Planning:
    def __init__(self, plan: Plan, known: Workspace):
        self.plan, self.known = plan, known
        self.everyone = {arm.name: arm for arm in list_arms(plan)}
        self.found: list[Stage] = []
        self.pretrained: dict[str, Pretrained] = {}
        self.waiting: list[str] = []

    def agenda(self, arms: Sequence[Arm]) -> Agenda:
        givers = [self.everyone[arm.system.vectors].start for arm in arms if arm.system and arm.system.vectors]
        # Random weights have the size of a system; what others begin with comes first.
        needed = dict.fromkeys([*givers, *(arm.start for arm in arms if arm.start)])
        pretrained = self.pretrained = {name: self._add_probe(self.everyone[name]) for name in needed}
        if self.plan.budget.kind in MEASURED:
            open_ = [p.probe for p in pretrained.values() if not self.known.is_decided(p.probe)]
        else:
            open_ = []
        for each in pretrained.values():
            self._count(each, bool(open_))
            if each.num_steps is None:
                if each.cost is None:
                    self.waiting.append(f"{each.arm.name}: the number of steps, which the probes tell")
            elif self._has_vectors(each.arm):
                self._pretrain(each)
        learnt = {}
        for arm in arms:
            for task in self.plan.tasks:
                learnt[arm.name, task] = self._learn(arm, task, pretrained.get(arm.start))
        ordered = sorted(stages.closure(self.found), key=lambda one: stages.KINDS.index(one.kind))
        return Agenda(ordered, pretrained, learnt, self.waiting)

    def _add_probe(self, arm: Arm) -> Pretrained:
        system, plan = arm.system, self.plan
        rows = system.flags.get("train_batch_size", plan.pretraining.train_batch_size)
        flags = {**plan.pretraining.flags, **system.flags}
        found = Pretrained(arm, rows * (flags.get("pack_row_length") or plan.pretraining.max_seq_length))
        if plan.budget.kind in MEASURED:
            number = plan.pretraining.probe_steps
            flags = self._pretraining_flags(arm, {}, number, number // PROBE_LINES)  # what is tuned changes no cost
            flags |= {"eval_every": 10**9, "eval_steps": 1, "save_checkpoints_steps": 10**9, "keep_checkpoint_max": 1}
            for name in WITHOUT:
                flags.pop(name, None)
            found.probe = self._add(make_stage(stages.PROBE, f"probe {arm.name}", "pretrain", flags, arm.name))
            found.cost = self.known.cost(found.probe, found.tokens)
        return found

    def _candidates(self, arm: Arm) -> list[dict]:
        usual = {} if arm.kind == VECTORS else self.plan.pretraining.tune
        return combinations(usual if arm.system.tune is None else arm.system.tune)

    def _count(self, each: Pretrained, probes_are_open: bool) -> None:
        """Sets the number of steps, as far as it is known."""
        budget, most = self.plan.budget, each.arm.system.max_steps
        if budget.kind == "tokens":
            each.num_steps = count_steps(budget, StepCost(0, 0, 0, each.tokens), most)
        elif each.cost is not None and not probes_are_open:
            each.num_steps = count_steps(budget, each.cost, most)
        elif self.known.assumes:
            each.cost, each.is_estimate = each.cost or self._estimate_cost(each), True
            each.num_steps = count_steps(budget, each.cost, most)

    def _estimate_cost(self, each: Pretrained) -> StepCost:
        flops = each.tokens * networks.estimate_system(self.plan, each.arm.called, each.arm.system).flops_per_token
        return StepCost(flops / ASSUMED_FLOPS, flops / ASSUMED_FLOPS, flops, each.tokens)

    def _pretrain(self, each: Pretrained) -> None:
        numbers = self.plan.pretraining
        for candidate in self._candidates(each.arm):
            each.candidates.append((candidate, self._add(self._pretraining(each, candidate, numbers.seeds[0]))))
        runs = [[made] for _, made in each.candidates]
        each.is_estimate |= self._is_open(runs)
        each.chosen = self._choose(
            runs, lambda made: -self.known.results(made)["loss"],
            f"{each.arm.name}: the pretraining that is best on held-out text",
        )  # fmt: skip
        if each.chosen is not None:
            candidate = each.candidates[each.chosen][0]
            each.runs = [self._add(self._pretraining(each, candidate, seed)) for seed in numbers.seeds]

    def _pretraining(self, each: Pretrained, candidate: Mapping, seed: int) -> Stage:
        number, numbers = each.num_steps, self.plan.pretraining
        flags = self._pretraining_flags(each.arm, candidate, number, max(1, number // LINES))
        flags.setdefault("save_checkpoints_steps", max(1, number // 10))
        flags |= {"eval_every": max(1, number // numbers.evaluations), "eval_steps": numbers.eval_steps, "seed": seed}
        # The first seed has no name of its own: a plan that gets more seeds goes on with what it has.
        more = [] if seed == numbers.seeds[0] else [f"seed={seed}"]
        title = " ".join(["pretrain", each.arm.name, *format_numbers(candidate), *more])
        return make_stage(stages.PRETRAIN, title, "pretrain", flags, each.arm.name, each.is_estimate)

    def _pretraining_flags(self, arm: Arm, candidate: Mapping, number: int, log_steps: int) -> dict:
        system, numbers = arm.system, self.plan.pretraining
        flags = {
            "system": arm.called, "size": system.size, "data_dir": self._records(arm, "train"),
            "eval_data_dir": self._records(arm, "heldout"), "init_vectors": self._vectors(arm),
            "train_batch_size": numbers.train_batch_size, "seed": numbers.seeds[0],
            **({} if arm.kind == VECTORS else numbers.flags), **system.flags, **candidate,
        }  # fmt: skip
        return flags | {"num_train_steps": number, "log_steps": max(1, log_steps)}

    def _has_vectors(self, arm: Arm) -> bool:
        """Returns whether the run is known whose vectors it begins with, if it does."""
        if not arm.system.vectors or self._vectors(arm) is not None:
            return True
        message = f"{arm.name}: the word vectors of {arm.system.vectors}"
        if message not in self.waiting:
            self.waiting.append(message)
        return False

    def _vectors(self, arm: Arm) -> Stage | None:
        """Returns the run whose vectors an arm begins with; None where it begins without, or where that run is not known yet."""
        giver = arm.system.vectors
        runs = self.pretrained[self.everyone[giver].start].runs if giver and self.pretrained else []
        return runs[0] if runs else None

    def _own_vocabulary(self, arm: Arm) -> Vocabulary:
        is_of_words = arm.kind == VECTORS or arm.system.vectors
        usual = Vocabulary(self.plan.vocabulary.size, **WORDS) if is_of_words else self.plan.vocabulary
        return arm.system.vocabulary or usual

    def _vocabulary(self, arm: Arm) -> Stage:
        plan, chosen = self.plan, self._own_vocabulary(arm)
        own = arm.system.corpus  # beside the text of all, whose words tasks have
        files = [plan.corpus.train, *((own.train, own.train_target) if own else ())]
        flags = {
            "input_file": Input(",".join(filter(None, files))), "language": plan.language, "tokenizer": chosen.tokenizer,
            "vocab_size": chosen.size, **plan.corpus.flags, **(own.flags if own else {}), **chosen.flags,
        }  # fmt: skip
        title = " ".join(["vocabulary", chosen.tokenizer, str(chosen.size), *([arm.name] if arm.system.corpus else [])])
        return make_stage(stages.VOCABULARY, title, "train_vocabulary", flags)

    def _records(self, arm: Arm, part: str) -> Stage:
        plan, given = self.plan, dict(self.plan.records)
        given |= arm.system.records
        packing = given.pop("packing", None)
        own = {**plan.pretraining.flags, **arm.system.flags}.get("set")
        fitting = networks.list_packings(arm.called, arm.system.size, own)
        if packing not in fitting:  # the plan's own, of systems that read others
            packing = fitting[0]
        if arm.kind == VECTORS:
            given = dict(arm.system.records) | {"packing": packing}
        else:
            rate, length = given.get("masked_lm_prob", RecordOptions.masked_lm_prob), plan.pretraining.max_seq_length
            given.setdefault("max_predictions_per_seq", max(1, math.ceil(rate * length)))
            if networks.needs_words(arm.called):
                given.setdefault("do_whole_word_mask", True)
        corpus = arm.system.corpus or plan.corpus
        target = getattr(corpus, f"{part}_target")
        flags = {
            "input_file": Input(getattr(corpus, part)), "target_file": target and Input(target), "language": plan.language,
            "vocab_file": self._vocabulary(arm), "packing": packing, "max_seq_length": plan.pretraining.max_seq_length,
            **corpus.flags, **given,
        }  # fmt: skip
        own_text = [arm.name] if arm.system.corpus else []
        title = " ".join(["records", packing, self._own_vocabulary(arm).tokenizer, part, *own_text])
        return make_stage(stages.RECORDS, title, "create_pretraining_data", flags)

    def _learn(self, arm: Arm, name: str, pretrained: Pretrained | None) -> Learnt:
        task, found = self.plan.tasks[name], Learnt(arm, name)
        if not arm.is_network:
            sources = pretrained.runs if pretrained else [None]
            found.baselines = [self._add(self._baseline(arm, name, task, source)) for source in sources]
            return found
        is_ready = pretrained.runs if pretrained else self._has_vectors(arm)
        if not is_ready:
            return found
        is_estimate = bool(pretrained and pretrained.is_estimate)
        numbers = self.plan.finetuning
        own = arm.system.tune_finetuning
        for candidate in combinations(numbers.tune if own is None else own):
            places = range(numbers.tuning_seeds)
            runs = [self._finetuning(arm, name, task, pretrained, candidate, place, is_estimate) for place in places]
            found.tried.append((candidate, [self._add(run) for run in runs]))
        found.chosen = self._choose(
            [runs for _, runs in found.tried], lambda run: self.known.results(run)[DEV],
            f"{arm.name}, {name}: the numbers that are best on the development file",
        )  # fmt: skip
        if found.chosen is not None:
            is_estimate |= self._is_open([runs for _, runs in found.tried])
            for place, seed in enumerate(numbers.seeds):
                run = self._finetuning(arm, name, task, pretrained, found.tried[found.chosen][0], place, is_estimate)
                found.runs.append((seed, self._add(run), self._add(self._answers(arm, name, task, run, seed))))
        return found

    def _finetuning(
        self,
        arm: Arm,
        name: str,
        task: Task,
        pretrained: Pretrained | None,
        candidate: Mapping,
        place: int,
        is_estimate: bool,
    ) -> Stage:
        seed = self.plan.finetuning.seeds[place]
        flags = {
            "task": task.task, **self._beginning(arm, pretrained, place), "train_file": Input(task.train),
            "eval_file": Input(task.dev), **task.columns(), **self.plan.finetuning.flags, **task.flags, **arm.system.finetune,
            **candidate, "seed": seed,
        }  # fmt: skip
        flags.setdefault("keep_checkpoint_max", 1)
        title = " ".join(["finetune", arm.name, name, *format_numbers(candidate), f"seed={seed}"])
        return make_stage(stages.FINETUNE, title, "finetune", flags, arm.name, is_estimate)

    def _beginning(self, arm: Arm, pretrained: Pretrained | None, place: int) -> dict:
        """Returns the flags of what a fine-tuning begins with."""
        if pretrained is None:
            network = f"new:{arm.system.new}/{arm.system.size}"
            vectors = self._vectors(arm)
            return {"init_checkpoint": network, "vocab_file": self._vocabulary(arm), "init_vectors": vectors}
        if arm.of:  # random weights take nothing but sizes and vocabulary from there
            return {"init_checkpoint": pretrained.start(0), "random_init": True}
        return {"init_checkpoint": pretrained.start(place)}

    def _answers(self, arm: Arm, name: str, task: Task, run: Stage, seed: int) -> Stage:
        columns = {n: v for n, v in task.columns().items() if n != "label_column"}
        flags = {
            "model_dir": run,
            "input_file": Input(task.test),
            **columns,
            "encoding": get_flag(self.plan, task, "encoding"),
        }
        return make_stage(stages.PREDICT, f"predict {arm.name} {name} seed={seed}", "predict", flags, arm.name)

    def _baseline(self, arm: Arm, name: str, task: Task, source: Stage | None) -> Stage:
        files = {"train_file": Input(task.train), "eval_file": Input(task.dev), "test_file": Input(task.test)}
        own = {flag: get_flag(self.plan, task, flag) for flag in ("on_bad_row", "encoding")}
        flags = {"baseline": arm.name, **files, **task.columns(), **own, "vectors": source}
        which = source.name.removeprefix(f"pretrain {arm.start}").split() if source else []
        return make_stage(stages.BASELINE, " ".join([arm.name, name, *which]), "", flags, arm.name)

    def _choose(self, candidates: list[list[Stage]], score: Callable[[Stage], float], what: str) -> int | None:
        """Returns the place of the best candidate, by the mean over its runs, when all are done or have failed."""
        if len(candidates) == 1:
            return 0
        if self._is_open(candidates):
            if self.known.assumes:
                return 0
            self.waiting.append(what)
            return None
        whole = [i for i, runs in enumerate(candidates) if all(self.known.state(run) == DONE for run in runs)]
        return max(whole, key=lambda i: statistics.mean(map(score, candidates[i])), default=None)

    def _is_open(self, candidates: list[list[Stage]]) -> bool:
        """Returns whether there is a choice that cannot be made yet."""
        return len(candidates) > 1 and not all(self.known.is_decided(run) for runs in candidates for run in runs)

    def _add(self, one: Stage) -> Stage:
        self.found.append(one)
        return one


def combinations(tune: Mapping[str, Sequence[float]]) -> list[dict]:
    """Returns all ways to take one value of each list; one without a number where there is no list."""
    return [dict(zip(tune, values, strict=True)) for values in itertools.product(*tune.values())]


def format_numbers(candidate: Mapping) -> list[str]:
    """Returns `learning_rate=0.001` for each number."""
    return [f"{name}={as_text(value)}" for name, value in candidate.items()]
