"""Continues texts with a causal network, such as GPT-2. With an encoder-decoder, such as a Transformer, it translates
(see also `xmodels translate`).

    xmodels generate --model_dir=run --prompt='Once upon a time' --num_samples=3
    xmodels generate --model_dir=run --input_file=prompts.txt --num_beams=4 --output_file=texts.jsonl
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A network, the prompts, and how to continue them."""

    SECTION: ClassVar = "Using a network"
    JOB: ClassVar = "xmodels.jobs.generate.run:generate"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"

    model_dir: str = option(REQUIRED, "Run folder of pretrain, or a model folder.", section="Model")
    prompt: str | None = option(None, "Beginning of a text, which is continued; may be empty.", section="Prompts: one of these")  # fmt: skip
    input_file: str | None = option(None, "Plain text with one prompt a line.")
    encoding: str = encoding_option()
    max_new_tokens: int | None = option(None, "Maximum number of tokens after a prompt. Default: 64; for a translation 50 more than its source has.", section="How to go on", minimum=1)  # fmt: skip
    temperature: float | None = option(None, "0: take the most likely token. Below 1: likely tokens become more likely. Default: 1; for translation 0, unless top_k or top_p is given.")  # fmt: skip
    top_k: int | None = option(None, "Sample from the k most likely tokens; 0: from all. Default: 40; for translation 0.")  # fmt: skip
    top_p: float | None = option(None, "Sample from the most likely tokens that together have this probability.", maximum=1.0)  # fmt: skip
    repetition_penalty: float = option(1.0, "Above 1: tokens that occur in the text so far become less likely.")
    no_repeat_ngram_size: int = option(0, "No n-gram of this many tokens occurs twice; 0: no such rule.")
    min_new_tokens: int = option(0, "For text-to-text models: minimum number of tokens that are written.", minimum=0)  # fmt: skip
    num_beams: int = option(1, "Number of beams. Above 1: the best text that beam search finds, instead of sampling.", minimum=1)  # fmt: skip
    length_penalty: float | None = option(None, "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART the exponent of the length. Default: that of the system, 0.6 for most.")  # fmt: skip
    num_samples: int = option(1, "Number of continuations per prompt.", minimum=1)
    seed: int = option(0, "Random seed; another seed draws other texts.")
    output_file: str | None = option(None, "File for the texts: JSON lines with prompt and continuation. Default: print.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(16, "Batch size: texts at a time.", minimum=1)
    jit_compile: str | bool = option("auto", "Compile the network with XLA. This takes some seconds for each length of the texts, then each token takes less time. auto: from 2,000 texts on.", choices=SWITCH)  # fmt: skip
