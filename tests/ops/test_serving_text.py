"""The graph tokenizer gives the ids of the Rust one, and the Rust one those of Google's original code."""

import functools
import json
import pathlib
import random
import unicodedata

import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.character_table import CharacterTable
from data_pipelines.ops.serving_text import GraphTokenizer, kept_lengths
from data_pipelines.text.framing import pack
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tokenizers"
CASES = ["uncased", "cased"]
SERVING_OPS = ["text", "core"]
SURROGATES = range(0xD800, 0xE000)

# What the fuzz draws from: scripts with and without case, accents, marks, joiners, controls, spaces, punctuation.
ALPHABETS = [
    "abcABC", "éÉñÇŁßǅİıſK", "αΣςЖжЁёй", "中国，。豈々", "한국어각", "ひらガカ゛", "אִבּ", "ลิ้น", "हिन्दीक्षु",
    "e\u0301\u0323\u0308a\u030a", "👩\u200d👩\ufe0f🏽😀", "\u200b\u200c\u200d\ufeff\u00ad\u2060",
    "\0\x01\x1f\x7f\x85\ufffd", " \t\n\r\u00a0\u2003\u3000\u2028", ".,!?-#[]'\u2019\u00bf\uff0c$+<^`|~",
    "\uff21\uff11\u2116\ufb01\u00bd", "\U00020000\U0001d400\U000e0041\ue000",
]  # fmt: skip


def read_vocabulary(case):
    return Vocabulary.read(str(GOLDEN / f"wordpiece_{case}_vocab.txt"))


@functools.cache
def make_tokenizer(case, **kwargs):
    return WordPieceTokenizer(read_vocabulary(case), do_lower_case=case == "uncased", **kwargs)


@functools.cache
def make_graph(case, serving_ops, **kwargs):
    return GraphTokenizer(make_tokenizer(case, **kwargs), serving_ops)


def read_golden(name):
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").open(encoding="utf-8")]


def golden_texts(case):
    return [row["text"] for row in read_golden(f"bert_original_{case}") + read_golden(f"bert_fast_{case}")]


def rust_ids(tokenizer, texts):
    return [pieces.ids for pieces in tokenizer.encode_batch(texts)]


def assert_equal(texts, got, expected):
    different = [(text, x, y) for text, x, y in zip(texts, got, expected, strict=True) if x != y]
    assert not different, different[:3]


@pytest.mark.parametrize("case", CASES)
def test_wordpiece_gives_the_ids_of_the_original_code(case):
    golden = read_golden(f"bert_original_{case}")
    texts = [row["text"] for row in golden]
    assert_equal(texts, rust_ids(make_tokenizer(case), texts), [row["ids"] for row in golden])


@pytest.mark.parametrize("case", CASES)
def test_wordpiece_gives_the_ids_of_hugging_face(case):
    golden = [row for row in read_golden(f"bert_fast_{case}") if "pair" not in row]
    texts = [row["text"] for row in golden]
    tokenizer = make_tokenizer(case, max_word_characters=100, recognize_special_tokens=True)
    assert_equal(texts, rust_ids(tokenizer, texts), [row["ids"] for row in golden])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("serving_ops", SERVING_OPS)
