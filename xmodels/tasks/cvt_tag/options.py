"""Flags of `--task=cvt_tag`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.layers.views import USUAL, VIEWS
from xmodels.tasks.base import options as base
from xmodels.tasks.tag import options as tag


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(tag.FileOptions, base.WindowOptions, base.FinetuneOptions):
    """A tag for every word, learnt from texts without tags too."""

    JOINS: ClassVar = True

    unlabelled_file: str | None = option(None, "Texts without tags, of which modules that see a part of a text learn to predict what the tagger predicts: a .txt with one text a line, or a CoNLL file, whose tags are not read. Steps on them and on tagged sentences alternate. Default: the tagger learns from tags alone.", section="Cross-View Training (docs/cvt.md)", structural=True)  # fmt: skip
    views: str | None = option(None, f"What these modules see; separate several by commas. forward, backward: the text up to the word, or from it on. future, past: only what stands before the word, or behind it. full: all, without an activation, as a module of the released code. Default: {USUAL}.", choices=tuple(VIEWS), joint=",", structural=True)  # fmt: skip
