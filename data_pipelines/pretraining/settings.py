"""The settings of `create_pretraining_data`, and what contradicts what."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data_pipelines import layout as layouts
from data_pipelines.corpora.corpus import Corpus, open_corpus
from data_pipelines.corpora.files import split_sources
from data_pipelines.corpora.layouts import VERBATIM
from data_pipelines.corpora.reading import Reading
from data_pipelines.errors import UsageError
from data_pipelines.options import settings as set_flag
from data_pipelines.options.create_pretraining_data import RecordOptions
from data_pipelines.pretraining import duplicates
from data_pipelines.pretraining.stages import clean
from data_pipelines.text import words
from data_pipelines.text.lexicon import Lexicon


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RecordOptions):
    """Everything that shapes the records."""

    dupe_factor: int = 1
    do_whole_word_mask: bool = False

    @property
    def layout(self) -> layouts.Layout:
        """The layout of the records."""
        return layouts.find(self.packing)

    @property
    def numbers(self) -> Any:
        """The numbers of the layout, with what `--set` gives; None where it has none.

        Raises:
            UsageError: the layout has no such number, or a value does not suit it.
        """
        kind, given = self.layout.numbers, set_flag.parse(self.set)
        known = [field.name for field in dataclasses.fields(kind)] if kind else []
        set_flag.check_known(given, {f"--packing={self.packing}": known})
        return kind and set_flag.apply(kind(), given)

    @property
    def unit_lexicons(self) -> dict[str, str]:
        """The files of phrases and entities, by the feature that they mark."""
        files = {"phrase_start": self.phrase_lexicon, "entity_start": self.entity_lexicon}
        return {name: paths for name, paths in files.items() if paths}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Settings":
        """Returns the settings among those of a manifest."""
        return cls(**{field.name: stored[field.name] for field in dataclasses.fields(cls) if field.name in stored})

    @classmethod
    def chosen(cls, options: RecordOptions) -> "Settings":
        """Returns what flags say, with what holds where they say nothing."""
        passes, whole_words = options.dupe_factor, options.do_whole_word_mask
        if passes is None:
            passes = 10 if options.masking == "static" else 1
        if whole_words is None:
            whole_words = options.ngram > 1
        given = {name: value for name, value in vars(options).items() if value is not None}
        found = {"dupe_factor": passes, "do_whole_word_mask": whole_words}
        return cls.of({**vars(options), **layouts.find(options.packing).flags, **given, **found})

    def open_corpus(self) -> Corpus:
        """Finds the files to read; see `corpora.corpus.open_corpus` for what it raises."""
        reading = Reading.of(dataclasses.asdict(self))
        read_as = self.input_format
        if read_as == "auto":
            read_as = self.layout.read_as or read_as
        return open_corpus(self.input_file, self.language, read_as, reading, self.target_file)

    def check(self) -> None:
        """Raises a UsageError that says what to change."""
        if self.max_seq_length < 8:
            raise UsageError(f"--max_seq_length={self.max_seq_length}: must be at least 8.")
        if not 0 < self.masked_lm_prob < 1:
            raise UsageError(f"--masked_lm_prob={self.masked_lm_prob}: must lie between 0 and 1.")
        for name, least in (("max_predictions_per_seq", 1), ("ngram", 1), ("dupe_factor", 1), ("num_shards", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name}={getattr(self, name)}: must be at least {least}.")
        if self.ngram > 1 and self.masking != "static":
            raise UsageError(
                f"--ngram={self.ngram} shapes static masks only; clean records are masked while training, and the system "
                "chooses how. Leave it out, or add --masking=static."
            )
        words.check(self.segmenter, self.lexicon)
        if self.masking == "static" and self.unit_lexicons:
            raise UsageError(
                "--phrase_lexicon and --entity_lexicon mark units for masks that are drawn while training; leave them out "
                "with --masking=static."
            )
        clean.choose_rules(self.clean)
        if self.deduplicate != "none" and self.when_exhausted == "repeat" and len(split_sources(self.input_file)) > 1:
            raise UsageError(
                f"--deduplicate={self.deduplicate} would take out what a mixture repeats to give each source its share. Add "
                "--when_exhausted=stop, or leave out the weights."
            )
        duplicates.check(self.deduplicate, self.near_duplicate_threshold, self.near_duplicate_ngram)
        self._check_layout()
        if self.input_format == VERBATIM:
            self._check_verbatim()
        if self.masking == "static" and not self.layout.is_framed:
            raise UsageError(
                f"--masking=static writes the records of BERT, which --packing={self.packing} does not fit. Leave "
                "--masking out: such records are read clean."
            )
        # N-grams of characters are what `--ngram` without a segmenter means in Chinese.
        if self.language == "zh" and self.do_whole_word_mask and self.ngram == 1 and self.segmenter == "none":
            raise UsageError(
                "--do_whole_word_mask with --language=zh needs word boundaries, and Chinese text has none: every "
                "character would count as a word and the flag would do nothing. Add --segmenter=jieba, or "
                "--segmenter=presegmented where the words are already parted by blanks."
            )

    def _check_layout(self) -> None:
        """Raises a UsageError if a flag is one of another layout, or contradicts this one."""
        own = self.layout.flags
        _ = self.numbers  # raises what is wrong with them
        for owner in layouts.names():
            for name in layouts.find(owner).flags:
                if name not in own and (value := getattr(self, name)):
                    raise UsageError(
                        f"--{name}={value}: only --packing={owner} reads it, --packing={self.packing} does not. Leave the flag out."
                    )
        for name, reason in self.layout.refuses.items():
            if value := getattr(self, name):
                raise UsageError(f"--{name}={value}: {reason}. Leave it out with --packing={self.packing}.")

    def _check_verbatim(self) -> None:
        """Raises a UsageError if texts could not stay as they are, whole and in one stream."""
        if not self.layout.reads_verbatim:
            raise UsageError(
                f"--input_format={VERBATIM}: keeps texts as they are, and --packing={self.packing} asks for their sentences. Take "
                "--packing=stream, which GPT, GPT-2 and Transformer-XL learn from, or another format."
            )
        for name in ("clean", "min_sentence_chars", "min_document_chars", "deduplicate"):
            if (value := getattr(self, name)) and value != "none":
                raise UsageError(
                    f"--{name}={value}: takes out text, and --input_format={VERBATIM} keeps all. Leave one of them out."
                )
        if len(split_sources(self.input_file)) > 1:
            raise UsageError(
                f"--input_file={self.input_file}: weights mix parts of texts, and --input_format={VERBATIM} keeps texts whole. "
                "Leave out the weights."
            )


def open_lexicons(settings: Settings) -> dict[str, Lexicon]:
    """Returns the lexicons of phrases and entities, by the feature that they mark."""
    return {name: Lexicon(p, f"--{name[:6]}_lexicon", has_phrases=True) for name, p in settings.unit_lexicons.items()}