@pytest.mark.parametrize("max_word_characters", [200, 100])
@pytest.mark.parametrize("case", CASES)
def test_graph_gives_the_ids_of_wordpiece_on_every_golden_string(case, max_word_characters, serving_ops):
    tokenizer = make_tokenizer(case, max_word_characters=max_word_characters)
    graph = make_graph(case, serving_ops, max_word_characters=max_word_characters)
    texts = golden_texts(case)
    expected = rust_ids(tokenizer, texts)
    ids = graph.tokenize(tf.constant(texts))
    assert ids.dtype == tf.int32
    assert_equal(texts, ids.to_list(), expected)
    in_function = tf.function(graph.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    assert_equal(texts, in_function(tf.constant(texts)).to_list(), expected)
    one_by_one = [in_function(tf.constant([text])).to_list()[0] for text in texts[::10]]
    assert_equal(texts[::10], one_by_one, expected[::10])


@pytest.mark.parametrize("serving_ops", SERVING_OPS)
def test_no_texts_and_texts_without_words_have_no_ids(serving_ops):
    tokenize = tf.function(make_graph("uncased", serving_ops).tokenize)
    assert tokenize(tf.constant([], tf.string)).to_list() == []
    assert tokenize(tf.constant(["", " \t\n", "\0\u200b\ufffd", b"\xff\xfe"])).to_list() == [[], [], [], []]


@pytest.mark.parametrize("do_lower_case", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_code_point_is_cleaned_alike(do_lower_case):
    backend = WordPieceTokenizer(Vocabulary(SPECIAL_TOKENS), do_lower_case).backend
    pages = [page for first in range(0, 0x110000, 256) if (page := between_letters(first))]
    clean = backend.normalizer.normalize_str
    expected = [[word for word, _ in backend.pre_tokenizer.pre_tokenize_str(clean(page))] for page in pages]
    words = CharacterTable(backend).split(tf.constant(pages)).to_list()
    assert_equal(pages, [[word.decode() for word in page] for page in words], expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_assigned_character_gets_the_same_ids(do_lower_case):
    pages = [page for first in range(0, 0x110000, 256) if (page := between_letters(first, assigned))]
    characters = sorted(set("".join(pages)) - {" "})
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *characters, *("##" + character for character in characters)])
    tokenizer = WordPieceTokenizer(vocabulary, do_lower_case)
    ids = GraphTokenizer(tokenizer, "core").tokenize(tf.constant(pages)).to_list()
    assert_equal(pages, ids, rust_ids(tokenizer, pages))


def words_of_google(text, do_lower_case):
    """The words by the rules of `tokenization.py` of google-research/bert, restated."""

    def is_punctuation(c):
        in_ascii = any(first <= c <= last for first, last in ("!/", ":@", "[`", "{~"))
        return in_ascii or unicodedata.category(c)[0] == "P"

    def kept(c):
        return c in "\t\n\r" or (c not in "\0\ufffd" and unicodedata.category(c) not in ("Cc", "Cf"))

    ideographs = (
        "\u3400\u4dbf", "\u4e00\u9fff", "\uf900\ufaff", "\U00020000\U0002a6df", "\U0002a700\U0002b73f",
        "\U0002b740\U0002b81f", "\U0002b820\U0002ceaf", "\U0002f800\U0002fa1f",
    )  # fmt: skip
    text = "".join(f" {c} " if any(a <= c <= b for a, b in ideographs) else c for c in text if kept(c))
    words = []
    for word in text.split():
        if do_lower_case:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_punctuation(c) else c for c in word).split()
    return words


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_a_character_of_each_category_has_the_pieces_of_google_in_python_and_in_a_graph(do_lower_case):
    old, characters = (
        unicodedata.ucd_3_2_0,
        {},
    )  # in their categories since Unicode 3.2, so in every version of the tables
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x30000), 0xE0100, 0xF0000, 0x10FFFD]):
        if (category := unicodedata.category(character)) == old.category(character) or ord(character) >= 0xE0000:
            characters.setdefault(category, []).append(character)
    assert len(characters) == 29  # all but Cs
    samples = [c for found in characters.values() for c in {found[0], found[len(found) // 2], found[-1]}]
    samples += [
        "\ufffd",
        "\ufeff",
        "\ue000",
        "\uf8ff",
        "\uffff",
        "\U0002b820",
        "\U0002b91f",
        "\U000e0001",
        "\t",
        "\x85",
    ]
    texts = [text for c in samples for text in (f"a{c}b", c, f"{c}{c} {c}x")]
    expected = [words_of_google(text, do_lower_case) for text in texts]
    words = sorted({word for found in expected for word in found})
    tokenizer = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *words]), do_lower_case)
    expected = [[tokenizer.vocabulary[word] for word in found] for found in expected]
    assert_equal(texts, rust_ids(tokenizer, texts), expected)
    for serving_ops in SERVING_OPS:
        graph = GraphTokenizer(tokenizer, serving_ops)
        assert_equal(texts, graph.tokenize(tf.constant(texts)).to_list(), expected)


def between_letters(first, wanted=lambda character: True):
    """The characters of a page, each between two letters: "aéb aßb"."""
    characters = [chr(code) for code in range(first, first + 256) if code not in SURROGATES]
    return " ".join(f"a{character}b" for character in characters if wanted(character))


def assigned(character):
    return unicodedata.category(character) != "Cn"


@pytest.mark.parametrize("serving_ops", SERVING_OPS)
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_random_strings_of_mixed_scripts_get_the_same_ids(do_lower_case, serving_ops):
    rng = random.Random(0)
    tokenizer = WordPieceTokenizer(random_vocabulary(rng), do_lower_case, max_word_characters=12)
    texts = [random_text(rng) for _ in range(4000)]
    expected = rust_ids(tokenizer, texts)
    assert_equal(texts, GraphTokenizer(tokenizer, serving_ops).tokenize(tf.constant(texts)).to_list(), expected)
    lengths = [len(ids) for ids in expected]
    unknown = sum(ids.count(tokenizer.vocabulary["[UNK]"]) for ids in expected)
    assert 0.1 < unknown / sum(lengths) < 0.6  # both known and unknown words were drawn


