"""What counting can name without a network, and what a run says that is not better."""

import collections

import numpy as np
import pytest

from data_pipelines.errors import DataError
from xmodels.jobs.pretrain.neighbours import (
    BEFORE,
    BOTH,
    HIDDEN,
    Cases,
    Counts,
    Shares,
    find_all_tokens,
    find_targets,
    measure_shares,
)
from xmodels.runs.baselines import Baselines


def masked(rows, hidden, shown=9):
    """A batch that hides one position of each row, as the token `shown`."""
    clean = np.array(rows, np.int32)
    positions = np.array(hidden, np.int32)[:, None]
    token_ids = clean.copy()
    np.put_along_axis(token_ids, positions, shown, axis=1)
    labels = np.take_along_axis(clean, positions, axis=1)
    weights = np.ones_like(labels, np.float32)
    return {
        "token_ids": token_ids, "padding_mask": clean > 0, "mask_positions": positions, "labels": labels,
        "label_weights": weights,
    }  # fmt: skip


def causal(rows):
    ids = np.array(rows, np.int32)
    labels = np.pad(ids[:, 1:], [(0, 0), (0, 1)])
    return {
        "token_ids": ids,
        "padding_mask": ids > 0,
        "labels": labels,
        "label_weights": (labels > 0).astype("float32"),
    }


def triples(cases):
    return sorted(zip(cases.first.tolist(), cases.second.tolist(), cases.token.tolist(), strict=True))


def test_hidden_tokens_are_put_back_before_they_are_counted_and_padding_is_not_counted():
    batch = masked([[1, 5, 6, 2, 0], [1, 7, 5, 6, 2]], [2, 1])
    assert triples(find_all_tokens(batch, BOTH)) == sorted(
        [(1, 6, 5), (5, 2, 6), (6, 0, 2), (1, 5, 7), (7, 6, 5), (5, 2, 6)]
    )
    assert triples(find_targets(batch, BOTH)) == sorted([(5, 2, 6), (1, 5, 7)])


def test_special_tokens_are_neighbours_but_no_answers_unless_they_are_asked_for():
    rows = [[1, 3, 2, 4, 2]] * 3 + [[1, 3, 5, 4, 2]]  # 2 stands between 3 and 4 more often than 5
    asks_5, asks_2 = masked(rows[-1:], [2]), masked(rows[:1], [2])
    counted = [masked(rows, [1, 1, 1, 1])]
    assert measure_shares(counted, [asks_5], BOTH).neighbours == 0.0
    assert measure_shares(counted, [asks_5], BOTH, special_ids=[1, 2]).neighbours == 1.0
    assert measure_shares(counted, [asks_2], BOTH, special_ids=[1, 2]).neighbours == 1.0


def test_a_target_has_the_neighbours_to_which_it_may_attend():
    batch = masked([[1, 5, 6, 7, 2]], [2], shown=6)  # nothing is replaced, as in XLNet
    seen = np.array([[[True, False, False, True, True]]])
    assert triples(find_targets({**batch, "target_visibility": seen}, BOTH, visible=True)) == [(HIDDEN, 7, 6)]
    both = {name: np.repeat(batch[name], 2, axis=1) for name in ("mask_positions", "labels", "label_weights")}
    both["mask_positions"][:, 1], both["labels"][:, 1] = 3, 7
    seen = np.array([[[True, True, False, False, True], [True, True, True, False, True]]])  # 6, then 7, which sees 6
    given = {**batch, **both, "target_visibility": seen}
    assert triples(find_targets(given, BOTH, visible=True)) == sorted([(5, HIDDEN, 6), (6, 2, 7)])
    given["token_ids"] = np.array([[1, 5, 9, 9, 2]])  # as in UniLM, where masks stand
    assert triples(find_targets(given, BOTH, visible=True)) == sorted([(5, HIDDEN, 6), (HIDDEN, 2, 7)])


def test_what_is_asked_stands_between_its_true_neighbours():
    batch = masked([[1, 5, 6, 2]], [2])
    assert triples(find_targets(batch, BOTH)) == [(5, 2, 6)]
    both = {name: np.concatenate([batch[name], masked([[1, 5, 6, 2]], [1])[name]], axis=1) for name in ("labels",)}
    both |= {"mask_positions": np.array([[2, 1]]), "label_weights": np.ones((1, 2), np.float32)}
    both |= {"token_ids": np.array([[1, 9, 9, 2]]), "padding_mask": batch["padding_mask"]}
    assert triples(find_targets(both, BOTH)) == sorted([(5, 2, 6), (1, 6, 5)])
    assert triples(find_targets(both, BOTH, visible=True)) == sorted([(HIDDEN, 2, 6), (1, HIDDEN, 5)])
    assert triples(find_targets(causal([[4, 5, 6, 0]]), BEFORE)) == [(0, 4, 5), (4, 5, 6)]


def test_a_decoder_is_told_by_what_it_has_read_of_the_target():
    batch = causal([[4, 5, 6, 0]])
    batch["target_ids"], batch["token_ids"] = batch["token_ids"], np.full((1, 4), 8)
    assert triples(find_targets(batch, BEFORE)) == [(0, 4, 5), (4, 5, 6)]


