"""Fine-tunes a pretrained network on a labelled table; resumes where it was interrupted."""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence

from data_pipelines.arrays import arrays_sha256
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import structural
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.jobs import devices, dry_run, numbers
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.plan import Plan, few_steps_warning, num_steps_of, phase_names, plan
from xmodels.jobs.finetune.rates import optimization_of, print_rates
from xmodels.jobs.finetune.results import hand_over
from xmodels.jobs.finetune.start import finetuning_of, reader_of
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.fine_tuned import write_task
from xmodels.runs.samples import first_batch, make_sampler
from xmodels.runs.training import Identity, Training, run
from xmodels.training.devices.workers import Workers
from xmodels.training.finetuning import TASK, Phase
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.watching.progress import print_status
from xmodels.training.watching.watching import Watch, watch

STRUCTURAL = structural(Options)
ORIGINS = {
    "num_train_steps": "num_train_epochs",
    "num_warmup_steps": "warmup_proportion",
    "do_lower_case": "checkpoint",
}


def finetune(options: Options) -> dict[str, float]:
    """Trains a task and writes the run folder. Returns losses and accuracies of the evaluation and test files; nothing
    of a dry run.

    With an evaluation file, the weights handed over are those of the epoch with the best decisive score on it. Workers that
    are not the chief hand over nothing and return nothing.
    """
    preflight.check_writable(options.model_dir)
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with devices.at_work(options, workers):
        return _finetune(options, strategy, workers)


def _finetune(options: Options, strategy, workers: Workers, led: Phase | None = None) -> dict[str, float]:
    """Returns one fine-tuning; first those that must come before it: phases of its task, and those of the recipe of its system.

    Args:
        led: the phase that it is itself.
    """

    def lead(phases: Sequence[Phase]) -> None:
        for phase in phases:
            _finetune(options_of(options, phase, workers), strategy, workers, phase)

    if led is None:
        lead(reader_of(options).phases())
    job = plan(options, strategy, lead) if led is None else plan(options, strategy, led=led)
    begun = os.path.isfile(os.path.join(options.model_dir, run_folder.CONFIG))
    if options.resume == "must" and job.phases and not begun:  # what had to be there was of a phase
        job = dataclasses.replace(job, flags=dataclasses.replace(job.flags, resume="auto"))
    if job.options.dry_run:
        show(job)
        return {}
    return run(training_of(job, workers, led is not None), workers)


def options_of(options: Options, phase: Phase, workers: Workers) -> Options:
    """Returns the options of a phase. Raises a UsageError where several machines would train it."""
    if workers.count > 1:
        raise UsageError(
            f"--task={options.task}: its two phases need one machine. Start it without TF_CONFIG, on all its GPUs."
        )
    return dataclasses.replace(options, **phase.changes, model_dir=os.path.join(options.model_dir, phase.name))


def show(job: Plan) -> None:
    """Prints what would be trained."""
    dry_run.show(numbers_of(job), job.learner, job.batches, job.tokenizer, job.num_steps, job.data.labels)


def numbers_of(job: Plan) -> list[tuple[str, object, str]]:
    """Returns (name, value, where it comes from) of all that is set."""
    options = job.options
    defaults = [name for name in vars(job.given) if getattr(job.given, name) != getattr(options, name)]
    settings = _settings(job.optimization, job.tokenizer)
    filled = {name: (value, ORIGINS.get(name, options.optimizer)) for name, value in settings.items()}
    filled |= {name: (getattr(options, name), f"{job.loaded.model}, fine-tuned") for name in defaults}
    return numbers.list_numbers(job.given, filled)


def announce(job: Plan) -> None:
    """Says what is learnt from what."""
    options = job.options
    size = f"{options.tokens_per_batch:,} tokens" if options.tokens_per_batch else f"{job.rows}"
    print_status(
        f"{options.task}: {job.data.summary}, {job.data.source.num_examples:,} training rows, {job.num_steps} steps of "
        f"{size} ({options.num_train_epochs:g} epochs), from {job.origin}."
    )
    if description := getattr(job.learner.first_objective, "description", None):
        print_status(f"Learnt from --teacher={options.teacher}: {description}.")
    print_rates(job.optimization, job.learner)
    if warning := few_steps_warning(job.num_steps, options):
        print_status(warning)


