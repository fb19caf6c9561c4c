"""Where each family of networks puts its special tokens: the frames as the papers and the released codes have them.

A frame is written as it looks: `[CLS] A [SEP] (B:1 [SEP]:1)`. Letters are texts, the names of roles special tokens, however a
vocabulary spells them (or a token itself); `:1` says the segment (0 where it says none); what stands in brackets is there with its
text only.
"""

import dataclasses

from data_pipelines.text.vocabulary import CLS, EOS, SEP

LONGEST_TEMPLATE = 400  # characters


@dataclasses.dataclass(frozen=True)
class Part:
    """One text, or one special token.

    Attributes:
        text: the number of the text; None for a special token.
        role: of the special token; None for a text.
        segment: what `segment_ids` says of it.
        needs: the number of the text without which it is left out; None if it is always there.
    """

    text: int | None
    role: str | None
    segment: int
    needs: int | None


@dataclasses.dataclass(frozen=True)
class Frame:
    """The order of texts and special tokens.

    Attributes:
        parts: from left to right.
        pads_left: whether padding stands before the first part.
        pad_segment: what `segment_ids` says of padding.
        once: a special token that may stand in no text, as it tells where to read the answer; None if there is none.
        context_first: whether a text that is asked about stands before the question.
        whole_is_last: whether the last special token stands for all texts, as it does where none is a class token and a network may
            read from left to right.
    """

    parts: tuple[Part, ...]
    pads_left: bool = False
    pad_segment: int = 0
    once: str | None = None
    context_first: bool = False
    whole_is_last: bool = False

    @classmethod
    def of(cls, template: str, **more) -> "Frame":
        """Reads a frame as it is written in this module."""
        parts: list[Part] = []
        for group in template.replace("(", "|(").replace(")", ")|").split("|"):
            words = [word.partition(":") for word in group.strip(" ()").split()]
            texts = [ord(name) - ord("A") for name, _, _ in words if len(name) == 1]
            needs = texts[0] if group.startswith("(") else None
            for name, _, segment in words:
                text = ord(name) - ord("A") if len(name) == 1 else None
                parts.append(Part(text, name if text is None else None, int(segment or 0), needs))
        return cls(tuple(parts), **more)

    @property
    def template(self) -> str:
        """The parts as `of` reads them."""
        words: list[str] = []
        for before, part, behind in zip((None, *self.parts), self.parts, (*self.parts[1:], None), strict=False):
            name = chr(ord("A") + part.text) if part.text is not None else part.role
            opens = "(" * (part.needs is not None and (before is None or before.needs != part.needs))
            closes = ")" * (part.needs is not None and (behind is None or behind.needs != part.needs))
            words.append(f"{opens}{name}{f':{part.segment}' if part.segment else ''}{closes}")
        return " ".join(words)

    def with_parts(self, template: str, num_segments: int | None) -> "Frame":
        """Returns the same frame with the parts of a template.

        Args:
            num_segments: how many a network tells apart: further ones are its last; None if there is no limit.
        """
        last = (
            max(part.segment for part in Frame.of(template).parts) if num_segments is None else max(0, num_segments - 1)
        )
        parts = tuple(dataclasses.replace(part, segment=min(part.segment, last)) for part in Frame.of(template).parts)
        return dataclasses.replace(self, parts=parts)

    def of_texts(self, num_texts: int) -> list[Part]:
        """Returns the parts that are there with so many texts."""
        return [part for part in self.parts if (part.needs or part.text or 0) < num_texts]

    def num_special(self, num_texts: int) -> int:
        """Returns how many special tokens stand around so many texts."""
        return sum(part.text is None for part in self.of_texts(num_texts))

    @property
    def num_texts(self) -> int:
        """The most texts that it holds."""
        return 1 + max(part.text for part in self.parts if part.text is not None)

    @property
    def roles(self) -> set[str]:
        """The special tokens that it needs."""
        return {part.role for part in self.parts if part.role}

    @property
    def has_segments(self) -> bool:
        """Whether parts are of different segments."""
        return len({part.segment for part in self.parts}) > 1


def problem(template: str) -> str | None:
    """Returns what is wrong with the frame of a tokenizer, which is for one text or two; None if nothing is."""
    try:
        frame = Frame.of(template)
        whole = len(template) <= LONGEST_TEMPLATE and frame.template == template
        texts = [(part.text, part.needs) for part in frame.parts if part.text is not None]
        if (
            whole
            and sorted(texts, key=str) == [(0, None), (1, 1)]
            and {part.needs for part in frame.parts} == {None, 1}
        ):
            return None
    except (ValueError, TypeError, IndexError):  # a segment that is no number; a group or a name that is empty
        pass
    return f"expected special tokens around a text A, and in brackets a text B, such as {BERT.template}."


# Devlin et al., 2018, figure 2; ALBERT, ERNIE and BERT-wwm alike.
BERT = Frame.of(f"{CLS} A {SEP} (B:1 {SEP}:1)")
# `<s> A </s></s> B </s>` without segments (Liu et al., 2019; fairseq).
ROBERTA = Frame.of(f"{CLS} A {SEP} ({SEP} B {SEP})")
# The same with BERT's tokens, without segments (Warner et al., 2024).
MODERNBERT = Frame.of(f"{CLS} A {SEP} (B {SEP})")
# The class token is the last, so that it sees all; padding stands on the left (Yang et al., 2019, and code). The code gives
# padding the segment 4, Hugging Face 3; it is never looked at.
XLNET = Frame.of(f"A {SEP} (B:1 {SEP}:1) {CLS}:2", pads_left=True, pad_segment=3, context_first=True)
# Records of `--packing=stream_bidirectional`: a run whose states are kept, then A and B.
XLNET_STREAM = Frame.of(f"A B {SEP} C:1 {SEP}:1 {CLS}:2")
# `A </s> B </s>` (Raffel et al., 2019).
T5 = Frame.of(f"A {EOS} (B {EOS})")
# Texts that are continued: nothing stands around them.
PLAIN = Frame.of("A (B)")
# Radford et al., 2018, figure 1. These tokens are none of the vocabulary's roles: fine-tuning adds them to it.
GPT_TOKENS = START, DELIMITER, EXTRACT = "_start_", "_delimiter_", "_classify_"
GPT = Frame.of(f"{START} A ({DELIMITER} B) {EXTRACT}", once=EXTRACT)
# Records of `--packing=dialogue`: turns of two speakers in turn (Sun et al., 2019, section 3.3.2); who of them speaks first
# stands in `first_role` of the records.
DIALOGUE = Frame.of(f"{CLS} A {SEP} B:1 {SEP}:1 (C {SEP})")
