"""Transfer then and now: word vectors, recurrent language models, a translator and small Transformers, with few labels and with more.

    python -m benchmarks.reproductions.then_and_now --language=en --output_dir=then-and-now-en --set=train=text.txt,…

Runs `xmodels compare` on samples/compare/then_and_now_LANGUAGE.yaml, whose head names what `--set` gives, and writes its numbers as a
page. Interrupted, the same command goes on.
"""

import os
import statistics

from benchmarks.reproductions.family import compared, differences, means, parser_of
from benchmarks.reproductions.pages import environment, verdict, write_page, write_picture
from benchmarks.reproductions.pretraining_report import GAIN, accuracies, rates

FEW, MOST = "labels_100", "labels_5000"
AVERAGED = ("glove", "skip_gram", "fasttext")
LABELS_ALONE = ("bag_of_words", "fasttext_classifier", "text_cnn", "bilstm")
PRETRAINED = ("cove", "elmo", "ulmfit", "siatl", "bert", "gpt")
BEGUN = {"text_cnn_vectors": "text_cnn", "bilstm_vectors": "bilstm"}
KINDS = {  # how the picture draws arms
    "labels alone": LABELS_ALONE, "averaged vectors": AVERAGED, "begun with vectors": tuple(BEGUN), "pretrained": PRETRAINED,
}  # fmt: skip
COLOURS = {
    "labels alone": "grey",
    "averaged vectors": "tab:orange",
    "begun with vectors": "tab:green",
    "pretrained": "tab:blue",
}


def main() -> None:
    flags = parser_of(__doc__).parse_args()
    report(flags, *compared("then_and_now", flags))


def claims(found: dict) -> dict[str, bool]:
    """What one transfers for -> whether it came out, by means over seeds."""
    mean = means(found)

    def best(arms, task: str) -> float:
        return max(mean[arm, task] for arm in arms)

    def gain(task: str) -> float:
        return best(PRETRAINED, task) - best(LABELS_ALONE, task)

    answers = {
        f"100 labels: `{begun}` is better than `{alone}` by more than two points": mean[begun, FEW]
        > mean[alone, FEW] + GAIN
        for begun, alone in BEGUN.items()
    }
    answers["100 labels: averaged vectors are better than all that learns from labels alone"] = best(
        AVERAGED, FEW
    ) > best(LABELS_ALONE, FEW)
    for arm in PRETRAINED:
        answers[f"100 labels: `{arm}` is better than all that learns from labels alone"] = mean[arm, FEW] > best(
            LABELS_ALONE, FEW
        )
    answers["what pretraining gains falls from 100 labels to 5,000"] = gain(FEW) > gain(MOST)
    answers["5,000 labels: a pretrained network is still better than all that learns from labels alone"] = (
        gain(MOST) > 0
    )
    return answers


def report(flags, plan: str, values: dict, found: dict) -> None:
    name, seeds = f"then_and_now_{flags.language}", values["finetuning"]["seeds"]
    minutes = values["budget"]["processor_minutes"]
    parts = [
        f"Each pretraining has {minutes:g} processor minutes of training steps: vectors, language models, the translator whose "
        "encoder CoVe is, and Transformers. Then all learn the same task from 100, 1,000 and 5,000 labels, in "
        f"{len(seeds)} seeds, with the rate and the epoch that are best on development rows for the arm and task. Test rows are read "
        "once. Deviations are those of fine-tunings; a second pretraining would differ too. Cross-View Training has no views for "
        "single texts and is not here. " + flags.about,
        verdict(claims(found)),
        "## Accuracy\n\nOf the test rows in percent, mean and deviation over seeds.",
        accuracies(found),
        f"![Accuracy over labels]({name}.png)",
        "## Rates that were chosen",
        rates(found),
        f"## Differences from {found['reference']}\n\nA paired permutation test over test rows, two-sided, with Holm's correction "
        "over all rows of this table; it speaks of these networks, not of other pretrainings.",
        differences(found),
        *([f"Failed: {', '.join(found['failed'])}."] if found["failed"] else ()),
        f"The plan is [{os.path.basename(plan)}](../../../{plan}).",
        environment(
            f"python -m benchmarks.reproductions.then_and_now --language={flags.language} …", seeds, flags.jobs
        ),
    ]
    print(write_page(name, values["name"], parts))
    print(write_picture(name, lambda figure: draw(figure, found), width=8.0, height=5.0))


def draw(figure, found: dict) -> None:
    """Draws the accuracy of each arm over the number of labels."""
    axes, tasks = figure.subplots(), list(found["scores"])
    labels, ends = [int(task.rpartition("_")[2]) for task in tasks], {}
    for kind, arms in KINDS.items():
        for arm in arms:
            values = [100 * statistics.mean(found["scores"][task][arm]["test_accuracy"]) for task in tasks]
            axes.plot(labels, values, "o-", color=COLOURS[kind], alpha=0.7, markersize=3)
            ends[arm] = values[-1]
    lowest, highest = axes.get_ylim()
    name_at = 2 * highest
    for arm, value in sorted(ends.items(), key=lambda end: -end[1]):
        name_at = min(value, name_at - (highest - lowest) / 45)  # the height of a name
        axes.annotate(arm, (labels[-1], name_at), fontsize=7, xytext=(4, -2), textcoords="offset points")
    for kind, colour in COLOURS.items():
        axes.plot([], [], color=colour, label=kind)
    axes.set(xscale="log", xlabel="labels", ylabel="test accuracy, %")
    axes.set_xticks(labels, [f"{each:,}" for each in labels])
    axes.legend(fontsize=8)


if __name__ == "__main__":
    main()
