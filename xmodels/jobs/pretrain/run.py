"""Pretrains a published system on records; resumes where it was interrupted."""

import functools
from collections.abc import Callable, Mapping
from types import ModuleType

from data_pipelines.errors import UsageError
from xmodels import systems
from xmodels.jobs import devices, dry_run
from xmodels.jobs.average_checkpoints import run as average
from xmodels.jobs.pretrain import evaluation, initial_parts, length_schedule, network, plateau
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.evaluation import Evaluated
from xmodels.jobs.pretrain.options import Options
from xmodels.jobs.pretrain.plan import Plan, plan
from xmodels.jobs.pretrain.results import NUMBERS_OF, hand_over
from xmodels.jobs.pretrain.start import prepare_start, restore
from xmodels.jobs.pretrain.system_settings import parse_system_options
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.baselines import Baselines
from xmodels.runs.memory_check import check_resources
from xmodels.runs.training import Training, run
from xmodels.training.devices.workers import Workers
from xmodels.training.states.checkpoints import State
from xmodels.training.watching.progress import print_status
from xmodels.training.watching.watching import Watch, profile_steps, watch


def pretrain(options: Options) -> dict[str, float]:
    """Trains, evaluates, and writes the run folder.

    Returns:
        The last evaluation's means; nothing of a dry run, and for workers that are not the chief.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    system = check_flags(options)
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with devices.at_work(options, workers):
        planned = plan(options, system, strategy)
        announce(planned, strategy.num_replicas_in_sync)
        positions = network.scored_positions(planned.recipe, planned.records)
        length = planned.recipe.row_length or planned.records.sequence_length
        check_resources(options, planned.learner, planned.recipe.batch_size, length, positions)
        if options.dry_run:
            prepare_start(planned)  # raises where the first weights do not fit
            arguments = planned.learner, planned.batches, planned.tokenizer, planned.recipe.num_steps
            dry_run.show(planned.numbers, *arguments)
            return {}
        return run(make_training(planned, workers), workers)


def check_flags(options: Options) -> ModuleType:
    """Checks what needs neither records nor devices; returns the system.

    Raises:
        UsageError: a flag is wrong, or contradicts another one.
    """
    system = systems.load(options.system)
    preflight.check_writable(options.model_dir)
    network.check_size(options, system)
    initial_parts.check_flags(options, system)
    parse_system_options(options.set, system)  # raises what is wrong with it
    network.check_mixer(options, system)
    average.check(options.ema_decay, options.average_checkpoints, options.nonmonotonic_average)
    if options.nonmonotonic_average and not options.eval_data_dir:
        raise UsageError(
            f"--nonmonotonic_average={options.nonmonotonic_average}: evaluations say when it begins. Name held-out records by "
            "--eval_data_dir."
        )
    profile_steps(options.profile_steps)  # raises what is wrong with it
    return system


def announce(planned: Plan, num_devices: int) -> None:
    """Prints what is trained, on what, and by which numbers."""
    recipe = planned.recipe
    if recipe.origin == "small":
        print_status(f"Hyperparameters: {NUMBERS_OF['small']}.")
    notes = " ".join(filter(None, (planned.phases, planned.hidden, recipe.note)))
    print_status(
        f"{planned.options.system} ({planned.size}): {planned.num_parameters:,} parameters; "
        f"{planned.source.num_examples:,} examples of length {planned.records.sequence_length}; "
        f"{recipe.num_steps:,} steps of {recipe.batch_size} on "
        f"{num_devices} device(s); {recipe.optimizer}, learning rate {recipe.learning_rate:g} after "
        f"{recipe.num_warmup_steps:,} warm-up steps ({recipe.schedule}). "
        f"{recipe.layerwise.describe(planned.learner.backbone)}{notes}".rstrip()
    )


def make_training(planned: Plan, workers: Workers) -> Training:
    """Returns the training that a plan describes, with its evaluations."""
    options, learner = planned.options, planned.learner
    scored = evaluation.choose_streams(options, planned.scored_batches(), planned.pairs, planned.held_out_pairs)
    evaluate = evaluation.make_evaluate(learner, scored, planned.tokenizer.kind)
    reading = functools.partial(pretraining_records.report_damaged_shard, options, planned.source)
    baselines: list[Baselines | None] = []  # counted before the first step, shown behind the last one

    def watching(state: State) -> Watch:
        run_folder.write_data(options.model_dir, planned.tokenizer, options.data_dir)
        baselines.append(write_baselines(planned, scored, reading))
        return make_watch(planned, scored, baselines[0], workers.folder(options.model_dir))

    held_out = bool(options.eval_data_dir)
    return Training(
        planned.identity, learner, options, planned.recipe.num_steps, "--num_train_steps",
        prepare_start=functools.partial(prepare_start, planned),
        restore=functools.partial(restore, planned),
        watch=watching,
        hand_over=lambda loop, state: hand_over(planned, loop, state, evaluate, baselines[0]),
        loop={
            "evaluate": evaluate, "evaluate_every": options.eval_every if held_out else 0,
            "evaluation": "evaluation" if held_out else "evaluation on training records",
            "select": (lambda means: -means["loss"]) if held_out else None,
            "on_data_loss": pretraining_records.skip_damaged_shards(options, learner),
            "keep": max(options.keep_checkpoint_max, options.average_checkpoints),
        },
        reading=reading,
        numbers=planned.numbers,
    )  # fmt: skip


def write_baselines(planned: Plan, scored: Mapping[str, Evaluated], reading: Callable) -> Baselines | None:
    """Writes and prints what counting can name, of the first stream that names tokens."""
    specials, held_out = planned.tokenizer.vocabulary.special_ids, bool(planned.options.eval_data_dir)
    for name, evaluated in scored.items():
        stream = planned.learner.streams[name]
        with reading():
            baselines = evaluation.count_baselines(
                stream.batches, evaluated.kept_batches, stream.objective, held_out, specials
            )
        if baselines:
            baselines.write(planned.options.model_dir)
            print_status(baselines.sentence())
            return baselines
    return None


def make_watch(planned: Plan, scored: Mapping[str, Evaluated], baselines: Baselines | None, folder: str) -> Watch:
    """Returns what looks at the run on the way: norms, a profile, predictions, and a warning where nothing is learnt."""
    options = planned.options
    samples = evaluation.make_joint_sampler(planned.learner, scored, planned.tokenizer, planned.recipe.note)
    flags, warns = (options.log_norms_steps, options.profile_steps), plateau_warning(planned, baselines)
    return watch(planned.learner, planned.batches.zeros(), folder, *flags, samples, warns)


def plateau_warning(
    planned: Plan, baselines: Baselines | None
) -> Callable[[int, dict[str, float]], str | None] | None:  # fmt: skip
    """Returns what tells from the means of a step that nothing has been learnt, and why."""
    recipe, config, system = planned.recipe, planned.learner.backbone.config, planned.system
    small, shorter = network.small_numbers_for(system, config), None
    if small and not recipe.length_schedule and not recipe.curriculum:
        text = small.length_schedule(planned.records.sequence_length)
        shorter = length_schedule.keep_if_possible(
            text, planned.options, recipe.num_steps, planned.records, system.MODEL.carries_memory
        )
    return plateau.plateau_warning(baselines, recipe, small, config.hidden_dim, shorter)