def random_vocabulary(rng):
    """Most characters of the fuzz, and pieces of two to four that make the longest match run into dead ends."""
    characters = "".join(ALPHABETS)
    characters = sorted(set(characters + unicodedata.normalize("NFD", characters.lower())) - {"\0"})
    known = [character for character in characters if rng.random() < 0.9]
    pieces = {"".join(rng.choices(known, k=2)) for _ in range(200)}
    for alphabet in ALPHABETS:
        letters = alphabet.lower().replace("\0", "")
        pieces |= {"".join(rng.choices(letters, k=rng.randint(2, 4))) for _ in range(20)}
    tokens = [*known, *pieces, *("##" + x for x in known if rng.random() < 0.8), *("##" + x for x in pieces)]
    return Vocabulary([*SPECIAL_TOKENS, *sorted(set(tokens))])


def random_text(rng):
    """Runs of one alphabet, now and then a character from anywhere."""
    text = ""
    for _ in range(rng.randint(0, 8)):
        text += "".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, 7)))
        text += rng.choice(
            [
                "",
                "",
                " ",
                chr(rng.randrange(0x250)),
                chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x20000)])),
            ]
        )
    return text


@pytest.mark.parametrize("serving_ops", SERVING_OPS)
def test_broken_utf8_reads_as_replacement_characters(serving_ops):
    rng = random.Random(1)
    texts = [break_bytes(rng, random_text(rng).encode()) for _ in range(4000)]
    tokenizer = WordPieceTokenizer(random_vocabulary(rng))
    expected = rust_ids(tokenizer, [text.decode(errors="replace") for text in texts])
    assert_equal(texts, GraphTokenizer(tokenizer, serving_ops).tokenize(tf.constant(texts)).to_list(), expected)


def break_bytes(rng, text):
    broken = bytearray(text)
    debris = [b"", b"\xff", b"\xe4\xb8", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5", b"\x80"]
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(broken))
        broken[at : at + rng.randint(0, 2)] = rng.choice(debris)
    return bytes(broken)


def test_surviving_marks_in_unsorted_order_are_the_one_known_difference():
    split, normalizer = make_graph("uncased", "core").characters.split, make_tokenizer("uncased").backend.normalizer
    stem, dot = "\U0001d165", "\U0001d16d"  # musical signs, combining classes 216 and 226
    for text, alike in ((f"a{stem}{dot}", True), (f"a{dot}{stem}", False)):
        words = split(tf.constant([text])).to_list()
        assert (words == [[normalizer.normalize_str(text).encode()]]) == alike


def test_unknown_serving_ops_lists_the_known_ones():
    with pytest.raises(UsageError, match="text, core"):
        GraphTokenizer(make_tokenizer("uncased"), "rust")


def test_a_graph_does_not_read_special_tokens_in_the_text():
    with pytest.raises(UsageError, match="recognize_special_tokens"):
        GraphTokenizer(make_tokenizer("uncased", recognize_special_tokens=True))


@pytest.mark.parametrize("case", CASES)
def test_pack_frames_pairs_as_hugging_face_does(case):
    tokenizer = make_tokenizer(case, recognize_special_tokens=True)
    golden = [row for row in read_golden(f"bert_fast_{case}") if row.get("pair")]  # it reads the pair "" as None
    for row in golden:
        first, second = rust_ids(tokenizer, [row["text"], row["pair"]])
        packed = pack(first, second, tokenizer.vocabulary, max_sequence_length=512)
        assert packed == (row["ids"], row["segment_ids"])


def test_pack_shortens_the_longer_text_and_the_second_of_equals():
    vocabulary = read_vocabulary("uncased")
    cls, sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
    assert pack([7, 8, 9], None, vocabulary, 4) == ([cls, 7, 8, sep], [0] * 4)
    assert pack([6, 7, 8, 9], [5], vocabulary, 6) == ([cls, 6, 7, sep, 5, sep], [0] * 4 + [1] * 2)
    assert pack([7, 8, 9], [4, 5, 6], vocabulary, 8) == ([cls, 7, 8, 9, sep, 4, 5, sep], [0] * 5 + [1] * 3)
    assert pack([7], [], vocabulary, 8) == ([cls, 7, sep, sep], [0] * 3 + [1])
    with pytest.raises(UsageError, match="at least 3"):
        pack([7], [8], vocabulary, 2)


