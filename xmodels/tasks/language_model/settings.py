"""The flags of language model evaluation, and which of them go together."""

import dataclasses

from data_pipelines.errors import UsageError
from xmodels.interfaces.loaded import Identity
from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class Settings:
    """As in `launch/evaluate.py`."""

    model_dir: str
    test_file: str
    form: str = "text"
    batch_size: int | None = None
    max_seq_length: int | None = None
    stride: int | None = None
    detokenize: str = "none"
    input_format: str = "auto"
    stop_word_filter: bool = False
    mem_length: str | None = None
    same_length: str = "auto"
    clamp_length: int | None = None

    def memory_lengths(self) -> list[int] | None:
        """Returns the numbers of --mem_length; None where it is not given."""
        if self.mem_length is None:
            return None
        parts = [part.strip() for part in self.mem_length.split(",")]
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"--mem_length={self.mem_length}: expected whole numbers from 0 on, such as 0,64,128.")
        return [int(part) for part in parts]

    @property
    def of_memory(self) -> list[str]:
        """The flags given that need a network with a memory."""
        unset = {"mem_length": None, "same_length": "auto", "clamp_length": None}
        return [f"--{name}" for name, value in unset.items() if getattr(self, name) != value]

    def check(self) -> None:
        """Raises a UsageError where flags do not fit the form of the test."""
        of_text = [] if self.stride is None else ["--stride"]
        of_text += self.of_memory + ([] if self.input_format == "auto" else ["--input_format"])
        if self.form != "text" and of_text:
            raise UsageError(f"{of_text[0]} is for running text, --form=text; with --form={self.form} leave it out.")
        if self.form != "last_word" and self.stop_word_filter:
            raise UsageError("--stop_word_filter is for --form=last_word; leave it out.")
        self.memory_lengths()  # raises what is wrong with it

    def fitted(self, found: Identity, config: TokenConfig) -> TokenConfig:
        """Returns the configuration with what the flags change of it, on which no weight depends.

        Raises:
            UsageError: flags do not fit the network.
        """
        network = found.network
        if not network.carries_memory:
            if self.of_memory:
                raise UsageError(
                    f"{self.of_memory[0]}: a {network.__name__} has no memory. Choose its context with --stride."
                )
            if not config.reads(self.max_seq_length or 0):
                raise UsageError(
                    f"--max_seq_length={self.max_seq_length}: the network reads at most {config.longest} tokens."
                )
            return config
        if self.stride is not None:
            raise UsageError(
                f"--stride={self.stride}: a {network.__name__} reads its text once, segment by segment; choose what it sees of the "
                "past with --mem_length."
            )
        if self.of_memory and not config.states_carried:
            raise UsageError(
                f"{self.of_memory[0]}: a {network.__name__} carries one state, which knows no length. Leave the flag out."
            )
        changes = {} if self.same_length == "auto" else {"same_length": self.same_length == "true"}
        if self.clamp_length is not None:
            changes["clamp_length"] = self.clamp_length or None
        return dataclasses.replace(config, **changes)
