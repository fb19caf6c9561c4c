"""`--length_schedule`: short rows first, then longer ones, in one run (Devlin et al., 2018, appendix A.2).

Each phase is a stream of its own over the same records, with the same objective. A step of any phase sees equally many tokens, and the
learning rate has one curve over all steps. Records of the longest length are cut for the shorter phases (`ops.cutting`).
"""

import dataclasses
from collections.abc import Callable

from data_pipelines import layout
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.ops.cutting import cut_pairs, cut_runs, without_lost
from xmodels.objectives.base import Objective
from xmodels.training.recipe import Recipe, Records
from xmodels.training.step.streams import Stream, seed_of

EXAMPLE = "--length_schedule=32:0.7,128:0.3"
SHORTEST = 8  # tokens of a row
EVEN = 0.9  # the share of the tokens of the longest rows that a batch of shorter ones has at least
NONE = "none"  # the value of the flag that keeps one length


@dataclasses.dataclass(frozen=True)
class Phase:
    """Rows of `length` tokens, in the steps from `first` on, before `last`."""

    length: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """That of its stream, in logs and states."""
        return f"length_{self.length}"

    def share(self, step: int) -> float:
        """Returns whether a step is of this phase."""
        return float(self.first <= step < self.last)


def parse_phases(text: str, num_steps: int, longest: int) -> list[Phase]:
    """Returns the phases of a run of `num_steps`, whose records are of `longest` tokens.

    Raises:
        UsageError: the text is not `LENGTH:SHARE,...` with rising lengths of which the last is `longest`, or a phase has no step.
    """
    pairs = [_pair(text, part) for part in text.split(",")]
    lengths, shares = zip(*pairs, strict=True)
    if list(lengths) != sorted(set(lengths)) or lengths[0] < SHORTEST:
        raise UsageError(f"--length_schedule={text}: lengths must rise, from {SHORTEST} on, such as {EXAMPLE}.")
    if lengths[-1] != longest:
        raise UsageError(
            f"--length_schedule={text}: ends with rows of {lengths[-1]} tokens, but the records are of {longest}. End with {longest}, "
            f"or make records with --max_seq_length={lengths[-1]}."
        )
    for length in lengths:
        tokens = longest // length * length
        if tokens < EVEN * longest:
            raise UsageError(
                f"--length_schedule={text}: in the place of a row of {longest} tokens fit {longest // length} of {length}, which are "
                f"{tokens} tokens, but batches of all lengths have about equally many. Take such as {longest // 4} or {longest // 2}."
            )
    if abs(sum(shares) - 1) > 1e-6:
        raise UsageError(
            f"--length_schedule={text}: the shares add up to {sum(shares):g}; expected 1, such as {EXAMPLE}."
        )
    bounds = [round(num_steps * sum(shares[:i])) for i in range(len(shares))] + [num_steps]
    found = [Phase(*each) for each in zip(lengths, bounds, bounds[1:], strict=False)]
    for phase in found:
        if phase.last <= phase.first:
            raise UsageError(
                f"--length_schedule={text}: no step of {num_steps} is of length {phase.length}. Train longer."
            )
    return found


def _pair(text: str, part: str) -> tuple[int, float]:
    length, _, share = part.partition(":")
    try:
        found = int(length), float(share)
    except ValueError:
        found = 0, 0.0
    if not 0 < found[1] <= 1:
        raise UsageError(f"--length_schedule={text}: {part!r} is no LENGTH:SHARE; expected such as {EXAMPLE}.")
    return found


def choose_schedule(options, recipe: Recipe, records: Records, carries_memory: bool) -> str | None:
    """Returns the schedule that holds: that of the flag, or that of the recipe where these records and flags allow it; None for
    one length.

    Raises:
        UsageError: the flag asks for what records or other flags do not allow.
    """
    asked = options.length_schedule
    if asked == NONE:
        return None
    if asked:
        check(options, records, carries_memory)
        parse_phases(asked, recipe.num_steps, records.sequence_length)
        return asked
    return keep_if_possible(recipe.length_schedule, options, recipe.num_steps, records, carries_memory)


def keep_if_possible(text: str | None, options, num_steps: int, records: Records, carries_memory: bool) -> str | None:
    """Returns the schedule, which no flag asks for, or None where these records and flags do not allow it."""
    try:
        check(options, records, carries_memory)
        if text:
            parse_phases(text, num_steps, records.sequence_length)
        return text
    except UsageError:
        return None


def check(options, records: Records, carries_memory: bool) -> None:
    """Raises a UsageError where the records cannot be cut, or batches are formed otherwise."""
    given = f"--length_schedule={options.length_schedule}"
    for flag in ("pack_rows", "length_buckets", "tokens_per_batch"):
        if getattr(options, flag):
            raise UsageError(f"{given} and --{flag} both say how long rows are; choose one.")
    if records.static:
        raise UsageError(
            f"{given}: masks stand in the records already, so they cannot be cut. Make records without --masking=static, or train "
            "twice, the second time with --init_checkpoint."
        )
    kind = layout.find_or_none(records.packing)
    if kind is None or kind.read_as or kind.num_segments not in (1, 2) or carries_memory:
        raise UsageError(
            f"{given}: --system={options.system} on records of --packing={records.packing} reads rows that continue or belong to one "
            "another, which are not cut. Train twice, on records of two lengths, the second time with --init_checkpoint."
        )


def make_streams(
    found: list[Phase],
    batches: Batches,
    objective: Objective,
    records: Records,
    recipe_of: Callable[[Records], Recipe],
    room: Callable[[int, int], int] = lambda length, share: share,
) -> dict[str, Stream]:
    """Returns the streams of a learner, the longest first, whose batches are `batches`.

    Args:
        objective: learns in all phases.
        recipe_of: the recipe for records of another length.
        room: (length, share of the slots of the whole length) -> the most tokens to hide in a row of that length.
    """
    longest = found[-1]
    whole = dataclasses.replace(batches, begins_at=longest.first)
    result = {longest.name: Stream(objective, whole, longest.share)}
    for index, phase in enumerate(found[:-1], 1):
        shorter = dataclasses.replace(batches, seed=seed_of(batches.seed, index), begins_at=phase.first)
        result[phase.name] = Stream(
            objective, _shorten_batches(phase.length, shorter, records, recipe_of, room), phase.share
        )
    return result


def _shorten_batches(length: int, batches: Batches, records: Records, recipe_of, room) -> Batches:
    """Batches of shorter rows, of as many tokens as those of the whole length."""
    times = records.sequence_length // length
    share = max(1, -(-records.num_predictions * length // records.sequence_length))
    shorter = dataclasses.replace(records, sequence_length=length, num_predictions=room(length, share))
    recipe = recipe_of(shorter)
    kind = layout.find(records.packing)
    if kind.num_segments > 1:
        cut, changes = cut_pairs(length - 3), {"batch_size": batches.batch_size * times}
    elif kind.is_stream:
        cut, changes = (
            cut_runs(length + 1, length, times),
            {"rows_per_example": times},
        )  # the last token is a label only
    else:
        cut, changes = cut_runs(length - 2, length - 2, times), {"rows_per_example": times}
    transform = compose(cut, recipe.frame, recipe.objective().transform(), without_lost)
    return dataclasses.replace(batches, transform=transform, prepare=None, **changes)


def describe(found: list[Phase], rows: int, longest: int) -> str:
    """Returns what the plan of a run says of its phases."""
    parts = [
        f"{p.length} tokens in steps {p.first + 1:,} to {p.last:,} ({rows * (longest // p.length):,} rows)"
        for p in found
    ]
    return "Rows of " + ", of ".join(parts) + "."