def test_kept_lengths_in_closed_form_equal_those_of_pack():
    vocabulary = read_vocabulary("uncased")
    pairs = [(first, second) for first in range(13) for second in range(13)]
    for capacity in range(14):
        kept = kept_lengths(list(tf.unstack(tf.constant(pairs), axis=1)), capacity)
        segments = [pack([9] * first, [9] * second, vocabulary, capacity + 3)[1] for first, second in pairs]
        assert kept[0].numpy().tolist() == [row.count(0) - 2 for row in segments]
        assert kept[1].numpy().tolist() == [row.count(1) - 1 for row in segments]


@pytest.mark.parametrize("num_texts", [1, 2])
@pytest.mark.parametrize("max_sequence_length", [3, 8, 15, 64])
def test_features_are_those_of_pack_padded_to_the_longest(num_texts, max_sequence_length):
    rng = random.Random(num_texts * max_sequence_length)
    tokenizer = make_tokenizer("uncased")
    words = ["the", "harbour", ",", "今天"]
    columns = [[" ".join(rng.choices(words, k=rng.randrange(20))) for _ in range(50)] for _ in range(num_texts)]
    features = make_graph("uncased", "core").features([tf.constant(column) for column in columns], max_sequence_length)
    assert_features(features, tokenizer, columns, max_sequence_length)


def assert_features(features, tokenizer, columns, max_sequence_length):
    ids = [rust_ids(tokenizer, column) for column in columns]
    rows = list(zip(*ids, strict=True)) if len(ids) == 2 else [(first, None) for first in ids[0]]
    packed = [pack(*row, tokenizer.vocabulary, max_sequence_length) for row in rows]
    longest = max(len(token_ids) for token_ids, _ in packed)
    assert {name: value.dtype for name, value in features.items()} == {
        "token_ids": tf.int32, "segment_ids": tf.int32, "padding_mask": tf.bool,
    }  # fmt: skip
    pad = tokenizer.vocabulary["[PAD]"]
    for index, (token_ids, segment_ids) in enumerate(packed):
        padding = longest - len(token_ids)
        assert features["token_ids"][index].numpy().tolist() == token_ids + [pad] * padding
        assert features["segment_ids"][index].numpy().tolist() == segment_ids + [0] * padding
        assert features["padding_mask"][index].numpy().tolist() == [True] * len(token_ids) + [False] * padding


class Served(tf.Module):
    """What an export looks like: a module that owns the tokenizer."""

    def __init__(self, tokenizer, serving_ops):
        super().__init__()
        self.tokenizer = GraphTokenizer(tokenizer, serving_ops)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def text(self, first, second):
        return self.tokenizer.features([first, second], max_sequence_length=32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "serving_ops"), [("uncased", "core"), ("cased", "text")])
def test_a_saved_model_gives_the_same_ids(name, serving_ops, tmp_path):
    """In a process of its own: `test_export`."""
    tokenizer = make_tokenizer(name)
    served = Served(tokenizer, serving_ops)
    tf.saved_model.save(served, str(tmp_path / "model"), signatures={"text": served.text})
    texts = golden_texts(name)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    features = loaded.signatures["text"](first=tf.constant(texts), second=tf.constant(texts[::-1]))
    assert_features(features, tokenizer, [texts, texts[::-1]], max_sequence_length=32)


@pytest.mark.parametrize("serving_ops", SERVING_OPS)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_graph_finds_added_tokens(normalized, serving_ops):
    read = read_vocabulary("uncased")
    vocabulary = Vocabulary([*read.tokens, "[E1]", "[E1]x", "<é>"])
    added = [{"content": "[E1]", "normalized": normalized}, {"content": "[E1]x"}, {"content": "<é>"}]
    tokenizer = WordPieceTokenizer(vocabulary, added_tokens=added)
    texts = ["a [E1] b", "[e1][E1]x", "", "x[E1]y <é>", "nothing here", "[E1"]
    assert_equal(
        texts, GraphTokenizer(tokenizer, serving_ops).tokenize(tf.constant(texts)).to_list(), rust_ids(tokenizer, texts)
    )


def test_a_graph_refuses_added_tokens_that_take_blanks():
    vocabulary = Vocabulary([*read_vocabulary("uncased").tokens, "[E1]"])
    tokenizer = WordPieceTokenizer(vocabulary, added_tokens=[{"content": "[E1]", "lstrip": True}])
    with pytest.raises(UsageError, match=r"'\[E1\]' \(lstrip\)"):
        GraphTokenizer(tokenizer)
