"""Fine-tunes a pretrained network on a labelled table; resumes where it was interrupted."""

import dataclasses
import math

import keras

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import structural
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion import convert
from xmodels.jobs import devices, dry_run, step_options
from xmodels.jobs.finetuning_batches import choose_batches
from xmodels.jobs.finetuning_rates import optimization_of, say_rates
from xmodels.jobs.finetuning_start import opened, reader_of
from xmodels.jobs.options.finetune import Options
from xmodels.models.folder import assign, model_class
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.memory_check import check_resources
from xmodels.runs.report import write_report
from xmodels.runs.samples import sampler
from xmodels.tasks.base.find import part
from xmodels.tasks.base.read import Data, Reader
from xmodels.tasks.base.run import write_task
from xmodels.tasks.base.task import Task
from xmodels.training.devices import distribution
from xmodels.training.devices.workers import Workers
from xmodels.training.loop import Loop
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single
from xmodels.training.watching.progress import say
from xmodels.training.watching.watching import Watch, profile_steps, watch

STRUCTURAL = structural(Options)
ORIGINS = {
    "num_train_steps": "num_train_epochs",
    "num_warmup_steps": "warmup_proportion",
    "do_lower_case": "checkpoint",
}


def finetune(options: Options) -> dict[str, float]:
    """Trains a task and writes the run folder. Returns losses and accuracies of the evaluation and test files; nothing
    of a dry run.

    With an evaluation file, the weights handed over are those of the epoch with the best accuracy on it. Workers that
    are not the chief hand over nothing and return nothing.
    """
    preflight.check_writable(options.model_dir)
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with workers.together():
        return _finetune(options, strategy, workers)


def _finetune(options: Options, strategy, workers: Workers) -> dict[str, float]:
    reader = reader_of(options)
    loaded, tokenizer = opened(options, reader)
    defaults = reader.defaults()
    options = reader.options = dataclasses.replace(options, **defaults)
    check_options(options, strategy.num_replicas_in_sync, loaded)
    data = reader.read(tokenizer)
    decisive = part(options.task, "score").DECISIVE
    source, labels, evaluation_sets = data.source, data.labels, data.evaluation_sets
    grouping, rows, per_epoch = choose_batches(options, source, strategy.num_replicas_in_sync)
    num_steps = _num_steps(options, per_epoch)
    optimization = optimization_of(options, num_steps, per_epoch)
    learner, task, batches = _learner(options, strategy, loaded, reader, data, optimization, rows, grouping)
    backbone = learner.backbone
    mask = source.arrays["padding_mask"]
    sequences = mask.shape[1] if mask.ndim > 2 else 1  # an example may be several
    check_resources(options, learner, rows * sequences, options.max_seq_length)
    run = _run(options, loaded, labels, optimization, tokenizer, source.sha256)
    if options.dry_run:
        settings = _settings(optimization, tokenizer)
        filled = {name: (value, ORIGINS.get(name, options.optimizer)) for name, value in settings.items()}
        filled |= {name: (value, f"{loaded.model}, fine-tuned") for name, value in defaults.items()}
        given = dataclasses.replace(options, **dict.fromkeys(defaults))
        dry_run.show(given, filled, learner, batches, tokenizer, num_steps, labels)
        return {}
    state, results = devices.start(workers, learner, lambda: _start(options, learner, run, num_steps))
    if results is not None:
        run_folder.print_finished(options.model_dir, "--num_train_epochs")
        return results
    if workers.is_chief:
        run_folder.write_data(options.model_dir, tokenizer, None)
        write_task(options.model_dir, task, data.num_texts, options.max_seq_length)
    origin = options.init_checkpoint if loaded.values and not options.random_init else "random weights"
    size = f"{options.tokens_per_batch:,} tokens" if options.tokens_per_batch else f"{rows}"
    say(
        f"{options.task}: {data.summary}, {source.num_examples:,} training rows, {num_steps} steps of "
        f"{size} ({options.num_train_epochs:g} epochs), from {origin}."
    )
    say_rates(optimization, backbone)

    def hand_over():
        with learner.averaged():
            run_folder.write_backbone(options.model_dir, backbone, task, tokenizer, loaded.system)

    def score(name):
        return learner.evaluate(dataclasses.replace(batches, source=evaluation_sets[name]).once())

    looked_at = dataclasses.replace(batches, source=evaluation_sets.get("evaluation", batches.source))
    folder = workers.folder(options.model_dir)
    watcher = Watch()
    if workers.is_chief:
        watcher = watch(
            learner, batches.zeros(), folder, options.log_norms_steps, options.profile_steps,
            sampler(learner, looked_at, tokenizer, labels),
        )  # fmt: skip
    state = Loop(
        learner, folder, num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=max(1, int(per_epoch)),
        evaluate=(lambda: score("evaluation")) if "evaluation" in evaluation_sets else None,
        select=lambda means: means[decisive], on_best=hand_over, watch=watcher,
        keep=options.keep_checkpoint_max, max_skipped=options.max_skipped_steps,
    ).run(state)  # fmt: skip
    if not workers.is_chief:
        return {}
    averaged = learner.settle()
    if "evaluation" in evaluation_sets:
        best = convert.load(options.model_dir)
        assign("backbone", backbone, best.values, options.model_dir)
        assign(task.prefix, task, best.values, options.model_dir)
    else:
        hand_over()
        watcher.evaluated(state.step)
    kept_step, kept = _kept(options, state, max(1, int(per_epoch)), decisive)
    say(f"Kept {kept}.")
    reported = ("loss", decisive)
    results = {f"{name} {n}": v for name in evaluation_sets for n, v in score(name).items() if n in reported}
    for name, value in results.items():
        say(f"{name}: {value:.4f}")
    facts = {
        "task": options.task,
        "labels": ", ".join(labels[:20]) or "none",
        "from": origin,
        "steps": f"{num_steps:,}",
        "kept": kept,
        "weights": averaged or "as trained",
    }
    run_folder.write_model_card(options.model_dir, task.title, facts, results)
    run_folder.write_results(options.model_dir, num_steps, kept_step, results)
    say(f"Report: {write_report(options.model_dir)}")
    say(f"Fine-tuned network: {options.model_dir}/backbone")
    return results


