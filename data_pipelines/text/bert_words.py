"""How BERT cleans text and parts it into words, by the rules of Google's `tokenization.py`."""

import tokenizers
from tokenizers import normalizers, pre_tokenizers

# What is dropped: NUL, U+FFFD, and the categories Cc and Cf, but for tab and line ends. The library's own cleaning drops
# private-use characters (Co) too, which Google's code keeps. The list is fixed, so that pieces depend on no version.
_DROPPED = (
    (0x0, 0x8), (0xB, 0xC), (0xE, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD),
    (0x70F, 0x70F), (0x180E, 0x180E), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x206F),
    (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xFFFD, 0xFFFD), (0x110BD, 0x110BD), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0001, 0xE0001), (0xE0020, 0xE007F),
)  # fmt: skip
_DROP = "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in _DROPPED) + "]"
_FORGOTTEN_IDEOGRAPHS = "[\U0002b820-\U0002b91f]"  # of extension E; the library begins it 256 characters too late


def normalizer(do_lower_case: bool) -> normalizers.Normalizer:
    """Drops controls, puts blanks around ideographs; lower-cases and strips accents where asked to."""
    clean = normalizers.Replace(tokenizers.Regex(_DROP), "")
    return normalizers.Sequence([clean, normalizers.BertNormalizer(clean_text=False, lowercase=do_lower_case)])


def pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Parts words at white space, ideographs and punctuation."""
    ideographs = pre_tokenizers.Split(tokenizers.Regex(_FORGOTTEN_IDEOGRAPHS), "isolated")
    return pre_tokenizers.Sequence([ideographs, pre_tokenizers.BertPreTokenizer()])
