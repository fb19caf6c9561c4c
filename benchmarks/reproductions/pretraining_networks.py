"""The networks that a page of `pretraining` compares."""

import dataclasses

from benchmarks.reproductions import peer_bert, peer_gpt

ONE_LENGTH = {"one_length": {"system": "bert", "flags": {"length_schedule": "none"}}}
PEER_ERNIE = "hugging_face_ernie"
ERNIE = dataclasses.replace(
    peer_bert.BERT, name=PEER_ERNIE, pretraining="ErnieForPreTraining", encoder="ErnieModel", trunk="ernie"
)


@dataclasses.dataclass(frozen=True)
class Networks:
    """What stands on one page.

    Attributes:
        systems: arms of the plan of `xmodels compare`.
        controls: arm that claims are about -> the same network from random weights.
        measured: the arm that the peer is compared with.
        peer: Hugging Face's network of the same kind.
        lengths: whether two lengths of rows are compared with one.
        gaps: whether the networks fill gaps of held-out text.
        name: of the page, which the language follows.
    """

    title: str
    systems: dict[str, dict]
    controls: dict[str, str]
    measured: str
    peer: peer_bert.Architecture
    lengths: bool = False
    gaps: bool = False
    name: str = "pretraining"

    @property
    def random(self) -> list[str]:
        """Arms that are fine-tuned from random weights too."""
        return list(dict.fromkeys(name.removeprefix("random-") for name in self.controls.values()))


def networks_of(language: str, kind: str) -> Networks:
    """Those of a page.

    Raises:
        SystemExit: there are none.
    """
    if (language, kind) not in NETWORKS:
        raise SystemExit(f"--networks={kind} --language={language}: expected one of {sorted(NETWORKS)}.")
    return NETWORKS[language, kind]


NETWORKS = {
    ("en", "bert"): Networks(
        "BERT and RoBERTa-wwm: pretraining against random weights, English",
        {"bert": {}, "roberta_wwm": {}},
        {"bert": "random-bert", "roberta_wwm": "random-bert"},
        "bert",
        peer_bert.BERT,
        lengths=True,
    ),
    ("en", "gpt"): Networks(
        "GPT: pretraining against random weights, English",
        {
            "gpt": {"finetune": {"auxiliary_lm_weight": 0.0}},
            "gpt_lm": {"system": "gpt", "finetune": {"auxiliary_lm_weight": 0.5}},
        },
        {"gpt": "random-gpt"},
        "gpt",
        peer_gpt.GPT,
        name="pretraining_gpt",
    ),
    ("zh", "bert"): Networks(
        "BERT and BERT-wwm: pretraining against random weights, Chinese",
        {"bert": {}, "bert_wwm": {}},
        {"bert": "random-bert", "bert_wwm": "random-bert"},
        "bert",
        peer_bert.BERT,
        lengths=True,
        gaps=True,
    ),
    ("zh", "ernie"): Networks(
        "ERNIE 1.0: hiding characters, words and names against characters alone",
        # Units that find no slot stay visible, so there is room for more than the share of the tokens that is hidden.
        {"bert": {}, "ernie": {"records": {"max_predictions_per_seq": 64}}},
        {"ernie": "random-bert"},
        "bert",
        peer_bert.BERT,
        gaps=True,
        name="pretraining_ernie",
    ),
}
