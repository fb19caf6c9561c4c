"""The devices on which a network answers."""

import contextlib
import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import option

ONE, ALL = "one_device", "mirrored"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerDeviceOptions:
    """On which devices a network answers."""

    distribution_strategy: str = option(ONE, "Devices that answer. mirrored: all GPUs of this machine, each a part of the rows of a batch.", section="Devices", choices=(ONE, ALL))  # fmt: skip
    num_virtual_devices: int = option(0, "Split the CPU into this many devices, to try mirrored without GPUs.", minimum=0)  # fmt: skip


def answer_scope(options: AnswerDeviceOptions) -> contextlib.AbstractContextManager:
    """Returns the scope in which a network is loaded that is to answer on the devices of the options.

    Raises:
        UsageError: flags contradict each other. DeviceError: the devices are not there.
    """
    if options.distribution_strategy == ONE:
        if options.num_virtual_devices:
            raise UsageError(
                f"--num_virtual_devices={options.num_virtual_devices}: only --distribution_strategy={ALL} answers on several devices. "
                "Add it, or leave the flag out."
            )
        return contextlib.nullcontext()
    from xmodels.training.devices import distribution

    return distribution.choose(options.distribution_strategy, options.num_virtual_devices).scope()
