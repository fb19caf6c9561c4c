"""Efficient attention beside other libraries: one layer on 4,096 tokens, forward and backward.

    python -m benchmarks.efficient_peers --output=benchmarks/results/efficient_peers.md

Beside Longformer, BigBird and Reformer of transformers, and the Performer and Reformer of performer-pytorch and reformer-pytorch: each
with its projections, 4 heads of 64, one text, float32, no dropout, the same windows, blocks, rounds and features. A measurement is a
process of its own on one core; ours is compiled by XLA. Time is that of the processor, the least of a few steps; memory is what the
process holds at its peak beyond what it held before the first step. Libraries that are not installed are left out.
"""

import importlib.util
import json

from benchmarks import measure
from benchmarks.efficient_attention import HEAD_DIM, HEADS, step_of

NAME = "benchmarks.efficient_peers"
LENGTH, WIDTH = 4096, HEADS * HEAD_DIM
WINDOW, NUM_GLOBAL, BLOCK, NUM_RANDOM = 128, 16, 64, 3
HASHES, CHUNK, FEATURES = 2, 64, 266
GOAL = 1.5


def longformer():
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1, attention_window=[2 * WINDOW],
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = LongformerSelfAttention(config, 0)
    mask = torch.zeros(1, LENGTH)
    mask[:, :NUM_GLOBAL] = 10000.0  # positive numbers are global tokens
    given = {"is_index_masked": mask < 0, "is_index_global_attn": mask > 0, "is_global_attn": True}
    return layer, lambda x: layer(x, attention_mask=mask, **given)[0], True


def bigbird():
    import torch
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    config = BigBirdConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1, block_size=BLOCK, num_random_blocks=NUM_RANDOM,
        max_position_embeddings=LENGTH, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = BigBirdBlockSparseAttention(config, seed=0)
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, LENGTH), BLOCK)
    masks = {"band_mask": band, "from_mask": rows, "to_mask": columns, "from_blocked_mask": blocked}
    return layer, lambda x: layer(x, **masks, to_blocked_mask=blocked)[0], True


def reformer():
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    config = ReformerConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, attention_head_size=HEAD_DIM, num_hashes=HASHES, lsh_attn_chunk_length=CHUNK,
        lsh_num_chunks_before=1, lsh_num_chunks_after=0, is_decoder=True, max_position_embeddings=LENGTH,
        axial_pos_shape=(64, LENGTH // 64), lsh_attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = LSHSelfAttention(config)
    return layer, lambda x: layer(x).hidden_states, True


def performer_pytorch():
    from performer_pytorch import SelfAttention

    layer = SelfAttention(WIDTH, heads=HEADS, dim_head=HEAD_DIM, causal=True, nb_features=FEATURES)
    return layer, layer, False


def reformer_pytorch():
    from reformer_pytorch import LSHSelfAttention

    layer = LSHSelfAttention(WIDTH, heads=HEADS, bucket_size=CHUNK, n_hashes=HASHES, causal=True)
    return layer, layer, False


# Name -> our mixer, the package, and what makes the layer: it, a function of the states, and whether it lacks the last projection.
PEERS = {
    "transformers, Longformer": ("longformer", "transformers", longformer),
    "transformers, BigBird": ("bigbird", "transformers", bigbird),
    "transformers, Reformer": ("lsh", "transformers", reformer),
    "performer-pytorch": ("performer", "performer_pytorch", performer_pytorch),
    "reformer-pytorch": ("lsh", "reformer_pytorch", reformer_pytorch),
}


def peer_step(name: str) -> dict:
    """Returns the processor seconds of a step of another library and its megabytes."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer, mix, lacks_merge = PEERS[name][2]()
    layer.train()
    merge = torch.nn.Linear(WIDTH, WIDTH) if lacks_merge else torch.nn.Identity()
    x = torch.randn(1, LENGTH, WIDTH, requires_grad=True)
    weights = [x, *layer.parameters(), *merge.parameters()]
    before, seconds = measure.peak_megabytes(), []
    for _ in range(5):
        for weight in weights:
            weight.grad = None
        started = measure.processor_seconds()
        (merge(mix(x)) ** 2).sum().backward()
        seconds.append(measure.processor_seconds() - started)
    if x.grad is None or not torch.isfinite(x.grad).all():
        raise RuntimeError(f"{name}: no gradient came back.")
    return {"processor": min(seconds[1:]), "megabytes": measure.peak_megabytes() - before}


def page(ours: dict[str, dict], theirs: dict[str, dict]) -> str:
    """Returns the table, as Markdown."""
    rows = []
    for name, (mixer, _, _) in PEERS.items():
        if name not in theirs or mixer not in ours:
            continue
        own, peer = ours[mixer], theirs[name]
        ratio = peer["processor"] / own["processor"]
        rows.append([
            name, f"`{mixer}`", f"{1000 * own['processor']:,.0f}", f"{1000 * peer['processor']:,.0f}", f"{ratio:.2f}",
            "yes" if ratio >= GOAL else "no", f"{own['megabytes']:,.0f}", f"{peer['megabytes']:,.0f}",
        ])  # fmt: skip
    parts = [
        "# Efficient attention beside other libraries", "",
        f"`python -m {NAME}`: one layer of {HEADS} heads of {HEAD_DIM} with its projections, {LENGTH:,} tokens, batch 1, float32,",
        "forward and back, without dropout, one core, processor time; ours compiled by XLA. Windows of 128 to each side and 16 global",
        "tokens; blocks of 64 with 3 random ones; 2 rounds of hashing, chunks of 64; 266 features, causal. Reformer and Performer are",
        f"causal; that of performer-pytorch runs without its CUDA kernel. Ratio: how many times as fast ours is; the goal is {GOAL}.",
        measure.machine(1), "",
        measure.table(["library", "ours", "ms, ours", "ms, theirs", "ratio", "goal", "MB, ours", "MB, theirs"], rows),
    ]  # fmt: skip
    return "\n".join(parts)


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--name", help="of one measurement")
    args = parser.parse_args()
    if args.method == "ours":
        print(json.dumps(step_of(args.name, LENGTH)))
        return
    if args.method == "theirs":
        print(json.dumps(peer_step(args.name)))
        return
    there = {name: mixer for name, (mixer, package, _) in PEERS.items() if importlib.util.find_spec(package)}
    theirs = {name: alone("theirs", name) for name in there}
    ours = {mixer: alone("ours", mixer) for mixer in dict.fromkeys(there.values())}
    failed = {name: each["error"] for name, each in {**theirs, **ours}.items() if "error" in each}
    if failed:
        raise SystemExit(f"Not measured: {failed}")
    measure.publish(page(ours, theirs), args.output)


def alone(method: str, name: str) -> dict:
    """Returns what a process of its own measures."""
    found = measure.alone(NAME, [method, f"--name={name}"])
    print(f"{method}, {name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    main()
