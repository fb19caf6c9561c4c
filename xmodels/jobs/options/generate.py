"""The options of `xmodels generate`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A network, the beginnings of texts, and how to continue them."""

    JOB: ClassVar = "xmodels.jobs.generate:generate"
    EARLY: ClassVar = "xmodels.jobs.early:using"

    model_dir: str = option(REQUIRED, "Run folder of pretrain, or a model folder.", section="Model")
    prompt: str | None = option(None, "The beginning of a text; may be empty.", section="Prompts: one of these")
    input_file: str | None = option(None, "Plain text with a prompt a line.")
    encoding: str = encoding_option()
    max_new_tokens: int | None = option(None, "Most tokens behind a prompt. Default: 64; of a translation 50 more than of its source.", section="How to go on", minimum=1)  # fmt: skip
    temperature: float | None = option(None, "0 takes the likeliest token; below 1 likely tokens grow likelier. Default: 1; translating 0, unless top_k or top_p is given.")  # fmt: skip
    top_k: int | None = option(None, "Draw from the k likeliest tokens; 0 for all. Default: 40; translating 0.")
    top_p: float | None = option(
        None, "Draw from the likeliest tokens that have this probability together.", maximum=1.0
    )
    repetition_penalty: float = option(1.0, "Above 1, tokens of the text so far get less likely.")
    no_repeat_ngram_size: int = option(0, "No run of so many tokens comes twice; 0 for no such rule.")
    min_new_tokens: int = option(0, "Of text from text: what is written does not end before it has so many tokens.", minimum=0)  # fmt: skip
    num_beams: int = option(1, "Above 1: the best text that a beam search finds, in place of draws.", minimum=1)
    length_penalty: float | None = option(None, "Of beam search: alpha of ((5 + length) / 6) ** alpha; of BART the power of the length. Default: that of the system, 0.6 of most.")  # fmt: skip
    num_samples: int = option(1, "Continuations of each prompt.", minimum=1)
    seed: int = option(0, "Another seed draws other texts.")
    output_file: str | None = option(None, "JSON lines with prompt and continuation. Default: print.", section="Output")
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(16, "Texts at a time.", minimum=1)
    jit_compile: str | bool = option("auto", "Compile the network with XLA: some seconds for each length of the texts, then less time for each token. auto: from 2,000 texts on.", choices=SWITCH)  # fmt: skip
