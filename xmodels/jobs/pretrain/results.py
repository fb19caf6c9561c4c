"""The end of a pretraining: the weights that are handed over, their scores, and what the model card says."""

from collections.abc import Callable

from xmodels.jobs.average_checkpoints import run as average
from xmodels.jobs.pretrain import batches as pretraining_batches
from xmodels.jobs.pretrain import evaluation
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.plan import Plan
from xmodels.runs import folder as run_folder
from xmodels.runs.baselines import Baselines
from xmodels.runs.training import Outcome
from xmodels.training.loop import Loop
from xmodels.training.states.checkpoints import State
from xmodels.training.watching.progress import print_status, scores

NUMBERS_OF = {  # by `Recipe.origin`, for people
    "small": "those for small networks (docs/small_networks.md); --recipe=published takes the paper's",
    "published": "those of the paper, unless flags override them",
}


def hand_over(
    plan: Plan, loop: Loop, state: State, evaluate: Callable[[], dict[str, float]], baselines: Baselines | None
) -> Outcome:  # fmt: skip
    """Writes the network, and returns the last evaluation's means with what the model card says.

    Args:
        baselines: what counting names of the same tokens.
    """
    options, learner = plan.options, plan.learner
    handed_over = average.hand_over_weights(options.model_dir, learner, options.average_checkpoints)
    if loop.means is None or options.average_checkpoints:  # nothing has evaluated these weights
        loop.watch.on_evaluation(state.step)
    means = scores(evaluate() if options.average_checkpoints else loop.means or evaluate(), learner.loss_names)
    path = run_folder.write_backbone(
        options.model_dir, learner.backbone, learner.objective, plan.tokenizer, options.system
    )
    facts = facts_of(plan, state, handed_over)
    source = next(iter(loop.batches.values())).source
    if source.lost:
        facts["damaged shards"] = pretraining_records.describe_lost_shards(source)
        print_status(f"Damaged shards: {facts['damaged shards']}.")
    return Outcome(
        f"{options.system} ({plan.size})", facts, means, state.step, f"Network, heads and vocabulary: {path}",
        evaluation.list_baselines(baselines),
    )  # fmt: skip


def facts_of(plan: Plan, state: State, handed_over: str) -> dict:
    """Returns what the model card lists."""
    options, recipe = plan.options, plan.recipe
    return {
        "system": options.system, "size": plan.size, "hyperparameters": NUMBERS_OF[recipe.origin],
        "parameters": f"{plan.num_parameters:,}", "steps": f"{state.step:,}",
        "optimizer": f"{recipe.optimizer}, learning rate {recipe.learning_rate:g}, warm-up {recipe.num_warmup_steps:,}",
        "schedule": recipe.schedule, **pretraining_batches.size_facts(options, recipe.batch_size, state.consumed),
        "sequence length": plan.phases or plan.records.sequence_length, "vocabulary": f"{len(plan.tokenizer.vocabulary):,} pieces",
        **({"masking": plan.hidden} if plan.hidden else {}), "weights": handed_over,
        "evaluated on": "held-out records" if options.eval_data_dir else "training records",
    }  # fmt: skip
