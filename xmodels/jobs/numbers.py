"""The numbers that hold in a run, and where each comes from: a flag, the records, a recipe, a checkpoint or a default."""

from collections.abc import Mapping

from data_pipelines.options.declaration import options_of


def list_numbers(options, settings: Mapping[str, tuple[object, str]]) -> list[tuple[str, object, str]]:
    """Returns (name, value, where it comes from) of all that is set: flags first, then what fills them in, then defaults.

    Args:
        options: the dataclass of the flags.
        settings: {name of a flag: (value that holds, where it comes from)} of those that were not given.
    """
    fields = {each.name: each.default for each in options_of(type(options))}
    values = {name: getattr(options, name) for name in fields if name != "dry_run"}
    given = {name: value for name, value in values.items() if value is not None and value != fields[name]}
    filled = {name: pair for name, pair in settings.items() if values.get(name) is None}
    rows = [(name, value, "flag") for name, value in given.items()]
    rows += [(name, value, origin) for name, (value, origin) in filled.items() if value is not None]
    rest = [name for name, value in values.items() if value is not None and name not in given and name not in filled]
    return rows + [(name, values[name], "default") for name in rest]


def from_recipe(settings: Mapping[str, object], options, origin: str) -> dict[str, tuple[object, str]]:
    """Returns where the numbers of a pretraining come from that no flag gives: the records, or the system's recipe."""
    of = {"max_seq_length": "records"} | dict.fromkeys(
        ("max_predictions_per_seq", "masking_rate"), f"records or {origin}"
    )
    found = {name: (value, of.get(name, origin)) for name, value in settings.items()}
    if options.num_train_steps is not None:
        found["num_warmup_steps"] = (settings["num_warmup_steps"], f"{origin}: its share of the steps")
    return found
