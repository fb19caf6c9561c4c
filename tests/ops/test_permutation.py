"""XLNet's targets and masks: no target sees itself, and the draws are those of the released code."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops import permutation
from data_pipelines.ops.permutation import permute, two_stream_mask
from tests.ops.test_corruption import arrays, framed_batch, seeds_of

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
LENGTH, P = 64, 12
OPS = {"one part": permute(P), "two parts": permute(P, reuse_length=24), "blocks": permute(P, 0, 16)}
EACH = pytest.mark.parametrize("op", OPS.values(), ids=OPS)


def rows_of(batch, op):
    made = arrays(op(batch))
    for row in range(len(made["labels"])):
        yield {name: value[row] for name, value in made.items()}


@EACH
def test_no_target_sees_itself_or_a_later_target_and_all_see_the_context(op):
    batch = framed_batch(rows=200)
    clean = arrays(batch)
    for row, made in enumerate(rows_of(batch, op)):
        targets = made["mask_positions"][made["label_weights"] > 0]
        query = made["query_mask"][: len(targets)]
        assert len(set(targets)) == len(targets) and clean["maskable"][row][targets].all()
        among = query[:, targets]  # (T, T): which target sees which
        assert not among.diagonal().any()
        if op is not OPS["two parts"]:
            assert sorted(among.sum(1)) == list(range(len(targets)))  # a strict order: 0, 1, 2, ... are seen
            context = clean["maskable"][row].copy()
            context[targets] = False
            assert query[:, context].all()
        assert not (among & among.T).any()
        assert not query[:, ~clean["padding_mask"][row]].any()
        np.testing.assert_array_equal(made["labels"][: len(targets)], clean["token_ids"][row][targets])
        content = made["content_mask"][targets]
        expected = query.copy()
        expected[np.arange(len(targets)), targets] = True
        np.testing.assert_array_equal(content, expected)


@EACH
def test_the_content_stream_of_what_a_target_sees_never_holds_the_target(op):
    """Over any number of layers: what reaches the query of t through content streams is never t."""
    for made in rows_of(framed_batch(rows=30), op):
        reach = made["content_mask"].astype(int)
        for _ in range(6):
            reach = ((reach @ reach) > 0).astype(int)
        targets = made["mask_positions"][made["label_weights"] > 0]
        seen = made["query_mask"][: len(targets)].astype(int) @ reach > 0
        assert not seen[np.arange(len(targets)), targets].any()


def test_the_reused_part_does_not_see_the_rest_and_the_rest_sees_all_of_it():
    batch = framed_batch(rows=50)
    made = arrays(OPS["two parts"](batch))
    content = made["content_mask"]
    assert not content[:, :24, 24:].any()
    np.testing.assert_array_equal(
        content[:, 24:, :24], np.broadcast_to(batch["padding_mask"].numpy()[:, None, :24], (50, 40, 24))
    )


def test_tokens_and_lengths_stay_and_the_draw_belongs_to_the_example():
    batch = framed_batch(rows=40)
    whole = arrays(tf.function(OPS["two parts"])(batch))
    for name in ("token_ids", "padding_mask", "word_start", "segment_ids"):
        np.testing.assert_array_equal(whole[name], batch[name])
    for part in ([3], [30, 2, 8]):
        some = arrays(OPS["two parts"]({name: tf.gather(value, part) for name, value in batch.items()}))
        for name, value in some.items():
            np.testing.assert_array_equal(value, whole[name][part])


def test_spans_of_rows_that_read_backwards_are_those_of_the_row_read_forwards():
    batch = full_batch(60, 48)
    turned = {name: tf.reverse(batch[name], [1]) for name in ("token_ids", "word_start")}
    forwards = arrays(permute(8)(batch))
    backwards = arrays(permute(8)(batch | turned | {"is_reversed": tf.ones(60, tf.int32)}))
    np.testing.assert_array_equal(47 - backwards["mask_positions"][:, ::-1], forwards["mask_positions"])
    np.testing.assert_array_equal(backwards["labels"][:, ::-1], forwards["labels"])
    plain = arrays(permute(8)(batch | {"is_reversed": tf.zeros(60, tf.int32)}))
    np.testing.assert_array_equal(plain["query_mask"], forwards["query_mask"])


def full_batch(rows, length):
    rng = np.random.default_rng(4)
    starts = rng.random((rows, length)) < 0.7
    return {
        "token_ids": tf.constant(rng.integers(5, 99, (rows, length)), tf.int32), "seed": seeds_of(range(rows)),
        "padding_mask": tf.fill((rows, length), True), "maskable": tf.fill((rows, length), True),
        "word_start": tf.constant(starts, tf.int32),
    }  # fmt: skip


def test_the_context_of_a_span_grows_with_what_is_left_out():
    """With one of three tokens to predict, spans of n out of 3 n leave little to be filled up with single tokens."""
    batch, runs = full_batch(200, 240), {}
    for context in (3, 6):
        made = arrays(permute(80, context=context)(batch))
        hidden = np.zeros((200, 242), int)
        np.put_along_axis(hidden, made["mask_positions"] + 1, made["label_weights"].astype(int), 1)
        begins = (np.diff(hidden, axis=1) == 1).sum()
        runs[context] = made["label_weights"].sum() / begins
    assert runs[3] > 1.1 * runs[6]


def test_a_full_sequence_of_512_has_43_and_42_targets():
    made = arrays(permute(85, 256, 256)(full_batch(200, 512)))
    assert (made["label_weights"].sum(1) == 85).all()
    assert ((made["mask_positions"] < 256).sum(1) == 43).all()


def test_every_order_of_three_tokens_is_equally_likely_and_masks_are_those_of_the_hand_table():
    order = tf.constant([[2, 0, 1]])
    everything = tf.constant([[True] * 3])
    table = two_stream_mask(order, everything, ~everything)[0].numpy().astype(int)
    assert table.tolist() == [[1, 0, 0], [1, 1, 1], [1, 0, 1]]
    orders = permutation.block_order(3, 3, seeds_of(range(12_000))).numpy()
    _, counts = np.unique(orders, axis=0, return_counts=True)
    np.testing.assert_allclose(counts / 12_000, [1 / 6] * 6, atol=0.015)


def test_blocks_repeat_one_permutation():
    order = permutation.block_order(12, 4, seeds_of(range(20))).numpy()
    for block in range(3):
        np.testing.assert_array_equal(order[:, 4 * block : 4 * block + 4], order[:, :4] + 4 * block)
    assert (np.sort(order, axis=1) == np.arange(12)).all()


def walk(starts, goal, spans):
    """`_sample_mask` of the released code, up to the filling; `spans(n_left)` draws n, and then the left context."""
    length, at, taken = len(starts), 0, 0
    mask = np.zeros(length, bool)
    while at < length and taken < goal:
        n, left = spans(goal - taken)
        begin = at + left
        while begin < length and not starts[begin]:
            begin += 1
        if begin + n >= length:
            break
        mask[begin : begin + n] = True
        taken += n
        at = begin + n + n * 6 - left
    return mask


def test_spans_equal_the_walk_of_the_released_code():
    rng = np.random.default_rng(0)
    rows, length, steps = 300, 70, 11
    starts = rng.random((rows, length)) < 0.6
    sizes, offsets = rng.integers(1, 6, (steps, rows)), rng.random((steps, rows)).astype(np.float32)
    count, goal = rng.integers(10, length + 1, rows), rng.integers(1, 14, rows)
    real = np.arange(length) < count[:, None]
    next_start = permutation.next_starts(tf.constant(starts, tf.int32), tf.constant(real))
    as_ints = [tf.constant(x, tf.int32) for x in (count, goal, sizes)]
    made = permutation.span_walk(next_start, *as_ints, tf.constant(offsets)).numpy()
    for row in range(rows):
        draws = zip(sizes[:, row], offsets[:, row], strict=True)

        def spans(left, draws=draws):
            n, offset = next(draws)
            n = min(n, left)
            return n, int(offset * np.float32(n * 6))

        expected = walk(starts[row, : count[row]], goal[row], spans)
        np.testing.assert_array_equal(made[row, : count[row]], expected)
        assert not made[row, count[row] :].any()
    assert made.sum() > 1000


def test_the_walk_is_that_of_the_released_code():
    """Ties the plain walk above to recorded results of `_sample_mask`, with its own random numbers."""
    folder = GOLDEN / "xlnet_sampling/sample_mask"
    pieces = json.loads((folder / "config.json").read_text())["hyperparameters"]["pieces"]
    chances = 1 / np.arange(1, 6)
    chances /= chances.sum()
    for case in json.loads((folder / "cases.json").read_text()):
        ids = case["ids"][::-1] if case["reverse"] else case["ids"]
        opens = [pieces[i].startswith("▁") or pieces[i].startswith("<") or not pieces[i].isalpha() for i in ids]
        random = np.random.RandomState(case["numpy_seed"])

        def spans(left, random=random):
            n = min(random.choice(np.arange(1, 6), p=chances), left)
            return n, random.choice(n * 6)

        mask = walk(opens, 8, spans)
        while mask.sum() < 8:
            mask[random.randint(len(mask))] = True
        expected = case["mask"][::-1] if case["reverse"] else case["mask"]
        assert mask.astype(int).tolist() == expected


@pytest.mark.parametrize("case", ["original_two_stream_loss", "original_two_stream_bidata"])
def test_masks_equal_those_of_the_released_code(case):
    folder = GOLDEN / "xlnet" / case
    golden = np.load(folder / "inputs.npz")
    settings = json.loads((folder / "config.json").read_text())["hyperparameters"]
    reuse, block = settings["reuse_length"], settings["permutation_size"]
    ids = golden["input_k"]
    place = np.arange(ids.shape[1] - reuse)
    order = np.concatenate(
        [golden["row_permutation"][:, p][:, place % block] + place // block * block for p in (0, 1)], 1
    )
    special = (ids == settings["cls_id"]) | (ids == settings["sep_id"])
    drawn = golden["is_masked"] > 0
    made = two_stream_mask(*map(tf.constant, (order[:, : ids.shape[1]], drawn, special)), reuse).numpy()
    np.testing.assert_array_equal(made, golden["perm_mask"] > 0)
    for row in range(len(ids)):
        expected = golden["target_mapping"][row][golden["target_mask"][row] > 0].argmax(1)
        np.testing.assert_array_equal(np.flatnonzero(drawn[row] & ~special[row]), expected)


def test_sizes_and_places_of_spans_are_drawn_as_the_released_code_draws_them(monkeypatch):
    """What `sample` hands to the walk: for each uniform number the size that `numpy.random.choice` makes of it."""
    numbers, walks = [], []
    uniform, walk = permutation.uniform, permutation.span_walk
    monkeypatch.setattr(permutation, "uniform", lambda *given: numbers.append(uniform(*given)) or numbers[-1])
    monkeypatch.setattr(permutation, "span_walk", lambda *given: walks.append(given) or walk(*given))
    batch = full_batch(500, 64)
    permutation.sample(batch["word_start"], batch["padding_mask"], 8, batch["seed"])
    (_, count, goal, sizes, offsets, _), drawn = walks[0], numbers[0].numpy()
    config = json.loads((GOLDEN / "xlnet_sampling/sample_mask/config.json").read_text())["hyperparameters"]
    assert config["max_gram"] == permutation.LONGEST and config["mask_alpha"] == permutation.CONTEXT
    chances = 1 / np.arange(1, config["max_gram"] + 1)
    expected = 1 + np.searchsorted(np.cumsum(chances / chances.sum()).astype("float32"), drawn, side="right")
    np.testing.assert_array_equal(sizes.numpy(), expected.T)
    shares = np.bincount(sizes.numpy().ravel(), minlength=6)[1:] / sizes.numpy().size
    np.testing.assert_allclose(shares, chances / chances.sum(), atol=0.02)
    np.testing.assert_array_equal(offsets.numpy(), numbers[1].numpy().T)
    assert sizes.shape[0] >= 64 // (1 + config["mask_alpha"])  # enough contexts to walk along the whole text
    assert (goal.numpy() == config["goal_num_predict"]).all() and (count.numpy() == 64).all()


def test_span_lengths_and_the_share_before_filling():
    batch = full_batch(2000, 256)
    rows = tf.fill([2000], 256)
    ones = tf.ones((2000, 256), tf.int32)
    n, offsets = (tf.constant(np.random.default_rng(s).random((60, 2000)), tf.float32) for s in (1, 2))
    ends = np.cumsum(1 / np.arange(1, 6)) / sum(1 / np.arange(1, 6))
    sizes = tf.cast(1 + tf.searchsorted(ends[:-1].astype(np.float32), tf.reshape(n, [-1]), side="right"), tf.int32)
    next_start = permutation.next_starts(ones, batch["padding_mask"])
    made = permutation.span_walk(next_start, rows, rows, tf.reshape(sizes, [60, 2000]), offsets).numpy()
    assert made.mean() == pytest.approx(0.14, abs=0.005)  # below 1 / 6, since contexts are cut at the end
    drawn = permutation.sample(ones, batch["padding_mask"], 43, batch["seed"]).numpy()
    assert (drawn.sum(1) == 43).all()