@pytest.mark.parametrize("context", [BOTH, BEFORE])
@pytest.mark.parametrize("leave_out", [False, True])
def test_answers_are_those_of_plain_counting(context, leave_out):
    rng = np.random.default_rng(0)
    draw = lambda n, width: Cases(*(rng.integers(1, width, n) for _ in range(3)))  # noqa: E731
    counted = draw(400, 8)
    questions = counted if leave_out else draw(300, 11)  # some of these were never counted
    whole = [collections.defaultdict(collections.Counter) for _ in range(3)]
    for a, b, token in triples(counted):
        for table, key in zip(whole, ((a, b), a, b), strict=True):
            table[key][token] += 1

    def tables_for(a, b, token):
        """All tables, without the one occurrence that is asked about."""
        tables = [
            {key: table[key].copy() for key in (key,) if key in table}
            for table, key in zip(whole, ((a, b), a, b), strict=True)
        ]
        for table in tables if leave_out else ():
            for key, counter in list(table.items()):
                counter[token] -= 1
                table[key] = +counter
                if not table[key]:
                    del table[key]
        return tables

    def best(counter):
        token, count = min(counter.items(), key=lambda entry: (-entry[1], entry[0]))
        return token, count / counter.total()

    expected = []
    for a, b, token in zip(questions.first, questions.second, questions.token, strict=True):
        tables = tables_for(a, b, token)
        singles = [(tables[1], a), (tables[2], b)] if context == BOTH else [(tables[2], b)]
        if (a, b) in tables[0]:
            expected.append(best(tables[0][a, b])[0])
            continue
        found = [best(table[key]) for table, key in singles if key in table]
        commonest = np.bincount(counted.token).argmax()
        expected.append(max(found, key=lambda entry: entry[1])[0] if found else commonest)
    assert Counts(counted, context).answers(questions, leave_out).tolist() == expected


def test_shares_of_a_text_whose_neighbours_tell_all():
    rows = [[1, *np.roll([3, 4, 5, 6], n), 2] for n in range(4)]
    found = measure_shares([masked(rows, [1, 2, 3, 4])] * 3, [masked(rows, [2, 2, 3, 3])], BOTH)
    assert found == Shares(unigram=0.5, neighbours=1.0, visible=1.0)
    turns = causal([np.tile(np.roll([3, 4, 5, 6], n), 2) for n in range(4)])
    assert measure_shares([turns], [turns], BEFORE).neighbours == 1.0
    empty = masked(rows, [1, 1, 1, 1])
    empty["label_weights"][:] = 0
    assert measure_shares([empty], [empty], BOTH) == Shares()


def test_what_a_network_does_not_see_is_not_counted_either():
    """Words of two tokens, 10 n + 1 and 10 n + 2, in a drawn order: each tells the other, and the words beside it tell nothing."""
    words = np.random.default_rng(0).integers(1, 200, (60, 10))
    rows = np.stack([10 * words + 1, 10 * words + 2], axis=2).reshape(60, 20)
    batch = masked(rows, np.full(60, 8))
    whole = {name: np.concatenate([batch[name]] * 2, axis=1) for name in ("mask_positions", "labels", "label_weights")}
    whole["mask_positions"][:, 1] = 9
    whole["labels"] = np.take_along_axis(rows, whole["mask_positions"], axis=1).astype(np.int32)
    alone, both = measure_shares([batch], [batch], BOTH), measure_shares([batch], [batch | whole], BOTH)
    assert alone.neighbours == alone.visible > 0.95
    assert both.neighbours > 0.95 and both.visible < 0.5
    assert measure_shares([causal(rows)], [causal(rows)], BEFORE).visible is None


def test_a_text_that_is_scored_itself_does_not_know_its_own_tokens():
    """Random tokens: what was counted knows them by heart, and without the one that is asked about, by chance."""
    rows = np.random.default_rng(0).integers(1, 2000, (40, 30))
    assert measure_shares([causal(rows)], [causal(rows)], BEFORE).neighbours > 0.98
    assert measure_shares([causal(rows)], [causal(rows)], BEFORE, held_out=False).neighbours < 0.02


def test_all_that_is_scored_is_counted_before_its_own_occurrence_is_left_out(monkeypatch):
    monkeypatch.setattr("xmodels.jobs.pretrain.neighbours.MOST_TOKENS", 1)
    batches = [causal([[3, 4, 5, 3, 4, 5]]), causal([[6, 7, 8, 6, 7, 8, 6, 7, 8]])]
    assert measure_shares(batches, batches, BEFORE, held_out=False).neighbours == pytest.approx(12 / 13)


def test_a_run_that_has_learnt_nothing_is_told_so_after_a_tenth_of_it():
    lines = Baselines(0.05, 0.3)
    assert not lines.has_learnt_nothing(0.05, 99, 1000)
    assert lines.has_learnt_nothing(0.05, 100, 1000)
    assert not lines.has_learnt_nothing(0.06, 100, 1000)
    assert not lines.has_learnt_nothing(0.0, 50, 100)  # a trial


def test_baselines_come_back_from_their_folder(tmp_path):
    assert Baselines.read(str(tmp_path)) is None
    Baselines(0.05, 0.3, "causal_lm_accuracy").write(str(tmp_path))
    assert Baselines.read(str(tmp_path)) == Baselines(0.05, 0.3, "causal_lm_accuracy")
    lines = Baselines(0.05, 0.3, visible_baseline=0.25)
    lines.write(str(tmp_path))
    assert (
        Baselines.read(str(tmp_path)) == lines
        and "25.0% by counts of those neighbours that the network sees" in lines.sentence()
    )
    assert list(lines.levels.values()) == [0.05, 0.3, 0.25]
    (tmp_path / "baseline.json").write_text('{"unigram_baseline": 0.05}')  # of an older run
    assert Baselines.read(str(tmp_path)).levels == {"most frequent token": 0.05}
    (tmp_path / "baseline.json").write_text('{"unigram_baseline": "much"}')
    with pytest.raises(DataError, match="baseline.json: .*unigram_baseline"):
        Baselines.read(str(tmp_path))
