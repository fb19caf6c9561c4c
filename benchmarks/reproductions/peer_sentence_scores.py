"""Hugging Face's BERT as the cross-encoder of `sentence_scores`: is it behind the vectors elsewhere too, at the same budget?

It begins with the same published weights and reads the same rows for as many passes, at the rate that was best for ours: one number
from the mean of all states, which begins at the mean of the training rows. Network, tokenizer, derivatives and optimizer are Hugging
Face's and PyTorch's.
"""

import numpy as np

from benchmarks.reproductions.peer_bert import pooled
from benchmarks.reproductions.peer_siamese import learn

BATCH, LENGTH, SCORED = 32, 64, 128  # rows of a step, tokens of a pair, rows that are scored at once


def score(options, rows: dict[str, list], rate: float) -> float:
    """Returns Spearman's correlation on the test rows with the first seed, of the epoch that is best on the development rows.

    Args:
        options: of `sentence_scores`.
        rows: `train`, `dev` and `test`.
    """
    import torch

    torch.manual_seed(options.seeds[0])
    network = network_of(options.published, float(np.mean([float(row.label) for row in rows["train"]])))

    def loss(batch):
        return torch.nn.functional.mse_loss(network(batch), torch.tensor([float(row.label) for row in batch]))

    parts = {**rows, "eval": rows["dev"]}
    return learn(network, parts, loss, correlation, BATCH, rate, options.seeds[0], options.epochs, muon=False)


def network_of(published: str, start: float):
    """Returns a module that gives a number for each row."""
    import torch
    import transformers

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.AutoModel.from_pretrained(published, add_pooling_layer=False)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(published)
            self.dropout = torch.nn.Dropout(self.bert.config.hidden_dropout_prob)
            self.head = torch.nn.Linear(self.bert.config.hidden_size, 1)
            torch.nn.init.normal_(self.head.weight, std=self.bert.config.initializer_range)
            torch.nn.init.constant_(self.head.bias, start)

        def forward(self, rows):
            sides = [[row.texts[side] for row in rows] for side in (0, 1)]
            held = self.tokenizer(*sides, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
            states = self.bert(**held).last_hidden_state
            return self.head(self.dropout(pooled(states, held["attention_mask"], "mean")))[:, 0]

    return Network()


def correlation(network, rows: list) -> float:
    import torch

    from xmodels.tasks.regress.score import scores as scored

    with torch.no_grad():
        found = [network(rows[first : first + SCORED]).numpy() for first in range(0, len(rows), SCORED)]
    return scored(np.concatenate(found), np.array([float(row.label) for row in rows]))["spearman"]