def training_of(job: Plan, workers: Workers, leads: bool) -> Training:
    """Returns the training of a job. Where there is an evaluation set, it hands over the weights of the best epoch on the way.

    Args:
        leads: whether another fine-tuning follows.
    """
    options = job.options

    def watching(state: State) -> Watch:
        run_folder.write_data(options.model_dir, job.tokenizer, None)
        chosen = job.evaluation.tuned if state.best_step is not None else ()  # with the weights in `backbone`
        if job.learns == TASK:
            write_task(options.model_dir, job.task, job.data.num_texts, options.max_seq_length, chosen)
        return watch_of(job, workers.folder(options.model_dir))

    return Training(
        _identity(
            job.flags, job.loaded, job.data.labels, job.optimization, job.tokenizer, job.phases, job.data.source.sha256,
            job.data.identity,
        ),
        job.learner, options, job.num_steps, None if leads else "--num_train_epochs",
        prepare_start=lambda: lambda: State(0, options.seed),
        restore=lambda path: checkpoints.restore(path, job.learner),
        watch=watching,
        hand_over=functools.partial(hand_over, job),
        loop={
            "evaluate": (lambda: job.means("evaluation")) if "evaluation" in job.data.evaluation_sets else None,
            "evaluate_every": options.eval_every or job.steps_per_epoch, "select": lambda means: means[job.decisive],
            "on_best": job.hand_over, "patience": options.early_stopping_patience or 0,
        },
        announce=functools.partial(announce, job),
        numbers=numbers_of(job),
    )  # fmt: skip


def watch_of(job: Plan, folder: str) -> Watch:
    """Returns what looks at the run on the way, with predictions of some examples."""
    options, batches = job.options, job.batches
    examples = dataclasses.replace(batches, source=job.data.evaluation_sets.get("evaluation", batches.source))
    return watch(
        job.learner, batches.zeros(), folder, options.log_norms_steps, options.profile_steps,
        make_sampler(job.learner, lambda: first_batch(examples), job.tokenizer, job.data.labels),
    )  # fmt: skip


def _most_per_epoch(options: Options, num_rows: int) -> float:
    """Updates in an epoch; of batches of tokens, which depend on lengths, the most that could be."""
    per_epoch = num_rows / (1 if options.tokens_per_batch else options.train_batch_size)
    return math.ceil(per_epoch) if options.length_buckets else per_epoch


def existing_run(options: Options, loaded, labels: list[str], num_rows: int, tokenizer: Tokenizer) -> run_folder.Claim:
    """Returns what --model_dir holds of the run that these make; raises where it holds another one. Changes nothing."""
    reader = reader_of(options)
    phase = reader.of_this_phase(options)
    finetuning, loaded = finetuning_of(phase, loaded)
    finetuning = reader.extend(finetuning)
    per_epoch = _most_per_epoch(options, num_rows) * finetuning.steps_per_step
    optimization = optimization_of(phase, num_steps_of(phase, per_epoch), per_epoch)
    phases = phase_names(reader, finetuning)
    return _identity(options, loaded, labels, optimization, tokenizer, phases).existing()


def _identity(
    options: Options, loaded, labels: list[str], optimization: Optimization, tokenizer: Tokenizer,
    phases: tuple[str, ...], data_sha256: str | None = None, identity: Mapping | None = None,
) -> Identity:  # fmt: skip
    """Returns which run this is; without `data_sha256` the training data are not compared."""
    job = {"job": "finetune", "model": loaded.model, "config": loaded.config.to_json(), "labels": labels}
    job |= {"system": loaded.system} if loaded.system else {}
    job |= {"training_data_sha256": data_sha256} if data_sha256 else {}  # whatever the file is called
    job |= identity or {}
    job |= {"adapted_sha256": arrays_sha256(loaded.values)} if options.lora_rank else {}  # states hold adapters alone
    settings = _settings(optimization, tokenizer)
    return Identity(options.model_dir, job, dataclasses.asdict(options), settings, STRUCTURAL, options.resume, phases)


def _settings(optimization: Optimization, tokenizer: Tokenizer) -> dict:
    """Returns the numbers that hold, under the names of their flags."""
    return {**optimization.settings(), "do_lower_case": tokenizer.describe().get("do_lower_case")}
