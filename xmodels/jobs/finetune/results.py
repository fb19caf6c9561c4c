"""The end of a fine-tuning: the weights that are handed over, their scores, the model card and the report."""

from xmodels.conversion import convert
from xmodels.jobs.finetune.errors import write_errors
from xmodels.jobs.finetune.plan import Plan
from xmodels.jobs.finetune.rates import describe_groups
from xmodels.layers.poolings import PUBLISHED
from xmodels.models.folder import assign
from xmodels.runs.training import Outcome
from xmodels.training.loop import Loop
from xmodels.training.states import checkpoints
from xmodels.training.watching.progress import print_status

OWN_HEAD = " (formats of others have no such head; --pooling=published has that of the paper)"


def hand_over(job: Plan, loop: Loop, state: checkpoints.State) -> Outcome:
    """Returns scores the weights that are handed over, and returns what the results and the model card say.

    The loop has scored them on the evaluation file already, unless it did so before it was interrupted.
    """
    options, backbone = job.options, job.learner.backbone
    averaged = job.learner.apply_average()
    if "evaluation" in job.data.evaluation_sets:
        best = convert.load(options.model_dir)
        assign("backbone", backbone, best.values, options.model_dir)
        assign(job.task.prefix, job.task, best.values, options.model_dir)
    else:
        job.hand_over()
        loop.watch.on_evaluation(state.step)
    kept_step, kept = _choose_step(job, state)
    print_status(f"Kept {kept}.")
    reported = ("loss", job.decisive, *job.evaluation.score.REPORTED)
    means = {"evaluation": loop.best_means} if loop.best_means else {}
    means |= {name: job.means(name) for name in job.data.evaluation_sets if name not in means}
    results = {f"{name} {n}": means[name][n] for name in job.data.evaluation_sets for n in means[name] if n in reported}
    for name, value in results.items():
        print_status(f"{name}: {value:.4f}")
    facts = {
        "task": options.task,
        "labels": ", ".join(job.data.labels[:20]) or "none",
        **({"pooling": options.pooling + OWN_HEAD * (options.pooling != PUBLISHED)} if options.pooling else {}),
        "from": job.origin,
        **({"teacher": options.teacher} if options.teacher else {}),
        **(
            {"learnt from the teacher": said}
            if (said := getattr(job.learner.first_objective, "description", None))
            else {}
        ),
        "steps": f"{job.num_steps:,}"
        if state.step == job.num_steps
        else f"{state.step:,} of {job.num_steps:,}, ended early",
        "kept": kept,
        **({"groups": groups} if (groups := describe_groups(job.learner)) else {}),
        "weights": averaged or "as trained",
    }
    write_errors(job)
    return Outcome(job.title, facts, results, kept_step, f"Fine-tuned network: {options.model_dir}/backbone")


def _choose_step(job: Plan, state: checkpoints.State) -> tuple[int, str]:
    """Returns the step whose weights are handed over, and why."""
    if state.best_step is None:
        return state.step, f"step {state.step}, the last one (there is no --eval_file to choose by)"
    epoch, where = state.best_step / job.per_epoch, job.options.eval_file or "what was held out"
    return state.best_step, (
        f"step {state.best_step}, epoch {epoch:.3g} (best {job.decisive} {state.best:.4f} on {where})"
    )