def _start(options: Options, learner: Learner, run: tuple, num_steps: int):
    """Claims the run folder. Gives the state from which training goes on, and the results of a finished run, or None."""
    claim = run_folder.claim(*run)
    if not claim.state or claim.results is not None:
        return checkpoints.State(0, options.seed), claim.results
    state = checkpoints.restore(claim.state, learner)
    say(f"Resumed from {claim.state}: step {state.step} of {num_steps}.")
    return state, None


def _num_steps(options: Options, per_epoch: float) -> int:
    """Updates in all."""
    return max(1, int(options.num_train_epochs * per_epoch))


def _most_per_epoch(options: Options, num_rows: int) -> float:
    """Updates in an epoch; of batches of tokens, which depend on lengths, the most that could be."""
    per_epoch = num_rows / (1 if options.tokens_per_batch else options.train_batch_size)
    return math.ceil(per_epoch) if options.length_buckets else per_epoch


def existing_run(options: Options, loaded, labels: list[str], num_rows: int, tokenizer: Tokenizer) -> run_folder.Claim:
    """What --model_dir holds of the run that these make; raises where it holds another one. Changes nothing."""
    per_epoch = _most_per_epoch(options, num_rows)
    optimization = optimization_of(options, _num_steps(options, per_epoch), per_epoch)
    return run_folder.existing(*_run(options, loaded, labels, optimization, tokenizer))


def _run(
    options: Options, loaded, labels: list[str], optimization: Optimization, tokenizer: Tokenizer,
    data_sha256: str | None = None,
) -> tuple:  # fmt: skip
    """The arguments of `run_folder.claim`; without `data_sha256` the training data are not compared."""
    job = {"job": "finetune", "model": loaded.model, "config": loaded.config.to_json(), "labels": labels}
    job |= {"system": loaded.system} if loaded.system else {}
    job |= {"training_data_sha256": data_sha256} if data_sha256 else {}  # whatever the file is called
    settings = _settings(optimization, tokenizer)
    return options.model_dir, job, dataclasses.asdict(options), settings, STRUCTURAL, options.resume


def _settings(optimization: Optimization, tokenizer: Tokenizer) -> dict:
    """The numbers that hold, under the names of their flags."""
    return {**optimization.settings(), "do_lower_case": tokenizer.describe().get("do_lower_case")}


def _kept(options: Options, state: checkpoints.State, steps_per_epoch: int, chosen_by: str) -> tuple[int, str]:
    """The step whose weights are handed over, and why."""
    if state.best_step is None:
        return state.step, f"step {state.step}, the last one (there is no --eval_file to choose by)"
    epoch = state.best_step / steps_per_epoch
    return (
        state.best_step,
        f"step {state.best_step}, epoch {epoch:.4g} (best {chosen_by} {state.best:.4f} on "
        f"{options.eval_file or 'what was held out'})",
    )


def check_options(options: Options, num_replicas: int, loaded) -> None:
    """Raises a UsageError where numbers contradict each other, the devices or the checkpoint."""
    profile_steps(options.profile_steps)  # raises what is wrong with it
    if not options.num_train_epochs > 0:
        raise UsageError(f"--num_train_epochs={options.num_train_epochs:g}: must be more than 0; 3 is usual.")
    if not 0 <= options.warmup_proportion <= 1:
        raise UsageError(f"--warmup_proportion={options.warmup_proportion:g}: must lie between 0 and 1; 0.1 is usual.")
    step_options.check_batch_size(options, options.train_batch_size, num_replicas)
    longest = loaded.config.max_sequence_length
    if options.max_seq_length > longest:
        raise UsageError(
            f"--max_seq_length={options.max_seq_length}: the network has {longest} positions. Use --max_seq_length={longest} "
            "or less; longer texts are cut."
        )


def _learner(
    options: Options,
    strategy,
    loaded,
    reader: Reader,
    data: Data,
    optimization: Optimization,
    rows: int,
    grouping=None,
) -> tuple[Learner, Task, Batches]:
    step_options.set_precision(options)
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone = model_class(loaded.model)(loaded.config).initialize()
        if loaded.values and not options.random_init:
            assign("backbone", backbone, loaded.values, options.init_checkpoint)
        task = reader.task(loaded.config, data)
        objective = reader.objective(task)
        keep = objective.batch_features(backbone)
        batches = Batches(data.source, objective.transform(), rows, options.seed, keep, grouping)
        learner = Learner(
            strategy, backbone, single(objective, batches), optimization.make_optimizer(),
            1.0 if options.clip_norm is None else options.clip_norm, options.seed,
            distribution.compiles(options.jit_compile, strategy), step_options.memory_of(options),
        )  # fmt: skip
        return learner, task, batches
