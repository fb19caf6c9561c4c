"""The configuration of networks whose mixer can be chosen."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.layers import mixers
from xmodels.models.config import NOTHING, AttentionConfig, check_fields

PREFIX = "mixer."  # of the numbers of a mixer, in config.json and in `--set`
RETIRED = {"attention_window": "window"}  # fields of earlier versions: the number of a mixer that they were


def check_mixer(name: str, model: type) -> None:
    """Raises a ValueError where no mixer has this name, or it cannot stand in every place of a network that has a choice of it.

    `model.mixer_must_support` are the fields of `Visible` that the network sets for it; networks that use it in several places have
    `mixer_uses`, those of each.
    """
    for fields in getattr(model, "mixer_uses", None) or (model.mixer_must_support,):
        mixers.check_supports(mixers.find(name), fields)


@dataclasses.dataclass(frozen=True)
class MixerConfig(AttentionConfig):
    """The mixer of all blocks, and its numbers.

    `to_json` leaves both out for the default mixer, for compatibility with folders from before they existed. It writes the numbers
    as `mixer.NAME`. `from_json` also reads `attention_window`, the earlier name of the number `window`.

    Attributes:
        mixer: the name of a mixer, that of its file in `layers/attention`.
        mixer_numbers: an instance of its `numbers`, or a dictionary of them. Where it is missing or of another mixer, the defaults.
    """

    mixer: str = mixers.DEFAULT
    mixer_numbers: mixers.Numbers | None = None

    def __post_init__(self):
        kind, given = mixers.find(self.mixer).numbers, self.mixer_numbers
        if isinstance(given, Mapping):
            object.__setattr__(self, "mixer_numbers", kind(**given))
        elif type(given) is not kind:
            object.__setattr__(self, "mixer_numbers", kind())

    @property
    def of_no_weight(self):
        return frozenset(PREFIX + name for name in self.mixer_numbers.of_no_weight)

    @property
    def has_probabilities(self) -> bool:
        """Whether the mixer has attention probabilities, so that they can be shown."""
        return mixers.find(self.mixer).has_probabilities

    def keys_per_query(self, length: int) -> int:
        return mixers.find(self.mixer).keys_per_query(self, length)

    def values(self) -> dict[str, Any]:
        """Works as in `Config`; the numbers of the mixer as `mixer.NAME`."""
        values = super().values()
        numbers = values.pop("mixer_numbers")
        return values | {PREFIX + name: value for name, value in vars(numbers).items()}

    def to_json(self):
        values = super().to_json()
        if self.mixer == mixers.DEFAULT:
            del values["mixer"]
        return values

    def with_values(self, values, source):
        """Works as in `Config`. Another mixer begins with its default numbers."""
        is_same = values.get("mixer", self.mixer) == self.mixer
        renamed = {PREFIX + RETIRED[name] for name in values if name in RETIRED}
        kept = {
            name: value
            for name, value in self.to_json().items()
            if name not in renamed and (is_same or not name.startswith(PREFIX))
        }
        return type(self).from_json(kept | values, source)

    @classmethod
    def settings(cls):
        """Works as in `Config`; the numbers of every mixer as `mixer.NAME`, and their earlier names."""
        found = super().settings()
        del found["mixer_numbers"]
        numbers = [field for name in mixers.names() for field in dataclasses.fields(mixers.find(name).numbers)]
        found |= {PREFIX + field.name: field.type for field in numbers}
        return found | {old: found[PREFIX + new] for old, new in RETIRED.items()}

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `AttentionConfig`; also raises a CheckpointError if the mixer or one of its numbers is unknown."""
        own = {name: value for name, value in values.items() if not name.startswith(PREFIX) and name not in RETIRED}
        given = {name.removeprefix(PREFIX): value for name, value in values.items() if name.startswith(PREFIX)}
        if "mixer_numbers" in own:
            raise CheckpointError(f"{source}: `mixer_numbers` is no key; a number of a mixer is `{PREFIX}NAME`.")
        name = own.get("mixer", mixers.DEFAULT)
        if not isinstance(name, str):
            raise CheckpointError(f"{source}: `mixer` must be a string. Found: {name!r:.40}.")
        try:
            kind = mixers.find(name).numbers
        except ValueError as error:
            raise CheckpointError(f"{source}: `mixer`: {error}") from None
        known = {field.name for field in dataclasses.fields(kind)}
        for old, new in RETIRED.items():  # folders of every mixer but the default one hold it
            if old in values and new in known:
                given.setdefault(new, values[old])
        if unknown := sorted(given.keys() - known):
            listed = ", ".join(f"`{PREFIX}{each}`" for each in sorted(known)) or "none"
            raise CheckpointError(
                f"{source}: `{PREFIX}{unknown[0]}` is no number of the mixer {name}. Its numbers: {listed}."
            )
        of_numbers = {ours.removeprefix(PREFIX): theirs for ours, theirs in spelled.items() if ours.startswith(PREFIX)}
        check_fields(kind, given, source, of_numbers, prefix=PREFIX)
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return super().from_json({**own, "mixer_numbers": given}, source, spelled)
