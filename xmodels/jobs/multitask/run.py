"""Fine-tunes one network on several tasks together, with a head for each (Liu et al., 2019, arXiv 1901.11504)."""

import dataclasses
import functools

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import structural
from xmodels.jobs import devices, dry_run, numbers
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.finetune.rates import print_rates
from xmodels.jobs.multitask.options import Options
from xmodels.jobs.multitask.plan import MEAN_SCORE, Plan, plan
from xmodels.jobs.multitask.results import hand_over
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.samples import first_batch, join_samplers, make_sampler
from xmodels.runs.training import Identity, Training, run
from xmodels.training.devices.workers import Workers
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.watching.progress import print_status
from xmodels.training.watching.watching import Watch, watch

STRUCTURAL = structural(Options)
OF_A_TASK = structural(finetune.Options)
EXAMPLES = 2  # of each task, that the report shows


def multitask(options: Options) -> dict[str, float]:
    """Trains all tasks and writes the run folder, and in it the folder of each task: `NAME/`, a run as `finetune` makes one.

    Returns the scores of all tasks, `NAME SET SCORE`; nothing of a dry run. Of tasks with an eval_file, the weights handed over are
    those of the epoch with the best mean of their decisive scores.
    """
    preflight.check_writable(options.model_dir)
    strategy = devices.choose(options)
    workers = Workers(strategy)
    if workers.count > 1:
        raise UsageError("multitask needs one machine. Start it without TF_CONFIG, on all its GPUs.")
    with devices.at_work(options, workers):
        return _multitask(options, strategy, workers)


def _multitask(options: Options, strategy, workers: Workers) -> dict[str, float]:
    job = plan(options, strategy)
    if options.dry_run:
        show(job)
        return {}
    return run(training_of(job), workers)


def show(job: Plan) -> None:
    """Prints what would be trained; cost and examples are those of the first task."""
    announce(job)
    first = next(iter(job.members.values()))
    dry_run.show(numbers_of(job), job.learner, first.batches, job.tokenizer, job.num_steps, first.data.labels)


def numbers_of(job: Plan) -> list[tuple[str, object, str]]:
    """Returns (name, value, where it comes from) of all that is set."""
    filled = {name: (value, job.options.optimizer) for name, value in _settings(job).items()}
    return numbers.list_numbers(job.options, filled)


def announce(job: Plan) -> None:
    """Says what is learnt from what."""
    for name, each in job.members.items():
        print_status(
            f"{name}: {each.options.task}, {each.data.summary}, {each.data.source.num_examples:,} training rows, "
            f"{_steps(job, name):,} batches of {each.batches.batch_size} an epoch."
        )
    epochs = f"{job.num_steps} steps ({job.options.num_train_epochs:g} epochs of {job.per_epoch})"
    print_status(f"{len(job.members)} tasks, {epochs}, from {job.origin}.")
    print_rates(job.optimization, job.learner)


def _steps(job: Plan, name: str) -> int:
    """Returns the batches of a task in an epoch; with a ratio those that are drawn from."""
    return job.schedule.stages[0][name] if job.finetuning.joint.mixture else job.members[name].batches_per_epoch


def training_of(job: Plan) -> Training:
    """Returns the training of a job. Where there are evaluation sets, it hands over the weights of the best epoch on the way."""
    options = job.options

    def watching(state: State) -> Watch:
        run_folder.write_data(options.model_dir, job.tokenizer, None)
        return watch_of(job)

    return Training(
        identity_of(job), job.learner, options, job.num_steps, "--num_train_epochs",
        prepare_start=lambda: lambda: State(0, options.seed),
        restore=lambda path: checkpoints.restore(path, job.learner),
        watch=watching,
        hand_over=functools.partial(hand_over, job),
        loop={
            "evaluate": job.evaluate if job.evaluated_tasks else None, "evaluate_every": job.per_epoch,
            "select": lambda means: means[MEAN_SCORE], "on_best": job.hand_over,
            "patience": options.early_stopping_patience or 0,
        },
        announce=functools.partial(announce, job),
        numbers=numbers_of(job),
    )  # fmt: skip


def watch_of(job: Plan) -> Watch:
    """Returns what looks at the run on the way, with predictions of some examples of each task."""
    options, samples = job.options, {}
    for name, each in job.members.items():
        source = each.data.evaluation_sets.get("evaluation", each.data.source)
        batches = dataclasses.replace(each.batches, source=source)
        first = lambda batches=batches: first_batch(batches, EXAMPLES)  # noqa: E731
        samples[name] = make_sampler(job.learner, first, job.tokenizer, each.data.labels, name)
    zeros = next(iter(job.members.values())).batches.zeros()
    return watch(
        job.learner, zeros, options.model_dir, options.log_norms_steps, options.profile_steps,
        join_samplers(samples),
    )  # fmt: skip


def identity_of(job: Plan) -> Identity:
    """Returns which run this is."""
    options, loaded = job.options, job.loaded
    identity = {"job": "multitask", "model": loaded.model, "config": loaded.config.to_json()}
    identity |= {"system": loaded.system} if loaded.system else {}
    identity["tasks"] = {name: identity_of_member(each) for name, each in job.members.items()}
    identity |= {f"{name}_sha256": source.sha256 for name, source in job.others.items()}
    identity["epochs"] = job.finetuning.joint.describe()
    return Identity(
        options.model_dir, identity, dataclasses.asdict(options), _settings(job), STRUCTURAL, options.resume
    )


def identity_of_member(member) -> dict:
    """Returns what must be equal of a task when a run is resumed."""
    values = {name: getattr(member.options, name) for name in (*OF_A_TASK, "train_batch_size")}
    own = {name: value for name, value in values.items() if name not in STRUCTURAL and value is not None}
    own.pop("pooling", None)
    # The one that holds, also by default; None if it is the published one.
    if pooling := getattr(member.task, "pooling", None):
        own["pooling"] = pooling
    return {**own, "labels": member.data.labels, "training_data_sha256": member.data.source.sha256}


def _settings(job: Plan) -> dict:
    """Returns the numbers that hold, under the names of their flags; the schedule of the tasks follows from `tasks` and the
    seed."""
    return {**job.optimization.settings(), "do_lower_case": job.tokenizer.describe().get("do_lower_case")}
