"""Why a pretraining has learnt nothing yet, as far as its numbers tell."""

from collections.abc import Callable

from xmodels.runs.baselines import Baselines
from xmodels.training.recipe import Recipe
from xmodels.training.small import ADAMW_RATE, MASKED, WIDTH, Small
from xmodels.training.watching.progress import measure_of

FAR = 3.0  # times the rate of small networks, above or below
RATES = {MASKED.training["optimizer"]: MASKED.rate, "adamw": ADAMW_RATE}  # at a width of `WIDTH`
UNCORRECTED, HIGHEST_UNCORRECTED = "bert_adamw", 5e-4


def plateau_warning(
    baselines: Baselines | None, recipe: Recipe, small: Small | None, hidden_dim: int, shorter: str | None
) -> Callable[[int, dict[str, float]], str | None]:
    """Returns what a line of the log is to be followed by: once, the warning that nothing has been learnt.

    Args:
        small: the numbers of small networks that the system has; None where it has none, or the network is not small.
        shorter: a value of --length_schedule for rows of one length that could be shorter at first.
    """

    def warning(step: int, means: dict[str, float]) -> str | None:
        found = {measure_of(name): value for name, value in means.items()}
        accuracy = found.get(baselines.measure) if baselines else None
        if accuracy is None or not baselines.has_learnt_nothing(accuracy, step, recipe.num_steps):
            return None
        causes = likely_causes(recipe, small, hidden_dim, shorter, step)
        return f"{baselines.warning(accuracy, step, recipe.num_steps)} {' '.join(causes)} See docs/small_networks.md."

    return warning


def likely_causes(recipe: Recipe, small: Small | None, hidden_dim: int, shorter: str | None, step: int) -> list[str]:
    """Sentences that say what may be wrong and which flag changes it, the likeliest first.

    Args:
        small, shorter: as of `plateau_warning`.
        step: how many updates are done.
    """
    causes, rate = [], recipe.learning_rate
    usual = RATES.get(recipe.optimizer, 0.0) * min(1.0, WIDTH / hidden_dim)
    if step < recipe.num_warmup_steps:
        causes.append(
            f"The learning rate is still rising, during {recipe.num_warmup_steps:,} warm-up steps. Try "
            f"--num_warmup_steps={max(1, recipe.num_steps // 16)}."
        )
    if small and recipe.origin != "small":
        causes.append(
            "Its hyperparameters are those of the paper, for networks and texts a hundred times as large. Try --recipe=small."
        )
    elif small and usual and rate < usual / FAR:
        causes.append(
            f"A learning rate of {rate:g} is low for {recipe.optimizer} at this width. Try --learning_rate={usual:g}."
        )
    if small and usual and rate > usual * FAR:
        causes.append(
            f"A learning rate of {rate:g} is high for {recipe.optimizer} at this width. Try --learning_rate={usual:g}."
        )
    if recipe.optimizer == UNCORRECTED and rate > HIGHEST_UNCORRECTED:
        causes.append(
            f"{UNCORRECTED} does not correct the bias of its moments, so its first steps are several times as large as the "
            "learning rate suggests. Try --optimizer=adamw."
        )
    if small and recipe.origin == "small" and shorter:
        causes.append(f"Rows are long from the first step. Try --length_schedule={shorter}.")
    if not causes and recipe.origin == "small":
        causes.append(f"Its hyperparameters do not explain it. Train for {more_steps(recipe)}.")
    elif not causes:
        causes.append(
            f"Its hyperparameters are those of the paper, for longer runs. Try a higher --learning_rate, or {more_steps(recipe)}."
        )
    return causes


def more_steps(recipe: Recipe) -> str:
    """Returns the advice where no number of the recipe is to blame."""
    return f"more than {recipe.num_steps:,} steps (--num_train_steps), and look at what the network reads (xmodels inspect_data)"
