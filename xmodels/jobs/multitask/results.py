"""The end of a joint fine-tuning: scores of the weights that are handed over, and for each task a run of its own."""

import dataclasses
import os

from data_pipelines.files import own_folder, write_json
from xmodels.conversion import convert
from xmodels.jobs.finetune.errors import write_errors
from xmodels.jobs.multitask.plan import Member, Plan
from xmodels.models.folder import assign, read_json
from xmodels.runs import folder as run_folder
from xmodels.runs.fine_tuned import choose_settings, read_task, write_task
from xmodels.runs.report import PICTURES, write_report
from xmodels.runs.training import Outcome
from xmodels.tasks.base.description import JOINT_FILE
from xmodels.training.loop import Loop
from xmodels.training.states import checkpoints
from xmodels.training.watching.progress import print_status

SETS = ("evaluation", "test")  # of which answers are drawn, the first that there is


def hand_over(job: Plan, loop: Loop, state: checkpoints.State) -> Outcome:
    """Returns scores the weights that are handed over, and writes the folders of the tasks; returns what results and model card
    say."""
    folder, learner = job.options.model_dir, job.learner
    averaged = learner.apply_average()
    if job.evaluated_tasks:
        best = convert.load(folder)
        assign("backbone", learner.backbone, best.values, folder)
        assign(learner.objective.prefix, learner.objective, best.values, folder)
    else:
        job.hand_over()
        loop.watch.on_evaluation(state.step)
    step, kept = _choose_step(job, state)
    print_status(f"Kept {kept}.")
    stored = read_json(os.path.join(folder, JOINT_FILE))
    facts = {"from": job.origin, "steps": f"{state.step:,}", "kept": kept, "weights": averaged or "as trained"}
    results = {}
    for name, each in job.members.items():
        own = scores_of(each, stored[name]["settings"])
        results |= {f"{name} {measure}": value for measure, value in own.items()}
        write_member(job, name, own, facts, stored[name]["settings"])
    for name, value in results.items():
        print_status(f"{name}: {value:.4f}")
    tasks = {"tasks": ", ".join(f"{name} ({each.options.task})" for name, each in job.members.items())}
    runs = ", ".join(os.path.join(folder, name) for name in job.members)
    closing = f"Each task is a run of its own: {runs}"
    return Outcome("Network that has learnt several tasks", tasks | facts, results, step, closing)


def scores_of(member: Member, settings: dict) -> dict[str, float]:
    """Returns losses and scores of all sets of a task, `SET SCORE`, with the settings that its evaluation set chose."""
    reported = ("loss", member.evaluation.decisive, *member.evaluation.score.REPORTED)
    found = {}
    for name in member.data.evaluation_sets:
        means = member.means(name, settings)
        found |= {f"{name} {measure}": means[measure] for measure in means if measure in reported}
    return found


def write_member(job: Plan, name: str, results: dict[str, float], facts: dict[str, str], settings: dict) -> None:
    """Writes the folder of a task, a finished run as `finetune` makes one but for states and log. It holds a copy of the network."""
    member = job.members[name]
    options, labels = member.options, member.data.labels
    folder = options.model_dir
    own_folder(folder)
    run_folder.write_data(folder, job.tokenizer, None)
    write_task(folder, member.task, member.data.num_texts, options.max_seq_length)
    choose_settings(folder, settings)
    loaded = job.loaded
    described = {"job": "finetune", "model": loaded.model, "config": loaded.config.to_json(), "labels": labels}
    described |= {"system": loaded.system} if loaded.system else {}
    described |= {"flags": dataclasses.asdict(options), "settings": job.optimization.settings()}
    write_json(os.path.join(folder, run_folder.CONFIG), described)
    write_json(os.path.join(folder, "environment.json"), run_folder.environment())
    run_folder.write_backbone(folder, job.learner.backbone, member.task, job.tokenizer, loaded.system)
    card = {"task": options.task, "labels": ", ".join(labels[:20]) or "none", "learnt with": job.options.model_dir}
    run_folder.write_model_card(folder, member.task.title, card | facts, results)
    write_errors(member)
    source = next((member.data.evaluation_sets[n] for n in SETS if n in member.data.evaluation_sets), None)
    if source is not None:
        member.evaluation.draw_set(os.path.join(folder, PICTURES), source, read_task(folder).settings)
    run_folder.write_results(folder, job.num_steps, job.num_steps, results)
    write_report(folder)


def _choose_step(job: Plan, state: checkpoints.State) -> tuple[int, str]:
    """Returns the step whose weights are handed over, and why."""
    if state.best_step is None:
        return state.step, f"step {state.step}, the last one (there is no eval_file to choose by)"
    epoch = state.best_step / job.per_epoch
    names = ", ".join(job.evaluated_tasks)
    return state.best_step, f"step {state.best_step}, epoch {epoch:.4g} (best mean score {state.best:.4f} of {names})"
